"""Fold buffers on a device: launches, passes, combining, folds by key."""

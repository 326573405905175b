"""Fold by key: an accumulator for each group of elements that have the same label."""

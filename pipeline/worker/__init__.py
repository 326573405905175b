"""Fold blocks and combine partials on a worker's device."""

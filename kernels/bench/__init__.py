"""Measure kernels: against the device's read ceiling, and against other libraries."""

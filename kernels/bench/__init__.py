"""Measure kernels: against the device's read ceiling, and against what else a user could take."""

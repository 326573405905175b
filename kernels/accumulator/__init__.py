"""Describe what kernels fold into: components, accumulators and partials, as plain data."""

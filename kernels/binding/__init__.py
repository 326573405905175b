"""Monoids bound to dtypes: statistics over one accumulator, their laws, and NumPy's evaluation."""

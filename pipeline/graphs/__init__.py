"""Graphs of Dask's: which of their layers are reductions of stored arrays."""

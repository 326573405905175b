"""Typed expressions: one tree gives OpenCL C of any vector width, and NumPy's value.

`symbols` are what users' functions compute with, `nodes` what that makes, `meanings` the table of
operations; `rewrite`, `verify`, `evaluate`, `emit` and `shown` each do one thing with trees.
"""

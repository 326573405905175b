"""Typed expressions: one tree gives OpenCL C of any vector width, and NumPy's value.

Users' functions compute with `symbols`, which make trees of `nodes`. `meanings` is the table of
operations and the check of trees; `rewrite`, `evaluate`, `emit` and `infix` each do one thing with
trees.
"""

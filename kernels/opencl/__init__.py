"""Pieces of OpenCL C: how elements are read and named, one or in lanes."""

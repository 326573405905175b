"""Bytes of nodes' values, and integers of the same size."""

from __future__ import annotations

import numpy as np

from chunkfold.kernels.expressions.nodes import BOOL, Node


def size_of(one: Node) -> int:
    """Return the bytes of a node's value; of a truth, those of the integer that holds it."""
    if one.dtype != BOOL:
        return one.dtype.itemsize
    if one.op in ("input", "field", "constant", "lookup") or not one.sources:
        return 1
    if one.op == "select":
        return max(map(size_of, one.sources[1:]))
    return max(map(size_of, one.sources))


def unsigned(dtype: np.dtype) -> np.dtype:
    """Return the unsigned integer dtype of the same size."""
    return np.dtype(f"u{dtype.itemsize}")


def signed(dtype: np.dtype) -> np.dtype:
    """Return the signed integer dtype of the same size."""
    return np.dtype(f"i{dtype.itemsize}")

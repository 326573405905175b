"""The value of each operation as NumPy computes it, given the node and its sources' values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chunkfold.kernels.expressions.nodes import Node

Value = Any
"""An array or a scalar of NumPy's."""


def of(function: Callable[..., Value]) -> Callable[..., Value]:
    """Return the value that one of NumPy's functions gives of the sources."""

    def value(n: Node, *given: Value) -> Value:
        del n
        return function(*given)

    return value


def converted(n: Node, a: Value) -> Value:
    """Convert to another dtype: to integers towards 0, saturated, and NaN to 0."""
    if np.asarray(a).dtype.kind == "f" and n.dtype.kind in "iu":
        limits, array = np.iinfo(n.dtype), np.asarray(a)
        least, most = float(limits.min), float(limits.max)  # the latter may be one too many
        inside = (array >= least) & (array < most)
        whole = np.where(inside, array, 0).astype(n.dtype)
        found = np.where(array >= most, limits.max, np.where(array < least, limits.min, whole))
        return np.where(array != array, 0, found).astype(n.dtype)
    return np.asarray(a).astype(n.dtype)


def quotient(n: Node, a: Value, b: Value) -> Value:
    """Divide integers, and round towards 0."""
    floor = np.floor_divide(a, b)
    odd = ((np.asarray(a) < 0) != (np.asarray(b) < 0)) & (floor * b != a)
    return (floor + odd).astype(n.dtype)


def high_product(n: Node, a: Value, b: Value) -> Value:
    """Return the upper half of products, by digits of half as many bits."""
    bits, wide = 8 * n.dtype.itemsize, {1: "i2", 2: "i4", 4: "i8"}.get(n.dtype.itemsize)
    if wide is not None:
        wide = wide.replace("i", n.dtype.kind)
        return (np.multiply(a, b, dtype=wide) >> bits).astype(n.dtype)
    product = np.asarray(a).astype(object) * np.asarray(b).astype(object)
    return np.asarray(product >> bits).astype(n.dtype)


def towards_zero(n: Node, a: Value) -> Value:
    """Round integers to floats, and take one step back where that went away from zero."""
    near = np.asarray(a).astype(n.dtype)
    far = np.abs(near.astype(np.longdouble)) > np.abs(np.asarray(a).astype(np.longdouble))
    return np.where(far, np.nextafter(near, n.dtype.type(0)), near)


def lookup(n: Node, index: Value) -> Value:
    """Take from a table by index, or the default where there is no such entry."""
    raw, default = n.arg
    table = np.frombuffer(raw, n.dtype)
    inside = (index >= 0) & (index < len(table))
    return np.where(inside, table[np.where(inside, index, 0)], np.frombuffer(default, n.dtype)[0])


def search(n: Node, key: Value, *_: Value) -> Value:
    """Return the number of the bin that a key is in: -1 below the first edge."""
    table = np.frombuffer(n.arg[0], n.sources[0].dtype)
    return np.searchsorted(table, key, side="right").astype(n.dtype) - n.dtype.type(1)


def fused(n: Node, a: Value, b: Value, c: Value) -> Value:
    """Round a * b + c in the widest float that NumPy has, and then once more.

    Of float32 that is what devices do; of float64 it may differ from them by the last bit.
    """
    return (np.multiply(a, b, dtype=np.longdouble) + c).astype(n.dtype)

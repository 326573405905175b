"""The reductions that come with chunkfold, each a declaration."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from chunkfold.kernels.dtypes import from_order
from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.monoid import Fields, Monoid


def _numpy_sum(fields: Fields, value: np.dtype) -> np.ndarray:
    """Give the one field NumPy's result dtype: floats keep theirs, integers widen."""
    with np.errstate(over="ignore"):  # a sum beyond the dtype is infinite, as in NumPy
        return fields["s"].astype(value) if value.kind == "f" else fields["s"]


def _numpy_mean(fields: Fields, value: np.dtype) -> np.ndarray:
    with np.errstate(invalid="ignore", over="ignore"):  # 0 / 0, the mean of nothing, is NaN
        mean = fields["s"] / fields["n"]
        return mean.astype(value if value.kind == "f" else np.float64)


def _ordered(fields: Fields, value: np.dtype) -> np.ndarray:
    return from_order(fields["m"], value)


def _truth(fields: Fields, _value: np.dtype) -> np.ndarray:
    return fields["t"].astype(np.bool_)


def _bits(fields: Fields, value: np.dtype) -> np.ndarray:
    return fields["m"].astype(value)


def _complement(fields: Fields, value: np.dtype) -> np.ndarray:
    return (~fields["m"]).astype(value)


_BITS: Any = {"fields": {"m": "order"}, "zero": 0, "kinds": "biu"}
_CATALOGUE = (
    Monoid("sum", fields={"s": "sum"}, zero=0, lift="x", op="add", finish=_numpy_sum),
    Monoid("prod", fields={"s": "sum"}, zero=1, lift="x", op="a.s * b.s", finish=_numpy_sum),
    # Integer keys make the order of floats total: NaN propagates and -0 < +0 in any order.
    Monoid(
        "min",
        fields={"m": "order"},
        zero="highest",
        lift="order_low(x)",
        op="min",
        finish=_ordered,
        on_empty="error",
    ),
    Monoid(
        "max",
        fields={"m": "order"},
        zero="lowest",
        lift="order_high(x)",
        op="max",
        finish=_ordered,
        on_empty="error",
    ),
    Monoid(
        "mean",
        fields={"s": "mean", "n": "int64"},
        zero={"s": 0, "n": 0},
        lift={"s": "x", "n": "1"},
        op={"s": "add", "n": "add"},
        finish=_numpy_mean,
    ),
    Monoid("any", fields={"t": "int32"}, zero=0, lift="x != 0", op="max", finish=_truth),
    Monoid("all", fields={"t": "int32"}, zero=1, lift="x != 0", op="min", finish=_truth),
    Monoid("count_nonzero", fields={"n": "int64"}, zero=0, lift="x != 0", op="add"),
    # De Morgan: the identity of "and" differs between dtypes, that of "or" is 0.
    Monoid("bitwise_and", **_BITS, lift="~x", op="a.m | b.m", finish=_complement),
    Monoid("bitwise_or", **_BITS, lift="x", op="a.m | b.m", finish=_bits),
    Monoid("bitwise_xor", **_BITS, lift="x", op="a.m ^ b.m", finish=_bits),
)

CATALOGUE: Mapping[str, Monoid] = MappingProxyType({monoid.name: monoid for monoid in _CATALOGUE})
"""Every built-in reduction by its name."""


def as_monoid(op: str | Monoid) -> Monoid:
    """Return the monoid that `op` names, or `op` itself.

    Raises
    ------
    MonoidError
        If no reduction has that name; the message suggests the nearest.
    """
    if isinstance(op, Monoid):
        return op
    if not isinstance(op, str):
        raise MonoidError(f"a reduction is a name or a Monoid, not {op!r}")
    if op in CATALOGUE:
        return CATALOGUE[op]
    near = difflib.get_close_matches(op.lower(), CATALOGUE, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    raise MonoidError(f"no reduction is called {op!r}{hint} There are: {', '.join(CATALOGUE)}")

"""Products of integers, added up exactly: squares, dots, and the moments and norms made of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from chunkfold.kernels import exact
from chunkfold.kernels.accumulate import Accumulate
from chunkfold.kernels.context import Context, Fields
from chunkfold.kernels.integers import (
    ADDED,
    COUNTED,
    SUM,
    added_by_halves,
    added_up,
    by_dtype,
    carried,
    few_added_up,
    fitted,
    halves,
    rounded,
    sum_fields,
    together,
)
from chunkfold.kernels.monoid import Monoid

DISTANCE = "(x0 > x1 ? (ulong)x0 - (ulong)x1 : (ulong)x1 - (ulong)x0)"
"""How far two integers are apart, which 64 bits without a sign always hold."""
_DIGITS = ("q0", "q1", "q2", "q3")


def _digits(dtype: np.dtype) -> tuple[str, ...]:
    """Return the fields that a sum of products of a dtype is kept in: 96 bits, or 160."""
    return _DIGITS if dtype.itemsize == 8 else _DIGITS[:2]


def product_fields(dtype: np.dtype, first: str, second: str) -> dict[str, Any]:
    """Return how a sum of products is kept: what a monoid declares of it.

    `first` and `second` are the factors, OpenCL C expressions in which {wide} makes 64 bits of
    something, and {distance} is how far x0 and x1 are apart.
    """
    low, high = _digits(dtype)[:2], _digits(dtype)[2:]
    wide = "(ulong)" if dtype.kind == "u" else "(long)"
    forms = _ON_LANES if dtype.itemsize <= 2 else {"wide": wide, "distance": DISTANCE}
    a, b = first.format(**forms), second.format(**forms)
    if high:
        pieces = halves(f"(ulong)({a}) * (ulong)({b})", low) | halves(f"mul_hi({a}, {b})", high)
    else:
        pieces = halves(f"{a} * {b}", low)
    return {
        "fields": dict.fromkeys(pieces, "int64"),
        "zero": dict.fromkeys(pieces, 0),
        "lift": pieces,
        "op": carried(ADDED, tuple(pieces)),
        "accumulate": _accumulated(dtype, first, second, pieces),
        "kinds": "biu",
    }


_IN_AN_INT = {"wide": "", "distance": "(x0 - x1)"}
_ON_LANES = {"wide": "wide", "distance": "(wide(x0) - wide(x1))"}
"""Texts that fit vectors: distances of up to 16 bits have a sign, which squares do not."""


def _accumulated(dtype: np.dtype, first: str, second: str, pieces: Mapping[str, str]) -> Accumulate:
    """Choose the fastest way that holds the sum of fewer than 2**31 products."""

    def product(forms: Mapping[str, str]) -> str:
        return f"{first.format(**forms)} * {second.format(**forms)}"

    names = tuple(pieces)
    if dtype.itemsize == 1:
        return few_added_up(product(_IN_AN_INT), halves("s.s", names))
    if dtype.itemsize == 2:
        return added_up(product(_ON_LANES), names)
    if dtype == np.int32 and "{distance}" not in first + second:  # those have up to 64 bits
        return added_by_halves(product(_ON_LANES), names)
    return _piecewise(pieces)


def _piecewise(pieces: Mapping[str, str]) -> Accumulate:
    """Add up piece by piece; the last has the sign. Carries are propagated at the end."""
    return Accumulate(
        state=dict.fromkeys(pieces, "int64"),
        start=dict.fromkeys(pieces, 0),
        step={name: f"s.{name} + (long)({piece})" for name, piece in pieces.items()},
        end=carried("s.{0}", tuple(pieces)),
    )


def integer_products(name: str, inputs: int, first: str, second: str) -> Monoid:
    """Return the sum of products of integers; factors as for `product_fields`."""

    def of(dtype: np.dtype) -> Monoid:
        return Monoid(
            name,
            inputs=inputs,
            **product_fields(dtype, first, second),
            finish=_summed,
            unbounded=True,
        )

    return by_dtype(of)


def _summed(fields: Fields, context: Context) -> np.ndarray:
    digits = [fields[name] for name in _DIGITS if name in fields]
    return fitted(digits, context, "sum of products")


_SQUARES = partial(product_fields, first="{wide}(x)", second="{wide}(x)")


def _moments(name: str, finish: Any, dtype: np.dtype) -> Monoid:
    return Monoid(
        name,
        **together(sum_fields(dtype), _SQUARES(dtype), COUNTED),
        finish=rounded(finish, s=SUM, q=_digits(dtype)),
    )


def _norm2(dtype: np.dtype) -> Monoid:
    return Monoid("norm2", **_SQUARES(dtype), finish=rounded(exact.norm2, q=_digits(dtype)))


INTEGER_VAR = by_dtype(partial(_moments, "var", exact.variance))
INTEGER_STD = by_dtype(partial(_moments, "std", exact.deviation))
INTEGER_NORM2 = by_dtype(_norm2)
INTEGER_SUMSQ = integer_products("sumsq", 1, "{wide}(x)", "{wide}(x)")
INTEGER_DOT = integer_products("dot", 2, "{wide}(x0)", "{wide}(x1)")
INTEGER_SUM_SQ_DIFF = integer_products("sum_sq_diff", 2, "{distance}", "{distance}")

"""Exact sums, means, moments and norms of floats: declarations, and their one rounding."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from chunkfold.kernels.context import Context, Fields
from chunkfold.kernels.finishes import complex_parts
from chunkfold.kernels.limbs import integers, limbs_of, part_of, specials
from chunkfold.kernels.monoid import Monoid
from chunkfold.kernels.rounding import quotients, ratio, root

Rounded = Callable[[int, int, int, np.dtype], float]
"""`ratio` or `root`: numerator, denominator, exponent of the unit, dtype."""


def _divided(tables: np.ndarray, by: np.ndarray, context: Context, degree: int) -> np.ndarray:
    """Divide exact sums by whole numbers; 0 / 0 is NaN, and what is no number stays that."""
    dtype = part_of(context.dtype)
    done = quotients(tables, limbs_of(dtype, degree).low, np.maximum(by, 1), dtype)
    odd = specials(tables)
    done = np.where(odd == 0, done, odd.astype(dtype))
    return np.where(by == 0, np.array(np.nan, dtype), done)


def _sum(name: str, degree: int, fields: Fields, context: Context) -> np.ndarray:
    tables = fields[name]
    return _divided(tables, np.ones(len(tables), np.int64), context, degree)


def _mean(name: str, fields: Fields, context: Context) -> np.ndarray:
    return _divided(fields[name], fields["n"], context, 1)


def _complex_sum(fields: Fields, context: Context) -> np.ndarray:
    return complex_parts({name: _sum(name, 1, fields, context) for name in _PARTS}, context)


def _complex_mean(fields: Fields, context: Context) -> np.ndarray:
    return complex_parts({name: _mean(name, fields, context) for name in _PARTS}, context)


def _spread(rounded: Rounded, fields: Fields, context: Context) -> np.ndarray:
    """Return variances, or their roots: (n * q - s * s) / (n * (n - ddof)), in integers.

    There is no rounding before the last, so nothing cancels.
    """
    unit, ddof = 2 * limbs_of(context.dtype, 1).low, Fraction(context.ddof)

    def of_one(n: int, s: int, q: int) -> float:
        degrees = n - ddof
        over, under = (n * q - s * s) * degrees.denominator, n * degrees.numerator
        if under <= 0:
            return np.inf if over and n else np.nan
        return rounded(over, under, unit, context.dtype)

    rows = zip(fields["n"].tolist(), integers(fields["s"]), integers(fields["q"]), strict=True)
    done = np.array([of_one(*row) for row in rows], np.float64)
    return np.where(specials(fields["q"]) == 0, done, np.nan).astype(context.dtype)


def _norm2(fields: Fields, context: Context) -> np.ndarray:
    low = limbs_of(context.dtype, 2).low
    roots = [root(value, 1, low, context.dtype) for value in integers(fields["q"])]
    odd = specials(fields["q"])
    return np.where(odd == 0, np.array(roots, np.float64), odd).astype(context.dtype)


_PARTS = {"re": "exact", "im": "exact"}
_COMPLEX: Any = {"lift": {"re": "re(x)", "im": "im(x)"}, "op": {"re": "add", "im": "add"}}
_ONE: Any = {"zero": 0, "op": "add", "kinds": "f"}
_MOMENTS: Any = {
    "fields": {"s": "exact", "q": "exact_squares", "n": "int64"},
    "zero": {"s": 0, "q": 0, "n": 0},
    "lift": {"s": "x", "q": "x", "n": "1"},
    "op": {"s": "add", "q": "add", "n": "add"},
    "kinds": "f",
}

EXACT_SUM = Monoid("sum", fields={"s": "exact"}, lift="x", finish=partial(_sum, "s", 1), **_ONE)
EXACT_COMPLEX_SUM = Monoid(
    "sum", fields=_PARTS, zero={"re": 0, "im": 0}, **_COMPLEX, kinds="c", finish=_complex_sum
)
EXACT_MEAN = Monoid(
    "mean",
    fields={"s": "exact", "n": "int64"},
    zero={"s": 0, "n": 0},
    lift={"s": "x", "n": "1"},
    op={"s": "add", "n": "add"},
    kinds="f",
    finish=partial(_mean, "s"),
)
EXACT_COMPLEX_MEAN = Monoid(
    "mean",
    fields=_PARTS | {"n": "int64"},
    zero={"re": 0, "im": 0, "n": 0},
    lift=_COMPLEX["lift"] | {"n": "1"},
    op=_COMPLEX["op"] | {"n": "add"},
    kinds="c",
    finish=_complex_mean,
)
EXACT_NORM1 = Monoid(
    "norm1", fields={"s": "exact"}, lift="magnitude(x)", finish=partial(_sum, "s", 1), **_ONE
)
EXACT_SUMSQ = Monoid(
    "sumsq", fields={"q": "exact_squares"}, lift="x", finish=partial(_sum, "q", 2), **_ONE
)
EXACT_NORM2 = Monoid("norm2", fields={"q": "exact_squares"}, lift="x", finish=_norm2, **_ONE)
EXACT_VAR = Monoid("var", finish=partial(_spread, ratio), **_MOMENTS)
EXACT_STD = Monoid("std", finish=partial(_spread, root), **_MOMENTS)

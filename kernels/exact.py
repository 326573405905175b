"""Exact sums, means, moments and norms of floats: declarations, and their one rounding."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from chunkfold.kernels.context import Context, Fields, Finish
from chunkfold.kernels.finishes import complex_parts
from chunkfold.kernels.limbs import integers, limbs_of, part_of, specials
from chunkfold.kernels.monoid import Monoid
from chunkfold.kernels.rounding import quotients, ratio, root

_KINDS = "f"
Moment = Callable[[int, int, int, Context], float]
"""A result from the count, the sum and the sum of squares, in units of limbs_of(...).low."""


def _quotients(tables: np.ndarray, by: np.ndarray, context: Context, degree: int) -> np.ndarray:
    """Divide exact sums by whole numbers; 0 / 0 is NaN, and what is no number stays that."""
    dtype = part_of(context.dtype)
    done = quotients(tables, limbs_of(dtype, degree).low, np.maximum(by, 1), dtype)
    odd = specials(tables)
    done = np.where(odd == 0, done, odd.astype(dtype))
    return np.where(by == 0, np.array(np.nan, dtype), done)


def _sums(degree: int, name: str) -> Finish:
    def finish(fields: Fields, context: Context) -> np.ndarray:
        tables = fields[name]
        return _quotients(tables, np.ones(len(tables), np.int64), context, degree)

    return finish


def _complex_sums(fields: Fields, context: Context) -> np.ndarray:
    parts = {name: _sums(1, name)(fields, context) for name in ("re", "im")}
    return complex_parts(parts, context)


def _means(fields: Fields, context: Context) -> np.ndarray:
    return _quotients(fields["s"], fields["n"], context, 1)


def _complex_means(fields: Fields, context: Context) -> np.ndarray:
    parts = {name: _quotients(fields[name], fields["n"], context, 1) for name in ("re", "im")}
    return complex_parts(parts, context)


def _moments(moment: Callable[[int, int, int, Fraction, int, np.dtype], float]) -> Finish:
    """Make a finish of what count, sum and sum of squares of an output are."""

    def finish(fields: Fields, context: Context) -> np.ndarray:
        low = limbs_of(context.dtype, 1).low
        rows = zip(fields["n"].tolist(), integers(fields["s"]), integers(fields["q"]), strict=True)
        ddof = Fraction(context.ddof)
        done = [moment(n, s, q, ddof, low, context.dtype) for n, s, q in rows]
        odd = (fields["q"][:, -3:] != 0).any(axis=1)
        return np.where(odd, np.nan, np.array(done, np.float64)).astype(context.dtype)

    return finish


def _spread(n: int, s: int, q: int, ddof: Fraction) -> tuple[int, int]:
    """Return the variance as numerator and denominator, in units of 2**(2 * low)."""
    # n * q - s * s is n times the sum of squared deviations: no rounding, so no cancellation.
    degrees = n - ddof
    return (n * q - s * s) * degrees.denominator, n * degrees.numerator


def _variance(n: int, s: int, q: int, ddof: Fraction, low: int, dtype: np.dtype) -> float:
    over, under = _spread(n, s, q, ddof)
    if under <= 0:
        return np.inf if over and n else np.nan
    return ratio(over, under, 2 * low, dtype)


def _deviation(n: int, s: int, q: int, ddof: Fraction, low: int, dtype: np.dtype) -> float:
    over, under = _spread(n, s, q, ddof)
    if under <= 0:
        return np.inf if over and n else np.nan
    return root(over, under, 2 * low, dtype)


def _norm2(fields: Fields, context: Context) -> np.ndarray:
    tables, dtype = fields["q"], context.dtype
    low = limbs_of(dtype, 2).low
    done = np.array([root(value, 1, low, dtype) for value in integers(tables)], np.float64)
    odd = specials(tables)
    return np.where(odd == 0, done, odd).astype(dtype)


_COUNTED: Any = {"zero": {"s": 0, "n": 0}, "op": {"s": "add", "n": "add"}}
_MOMENTS: Any = {
    "fields": {"s": "exact", "q": "exact_squares", "n": "int64"},
    "zero": {"s": 0, "q": 0, "n": 0},
    "lift": {"s": "x", "q": "x", "n": "1"},
    "op": {"s": "add", "q": "add", "n": "add"},
    "kinds": _KINDS,
}
_ONE: Any = {"zero": 0, "op": "add", "kinds": _KINDS}
_PARTS: Any = {"re": "exact", "im": "exact"}

EXACT_SUM = Monoid("sum", fields={"s": "exact"}, lift="x", finish=_sums(1, "s"), **_ONE)
EXACT_COMPLEX_SUM = Monoid(
    "sum",
    fields=_PARTS,
    zero={"re": 0, "im": 0},
    lift={"re": "re(x)", "im": "im(x)"},
    op={"re": "add", "im": "add"},
    kinds="c",
    finish=_complex_sums,
)
EXACT_MEAN = Monoid(
    "mean",
    fields={"s": "exact", "n": "int64"},
    lift={"s": "x", "n": "1"},
    kinds=_KINDS,
    finish=_means,
    **_COUNTED,
)
EXACT_COMPLEX_MEAN = Monoid(
    "mean",
    fields={**_PARTS, "n": "int64"},
    zero={"re": 0, "im": 0, "n": 0},
    lift={"re": "re(x)", "im": "im(x)", "n": "1"},
    op={"re": "add", "im": "add", "n": "add"},
    kinds="c",
    finish=_complex_means,
)
EXACT_NORM1 = Monoid(
    "norm1", fields={"s": "exact"}, lift="magnitude(x)", finish=_sums(1, "s"), **_ONE
)
EXACT_SUMSQ = Monoid("sumsq", fields={"q": "exact_squares"}, lift="x", finish=_sums(2, "q"), **_ONE)
EXACT_NORM2 = Monoid("norm2", fields={"q": "exact_squares"}, lift="x", finish=_norm2, **_ONE)
EXACT_VAR = Monoid("var", finish=_moments(_variance), **_MOMENTS)
EXACT_STD = Monoid("std", finish=_moments(_deviation), **_MOMENTS)

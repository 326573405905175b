"""Exact sums, means, moments and norms: declarations, and their one rounding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from chunkfold.kernels.accumulator.sums import ExactSums, IntegerSums
from chunkfold.kernels.catalogue.finish_functions import complex_parts
from chunkfold.kernels.catalogue.initial import initial_of
from chunkfold.kernels.catalogue.integer_results import fitted, wanted_integer
from chunkfold.kernels.catalogue.rounded_sums import SumTerms, each_of, make_nan, rounded_sums
from chunkfold.kernels.exact import ziv_rounding
from chunkfold.kernels.exact.limbs import floats_of, integers, specials
from chunkfold.kernels.exact.pieces import OutputsAt
from chunkfold.kernels.exact.rounding import quotients, rounded_ratio, rounded_root
from chunkfold.kernels.exact.ziv_rounding import Estimate, estimated_quotient
from chunkfold.kernels.expressions.library import magnitude
from chunkfold.kernels.monoid.accumulate import Expressions
from chunkfold.kernels.monoid.finish_context import Context, Finish
from chunkfold.kernels.monoid.monoid import Monoid

ExactFields = Mapping[str, Any]
"""Fields, of which the exact ones are `ExactArray`."""


def _divided(sums: ExactSums, by: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Divide exact sums by whole numbers; 0 / 0 is NaN, and NaN and infinities stay."""

    def divisors(at: OutputsAt) -> np.ndarray:
        least: np.ndarray = np.maximum(each_of(by, at), 1)
        return least

    def exactly(at: np.ndarray) -> np.ndarray:
        tables = sums.tables(at)
        odd = specials(tables)
        each = np.broadcast_to(divisors(at), len(at))
        done = quotients(tables, sums.limbs.low, each, dtype)
        return np.where(odd == 0, done, odd.astype(dtype))

    def quickly(terms: SumTerms, at: OutputsAt) -> Estimate:
        return estimated_quotient(terms[0], divisors(at).astype(float))

    def leading(terms: SumTerms, at: OutputsAt) -> np.ndarray:
        near: np.ndarray = terms[0][0] / divisors(at)
        return near

    def doubles(terms: SumTerms, at: OutputsAt) -> np.ndarray | None:
        """Return doubles divided by powers of two, which mostly are ties between two results."""
        each, (first, *rest) = divisors(at), terms[0]
        if (each & (each - 1)).any() or any(term.any() for term in rest):
            return None
        near: np.ndarray = first / each
        return near if (near * each == first).all() else None  # some are too small, or no numbers

    done = rounded_sums([sums], quickly, exactly, dtype, leading, doubles)
    make_nan(done, lambda at: each_of(by, at) == 0)
    return done


def _begun(fields: ExactFields, context: Context) -> ExactFields | None:
    """Return exact sums plus `initial`; None without one."""
    first = initial_of(context, context.dtype)
    if first is None:
        return None
    parts = {name: getattr(first, of) for name, of in (("re", "real"), ("im", "imag"))}
    return {name: field + float(parts.get(name, first.real)) for name, field in fields.items()}


def _sum(name: str, fields: ExactFields, context: Context, what: str = "") -> np.ndarray:
    """Round an exact sum; that of integers is one, if it has `what` for a name in messages."""
    sums = fields[name].sums
    if what and isinstance(sums, IntegerSums):
        first = initial_of(context, wanted_integer(context))
        return fitted(sums if first is None else sums.with_added(first), context, what)
    if (sums_begun := _begun({name: fields[name]}, context)) is not None:
        rounded: np.ndarray = sums_begun[name].rounded(floats_of(context.dtype))
        return rounded
    ones = np.broadcast_to(np.int64(1), sums.outputs)
    return _divided(sums, ones, floats_of(context.dtype))


def _mean(name: str, fields: ExactFields, context: Context) -> np.ndarray:
    return _divided(fields[name].sums, fields["n"], floats_of(context.dtype))


def rounded_sum(fields: ExactFields, context: Context) -> np.ndarray:
    """Round the exact sum `s`; that of integers is one."""
    return _sum("s", fields, context, "sum")


def rounded_norm1(fields: ExactFields, context: Context) -> np.ndarray:
    """Round the exact sum of magnitudes `s`."""
    return _sum("s", fields, context)


def sum_of_products(fields: ExactFields, context: Context) -> Any:
    """Return the exact sum of products `s`; that of integers is one."""
    sums = fields["s"].sums
    whole = isinstance(sums, IntegerSums)
    return fitted(sums, context, "sum of products") if whole else fields["s"]


def rounded_square_sum(fields: ExactFields, context: Context) -> np.ndarray:
    """Round the exact sum of squares `q`; that of integers is one."""
    return _sum("q", fields, context, "sum of products")


def rounded_mean(fields: ExactFields, context: Context) -> Any:
    """Divide the exact sum `s` by the count `n`; not rounded if integers are wanted."""
    if context.integers is not None:
        return fields["s"] / fields["n"]
    return _mean("s", fields, context)


def rounded_complex_sum(fields: ExactFields, context: Context) -> np.ndarray:
    """Round the exact sums of real and imaginary parts."""
    return complex_parts({name: _sum(name, fields, context) for name in _PARTS}, context)


def _complex_mean(fields: ExactFields, context: Context) -> np.ndarray:
    return complex_parts({name: _mean(name, fields, context) for name in _PARTS}, context)


def rounded_variance(fields: ExactFields, context: Context) -> np.ndarray:
    """Return variances from the exact sums `s` and `q`, of squares, and the count `n`."""
    return _spread(rounded_ratio, lambda near: near, np.positive, fields, context)


def rounded_deviation(fields: ExactFields, context: Context) -> np.ndarray:
    """Return the roots of variances, rounded once."""
    return _spread(rounded_root, ziv_rounding.estimated_root, np.sqrt, fields, context)


def _spread(
    rounded: Callable[[int, int, int, np.dtype], float],
    near: Callable[[Estimate], Estimate],
    fast: Callable[[np.ndarray], np.ndarray],
    fields: ExactFields,
    context: Context,
) -> np.ndarray:
    """Return variances, or their roots: (n * q - s * s) / (n * (n - ddof)).

    Nothing is rounded before the end, so nothing cancels. Three functions make the result of that
    ratio: `rounded` from integers, `near` from reals with a bound of their error, `fast` from
    doubles alone.
    """
    s, q, n = fields["s"].sums, fields["q"].sums, fields["n"]
    dtype, ddof, unit = floats_of(context.dtype), context.ddof, s.limbs.low

    def of_one(n: int, s: int, q: int) -> float:
        degrees = n - Fraction(ddof)
        over, under = (n * q - s * s) * degrees.denominator, n * degrees.numerator
        if under <= 0:
            return np.inf if over and n else np.nan
        return rounded(over, under, 2 * unit, dtype)

    def exactly(at: np.ndarray) -> np.ndarray:
        tables = q.tables(at)
        rows = zip(n[at].tolist(), integers(s.tables(at)), integers(tables), strict=True)
        done = np.array([of_one(*row) for row in rows], np.float64)
        return np.where(specials(tables) == 0, done, np.nan).astype(dtype)

    def divisors(count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return n * (n - ddof) as doubles, and where they are that, and above zero."""
        by = count * (count - ddof)
        whole = by == count.astype(np.int64) * (count.astype(np.int64) - int(ddof))
        return by, (by > 0) & whole & float(ddof).is_integer()

    def quickly(terms: SumTerms, at: OutputsAt) -> Estimate:
        count = n[at].astype(float)
        over = ziv_rounding.spread(count, *terms)
        by, apt = divisors(count)
        done = near(
            estimated_quotient([over.value, over.off], np.where(by > 0, by, 1), over.within)
        )
        return replace(done, certain=(done.certain & over.certain & apt) | (count == 0))

    def leading(terms: SumTerms, at: OutputsAt) -> np.ndarray:
        count = each_of(n, at).astype(float)
        by, apt = divisors(count)
        return fast(ziv_rounding.leading_spread(count, *terms) / np.where(apt, by, np.nan))

    done = rounded_sums([s, q], quickly, exactly, dtype, leading)
    make_nan(done, lambda at: ~q.finite_at(at) | (each_of(n, at) == 0))
    return done


def rounded_norm2(fields: ExactFields, context: Context) -> np.ndarray:
    """Return the root of the exact sum of squares `q`."""
    q, dtype = fields["q"].sums, floats_of(context.dtype)

    def exactly(at: np.ndarray) -> np.ndarray:
        tables = q.tables(at)
        odd = specials(tables)
        roots = [rounded_root(value, 1, q.limbs.low, dtype) for value in integers(tables)]
        return np.where(odd == 0, np.array(roots, np.float64), odd).astype(dtype)

    def quickly(terms: SumTerms, _: OutputsAt) -> Estimate:
        return ziv_rounding.estimated_root(estimated_quotient(terms[0], np.ones_like(terms[0][0])))

    return rounded_sums([q], quickly, exactly, dtype, lambda terms, _: np.sqrt(terms[0][0]))


@dataclass(frozen=True)
class Formula:
    """The number that a finish rounds, as kernels/cl/rounding.cl makes it; counts are `n`."""

    sum: str
    squares: str | None = None
    divided: bool = False
    root: bool = False


def formula_of(finish: Finish) -> Formula | None:
    """Return the formula by which devices round as a finish does; None if they cannot."""
    return next((formula for one, formula in _FORMULAS if one is finish), None)


_FORMULAS: Sequence[tuple[Finish, Formula]] = (
    (rounded_sum, Formula("s")),
    (rounded_norm1, Formula("s")),
    (rounded_square_sum, Formula("q")),
    (rounded_mean, Formula("s", divided=True)),
    (rounded_norm2, Formula("q", root=True)),
    (rounded_variance, Formula("s", "q", divided=True)),
    (rounded_deviation, Formula("s", "q", divided=True, root=True)),
)


def _parts_of(x: Any) -> Expressions:
    return {"re": x.real, "im": x.imag}


_PARTS = {"re": "exact", "im": "exact"}
_ONE: Any = {"zero": 0, "op": "add"}
_MOMENTS: Any = {
    "fields": {"s": "exact", "q": "exact", "n": "count"},
    "zero": {"s": 0, "q": 0, "n": 0},
    "lift": lambda x: {"s": x, "q": x * x, "n": 1},
    "op": "add",
}

EXACT_SUM = Monoid(
    "sum",
    fields={"s": "exact"},
    lift=lambda x: x,
    finish=rounded_sum,
    unbounded=True,
    **_ONE,
)
EXACT_COMPLEX_SUM = Monoid(
    "sum",
    fields=_PARTS,
    zero={"re": 0, "im": 0},
    lift=_parts_of,
    op="add",
    kinds="c",
    finish=rounded_complex_sum,
)
EXACT_MEAN = Monoid(
    "mean",
    fields={"s": "exact", "n": "count"},
    zero={"s": 0, "n": 0},
    lift=lambda x: {"s": x, "n": 1},
    op="add",
    finish=rounded_mean,
)
EXACT_COMPLEX_MEAN = Monoid(
    "mean",
    fields=_PARTS | {"n": "count"},
    zero={"re": 0, "im": 0, "n": 0},
    lift=lambda x: {**_parts_of(x), "n": 1},
    op="add",
    kinds="c",
    finish=_complex_mean,
)
EXACT_NORM1 = Monoid("norm1", fields={"s": "exact"}, lift=magnitude, finish=rounded_norm1, **_ONE)
EXACT_SUMSQ = Monoid(
    "sumsq",
    fields={"q": "exact"},
    lift=lambda x: x * x,
    finish=rounded_square_sum,
    unbounded=True,
    **_ONE,
)
EXACT_NORM2 = Monoid(
    "norm2", fields={"q": "exact"}, lift=lambda x: x * x, finish=rounded_norm2, **_ONE
)
EXACT_VAR = Monoid("var", finish=rounded_variance, **_MOMENTS)
EXACT_STD = Monoid("std", finish=rounded_deviation, **_MOMENTS)

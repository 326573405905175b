"""Products of integers, added up exactly: squares, dots, and the moments and norms made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from chunkfold.kernels.catalogue import exact_sums as exact
from chunkfold.kernels.catalogue.integer_results import fitted
from chunkfold.kernels.catalogue.integers import (
    COUNTED,
    SUM,
    added_by_halves,
    added_up,
    by_dtype,
    carried,
    digit_sums,
    few_added_up,
    halves,
    rounding_digits,
    side_by_side,
    sum_fields,
)
from chunkfold.kernels.expressions.library import high_product, where
from chunkfold.kernels.expressions.symbols import Symbol
from chunkfold.kernels.monoid.accumulate import Accumulate, SymbolFunction
from chunkfold.kernels.monoid.finish_context import Context, Fields
from chunkfold.kernels.monoid.monoid import Monoid


def distance(x0: Symbol, x1: Symbol) -> Symbol:
    """Return the distance of two integers, which 64 bits without a sign always hold."""
    one, other = x0.astype(np.uint64), x1.astype(np.uint64)
    return where(x0 > x1, one - other, other - one)


@dataclass(frozen=True)
class Forms:
    """Functions that make factors of elements, in the fewest bits that hold the product."""

    widened: Callable[[Symbol], Symbol]
    difference: Callable[[Symbol, Symbol], Symbol]
    """The difference of two, with any sign: it is squared."""


FactorOf = Callable[..., Symbol]
"""A factor, given forms and the elements."""


def _in(dtype: Any) -> Forms:
    return Forms(lambda x: x.astype(dtype), lambda x0, x1: x0.astype(dtype) - x1.astype(dtype))


_IN_AN_INT, _IN_A_LONG = _in(np.int32), _in(np.int64)
_DIGITS = ("q0", "q1", "q2", "q3")


def _digits(dtype: np.dtype) -> tuple[str, ...]:
    """Return the fields that a sum of products of a dtype is kept in: 96 bits, or 160."""
    return _DIGITS if dtype.itemsize == 8 else _DIGITS[:2]


def product_fields(dtype: np.dtype, first: FactorOf, second: FactorOf) -> dict[str, Any]:
    """Return a monoid's declarations of a sum of products."""
    names = _digits(dtype)
    wide = np.uint64 if dtype.kind == "u" else np.int64
    forms = _IN_A_LONG if dtype.itemsize <= 2 else replace(_in(wide), difference=distance)

    def pieces(*xs: Symbol) -> dict[str, Symbol]:
        a, b = first(forms, *xs), second(forms, *xs)
        if len(names) == 2:
            return halves(a * b, names)
        low = halves(a.astype(np.uint64) * b.astype(np.uint64), names[:2])
        return low | halves(high_product(a, b), names[2:])

    return {
        "fields": dict.fromkeys(names, "int64"),
        "zero": dict.fromkeys(names, 0),
        "lift": {name: _named(pieces, name) for name in names},
        "op": digit_sums(names),
        "accumulate": _accumulated(dtype, first, second, pieces, names),
        "kinds": "biu",
    }


def _named(pieces: Callable[..., dict[str, Symbol]], name: str) -> SymbolFunction:
    return lambda *xs: pieces(*xs)[name]


def _accumulated(
    dtype: np.dtype,
    first: FactorOf,
    second: FactorOf,
    pieces: Callable[..., dict[str, Symbol]],
    names: Sequence[str],
) -> Accumulate:
    """Choose the fastest way that holds the sum of fewer than 2**31 products."""

    def product(forms: Forms) -> SymbolFunction:
        return lambda *xs: first(forms, *xs) * second(forms, *xs)

    if dtype.itemsize == 1:
        return few_added_up(product(_IN_AN_INT), lambda s: halves(s.s, names))
    if dtype.itemsize == 2:
        return added_up(product(_IN_A_LONG), names)
    if dtype == np.int32 and first is not difference:  # which have up to 64 bits
        return added_by_halves(product(_IN_A_LONG), names)
    return _piecewise(pieces, names)


def _piecewise(pieces: Callable[..., dict[str, Symbol]], names: Sequence[str]) -> Accumulate:
    """Add up piece by piece; the last has the sign. Carries are propagated at the end."""
    return Accumulate(
        state=dict.fromkeys(names, "int64"),
        start=dict.fromkeys(names, 0),
        step=lambda s, *xs: {name: getattr(s, name) + p for name, p in pieces(*xs).items()},
        end=lambda s: carried({name: getattr(s, name) for name in names}),
    )


def _first(forms: Forms, *xs: Symbol) -> Symbol:
    return forms.widened(xs[0])


def _last(forms: Forms, *xs: Symbol) -> Symbol:
    return forms.widened(xs[-1])


def difference(forms: Forms, *xs: Symbol) -> Symbol:
    """Return the difference of two elements."""
    return forms.difference(*xs)


def integer_products(name: str, inputs: int, first: FactorOf, second: FactorOf) -> Monoid:
    """Return the sum of products of integers."""

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


_SQUARES = partial(product_fields, first=_first, second=_first)


def _moments(name: str, finish: Any, dtype: np.dtype) -> Monoid:
    return Monoid(
        name,
        **side_by_side(sum_fields(dtype), _SQUARES(dtype), COUNTED),
        finish=rounding_digits(finish, s=SUM, q=_digits(dtype)),
    )


def _norm2(dtype: np.dtype) -> Monoid:
    return Monoid(
        "norm2", **_SQUARES(dtype), finish=rounding_digits(exact.rounded_norm2, q=_digits(dtype))
    )


INTEGER_VAR = by_dtype(partial(_moments, "var", exact.rounded_variance))
INTEGER_STD = by_dtype(partial(_moments, "std", exact.rounded_deviation))
INTEGER_NORM2 = by_dtype(_norm2)
INTEGER_SUMSQ = integer_products("sumsq", 1, _first, _first)
INTEGER_DOT = integer_products("dot", 2, _first, _last)
INTEGER_SUM_SQ_DIFF = integer_products("sum_sq_diff", 2, difference, difference)

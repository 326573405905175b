"""Sums, means and products of integers that never wrap: exact, or an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from chunkfold.kernels.accumulator.exact_array import ExactArray
from chunkfold.kernels.accumulator.sums import of_digits
from chunkfold.kernels.catalogue import exact_sums as exact
from chunkfold.kernels.catalogue.finish_functions import timedeltas
from chunkfold.kernels.catalogue.initial import initial_of
from chunkfold.kernels.catalogue.integer_results import DIGIT, MASK, fitted, wanted_integer, within
from chunkfold.kernels.errors import RangeError
from chunkfold.kernels.expressions.library import (
    high_product,
    lower,
    magnitude,
    real,
    upper,
    where,
    wide,
)
from chunkfold.kernels.expressions.symbols import Symbol
from chunkfold.kernels.monoid.accumulate import Accumulate, Expressions, SymbolFunction
from chunkfold.kernels.monoid.finish_context import Context, Fields
from chunkfold.kernels.monoid.monoid import Monoid

NAT = -(2**63)
"""The integer of NaT."""


def carried(digits: Mapping[str, Symbol]) -> dict[str, Symbol]:
    """Return digits of 32 bits of larger ones, carries propagated; the last keeps the rest.

    `digits` are int64, the lowest first.
    """
    made: dict[str, Symbol] = {}
    carry: Symbol | int = 0
    *others, last = digits
    for name in others:
        whole = digits[name] + carry
        made[name], carry = lower(whole), upper(whole)
    return {**made, last: digits[last] + carry}


# A sum is hi * 2**32 + lo, lo below 2**32: one form for each value, of 96 bits. A stream of a
# launch has fewer than 2**31 elements, so that its int64 cannot wrap: 32-bit elements are added
# as they are, 64-bit ones half by half.
SUM = ("lo", "hi")


def digit_sums(names: Sequence[str]) -> dict[str, SymbolFunction]:
    """Return the op of numbers of some digits: their sum."""

    def digit(name: str) -> SymbolFunction:
        return lambda a, b: carried({n: getattr(a, n) + getattr(b, n) for n in names})[name]

    return {name: digit(name) for name in names}


def halves(whole: Symbol, names: Sequence[str]) -> dict[str, Symbol]:
    """Return the two digits of 64 bits, the lower first."""
    low, high = names
    return {low: lower(whole), high: upper(whole)}


def added_up(term: SymbolFunction, names: Sequence[str] = SUM) -> Accumulate:
    """Add up terms of 32 bits, or of 64 whose sums fit; `names` hold the digits."""
    return Accumulate(
        state={"s": "int64"},
        start={"s": 0},
        step=lambda s, *xs: {"s": s.s + term(*xs).astype(np.int64)},
        end=lambda s: halves(s.s, names),
    )


def few_added_up(term: SymbolFunction, end: SymbolFunction) -> Accumulate:
    """Add up terms of which `CARRY_AFTER` fit an int32: vectors hold twice as many of those.

    `end` gives the fields of a state whose sum is `s.s`.
    """
    return Accumulate(
        state={"s": "int64", "few": "int32"},
        start={"s": 0, "few": 0},
        step=lambda s, *xs: {"s": s.s, "few": s.few + term(*xs).astype(np.int32)},
        carry=lambda s: {"s": s.s + s.few, "few": 0},
        end=end,
    )


def added_by_halves(term: SymbolFunction, names: Sequence[str] = SUM) -> Accumulate:
    """Add up terms of 64 bits."""
    low, high = names

    def step(s: Any, *xs: Any) -> Expressions:
        whole = term(*xs)
        return {
            high: getattr(s, high) + upper(whole),
            low: getattr(s, low) + lower(whole),
        }

    return Accumulate(
        state={high: "int64", low: "int64"},
        start={high: 0, low: 0},
        step=step,
        end=lambda s: carried({name: getattr(s, name) for name in names}),
    )


def itself(x: Symbol) -> Symbol:
    """Return the element."""
    return x


def sum_fields(dtype: np.dtype, term: SymbolFunction = itself) -> dict[str, Any]:
    """Return a monoid's declarations of the sum of elements of a dtype."""
    few, some = few_added_up(term, lambda s: halves(s.s, SUM)), added_up(term)
    return {
        "fields": dict.fromkeys(SUM, "int64"),
        "zero": dict.fromkeys(SUM, 0),
        "lift": {"hi": lambda x: upper(term(x)), "lo": lambda x: lower(term(x))},
        "op": digit_sums(SUM),
        "accumulate": {8: added_by_halves(term), 4: some}.get(dtype.itemsize, few),
        "kinds": "biu",
    }


COUNTED: Mapping[str, Any] = {
    "fields": {"n": "count"},
    "zero": {"n": 0},
    "lift": {"n": 1},
    "op": {"n": "add"},
}


def side_by_side(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Declare the fields of several parts together, each accumulated as before."""
    merged = {
        key: {name: value for part in parts for name, value in part[key].items()}
        for key in ("fields", "zero", "lift", "op")
    }
    ways = tuple(part["accumulate"] for part in parts if "accumulate" in part)
    return merged | {"accumulate": ways, "kinds": "biu"}


def by_dtype(make: Callable[[np.dtype], Monoid]) -> Monoid:
    """Return a monoid that `make` adapts to its elements, once for each dtype."""
    made: dict[np.dtype, Monoid] = {}

    def of(dtype: np.dtype) -> Monoid:  # a function, which pickles: functools.cache's do not
        return made[dtype] if dtype in made else made.setdefault(dtype, make(dtype))

    return of(np.dtype(np.int64)).by_dtype(of)


def rounding_digits(
    finish: Callable[..., np.ndarray], **sums: Sequence[str]
) -> Callable[..., np.ndarray]:
    """Return a finish that calls one of exact sums, with sums made of digits under its names.

    Results are float64.
    """

    def finished(fields: Fields, context: Context) -> np.ndarray:
        held = {
            name: ExactArray(of_digits([fields[digit] for digit in of]))
            for name, of in sums.items()
        }
        wide = replace(context, dtype=np.dtype(np.float64))
        return finish({**fields, **held}, wide)

    return finished


def _sum(dtype: np.dtype) -> Monoid:
    return Monoid("sum", **sum_fields(dtype), finish=_summed, unbounded=True)


def _mean(dtype: np.dtype) -> Monoid:
    return Monoid(
        "mean",
        **side_by_side(sum_fields(dtype), COUNTED),
        finish=rounding_digits(exact.rounded_mean, s=SUM),
    )


def _norm1(dtype: np.dtype) -> Monoid:
    return Monoid(
        "norm1", **sum_fields(dtype, magnitude), finish=rounding_digits(exact.rounded_sum, s=SUM)
    )


def _summed(fields: Fields, context: Context) -> np.ndarray:
    low, high = (fields[name] for name in SUM)
    first = initial_of(context, wanted_integer(context)) or 0
    low = low + (first & MASK)
    return fitted([low & MASK, high + (first >> DIGIT) + (low >> DIGIT)], context, "sum")


def _time_sum(fields: Fields, context: Context) -> np.ndarray:
    """Add up in 96 bits; any NaT, the least integer, makes the sum NaT."""
    rows = zip(fields["hi"].tolist(), fields["lo"].tolist(), strict=True)
    first = initial_of(context, context.dtype)
    begins = 0 if first is None else int(first.view(np.int64))
    values = [(high << DIGIT) + low + begins for high, low in rows]
    missing = (fields["least"] == NAT) | (begins == NAT)
    return timedeltas(values, missing, context.dtype, "sum")


TIME_SUM = Monoid(
    "sum",
    **side_by_side(
        sum_fields(np.dtype(np.int64)),
        {
            "fields": {"least": "int64"},
            "zero": {"least": "highest"},
            "lift": {"least": itself},
            "op": {"least": "min"},
        },
    )
    | {"kinds": "m"},
    finish=_time_sum,
)
INTEGER_SUM, INTEGER_MEAN, INTEGER_NORM1 = map(by_dtype, (_sum, _mean, _norm1))


def _product(fields: Fields, context: Context) -> np.ndarray:
    names = ("m", "negative", "zero", "beyond")
    rows = zip(*(fields[name].tolist() for name in names), strict=True)
    signed = [
        (0 if zero else -size if negative else size, beyond)
        for size, negative, zero, beyond in rows
    ]
    if any(beyond for _, beyond in signed):
        raise RangeError(
            f"the product of {context.dtype} is 2**64 or more, or -2**64 or less, which no integer "
            "dtype holds; cast by dtype='float64'"
        )
    first = initial_of(context, wanted_integer(context))
    values = [value * (1 if first is None else first) for value, _ in signed]
    return within(values, wanted_integer(context), f"product of {context.dtype}")


def _multiplied(a: Any, b: Any) -> Expressions:
    """Multiply magnitudes: they never shrink but by zero, so if all fits, every part does."""
    zero = (a.zero | b.zero) != 0
    beyond = (a.beyond | b.beyond) | (high_product(a.m, b.m) != 0)
    return {
        "m": where(zero, 1, a.m * b.m),
        "negative": where(zero, 0, a.negative ^ b.negative),
        "zero": zero,
        "beyond": where(zero, 0, beyond),
    }


def _product_ends(s: Any) -> Expressions:
    """Return the magnitude by the low 64 bits, and the rest by the product as a float.

    NaN is a zero behind what was infinite. The float is off by 2**-17 at most where it comes to
    2**64 (64 factors of 2 and more, in float32), and near there the uppermost of the low bits tells
    on which side it is.
    """
    zero, size, negative = ~(abs(s.f) > 0), abs(s.f), s.f < 0
    magnitude = where(negative, -s.low, s.low)
    near = (size > 1.5 * 2.0**63) & ((magnitude >> 63) == 0)
    return {
        "m": where(zero, np.uint64(1), magnitude),
        "negative": negative,
        "zero": zero,
        "beyond": (size > 1.25 * 2.0**64) | near,
    }


INTEGER_PROD = Monoid(
    "prod",
    fields={"m": "uint64", "negative": "int32", "zero": "int32", "beyond": "int32"},
    zero={"m": 1, "negative": 0, "zero": 0, "beyond": 0},
    lift=lambda x: {
        "m": where(x == 0, 1, magnitude(wide(x))),
        "negative": x < 0,
        "zero": x == 0,
        "beyond": 0,
    },
    op=_multiplied,
    accumulate=Accumulate(
        state={"f": "real", "low": "uint64"},
        start={"f": 1, "low": 1},
        step=lambda s, x: {"f": s.f * real(x), "low": s.low * x.astype(np.uint64)},
        end=_product_ends,
    ),
    finish=_product,
    kinds="biu",
    unbounded=True,
)

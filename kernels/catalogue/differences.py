"""Reductions of two arrays: where they first differ, and by how much at most."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from chunkfold.kernels.catalogue import finish_functions
from chunkfold.kernels.catalogue.integer_results import wanted_integer, within
from chunkfold.kernels.catalogue.mixed_dtypes import compare_mixed
from chunkfold.kernels.exact.limbs import part_of
from chunkfold.kernels.expressions.library import distance, order_high, where, wide
from chunkfold.kernels.expressions.symbols import ComplexSymbol, Symbol, applied
from chunkfold.kernels.monoid.accumulate import Expressions, SymbolFunction
from chunkfold.kernels.monoid.finish_context import Context, Fields
from chunkfold.kernels.monoid.monoid import Monoid
from chunkfold.kernels.monoid.specialise import ForMixedInputs

_TWO: Any = {"inputs": 2, "casts": False}


Element = Symbol | ComplexSymbol


def alike(x0: Element, x1: Element) -> Symbol:
    """Return whether two numbers are equal; NaN equals NaN."""
    return equal(x0, x1) | (_is_nan(x0) & _is_nan(x1))


def equal(x0: Element, x1: Element) -> Symbol:
    """Return whether two numbers are equal, which NaN never is."""
    return (x0.real == x1.real) & (x0.imag == x1.imag)


def _is_nan(x: Element) -> Symbol:
    return (x.real != x.real) | (x.imag != x.imag)


def far_complex(x0: ComplexSymbol, x1: ComplexSymbol) -> Symbol:
    """Return the distance of two complex numbers, in the widest float."""
    real, imag = wide(x0.real - x1.real), wide(x0.imag - x1.imag)
    return applied("hypot", real, imag)


def _larger(a: Any, b: Any) -> Expressions:
    """Return the larger of two numbers of 128 bits without a sign."""
    largest = np.maximum(a.d, b.d)
    return {
        "d": where(a.beyond == b.beyond, largest, where(a.beyond > b.beyond, a.d, b.d)),
        "beyond": np.maximum(a.beyond, b.beyond),
    }


def mixed_difference(dtypes: Sequence[np.dtype]) -> Monoid:
    """Return the largest difference of two inputs whose elements no dtype holds."""
    if dtypes[0].kind in "mM":
        return _far_times(dtypes)

    def lift(x0: Symbol, x1: Symbol) -> Expressions:
        pair = compare_mixed(dtypes, x0, x1)
        return {"d": pair.low, "beyond": pair.high}

    return Monoid(
        "max_abs_diff",
        **_TWO,
        fields={"d": "uint64", "beyond": "uint64"},
        zero={"d": 0, "beyond": 0},
        lift=lift,
        op=_larger,
        kinds="biu",
        on_empty="error",
        unbounded=True,
        finish=partial(_largest, " and ".join(map(str, dtypes))),
    )


def largest(fields: Fields) -> list[int]:
    """Return distances of 128 bits as Python's integers."""
    rows = zip(fields["d"].tolist(), fields["beyond"].tolist(), strict=True)
    return [low + (high << 64) for low, high in rows]


def _largest(what: str, fields: Fields, context: Context) -> np.ndarray:
    wanted = wanted_integer(context) if context.result is not None else np.dtype(np.uint64)
    return within(largest(fields), wanted, f"max_abs_diff of {what}")


def _far_times(dtypes: Sequence[np.dtype]) -> Monoid:
    def lift(x0: Symbol, x1: Symbol) -> Expressions:
        pair = compare_mixed(dtypes, x0, x1)
        return {
            "d": where(pair.missing, 0, pair.low),
            "beyond": where(pair.missing, 0, pair.high),
            "nat": pair.missing,
            "n": 1,
        }

    return Monoid(
        "max_abs_diff",
        **_TWO,
        fields={"d": "uint64", "beyond": "uint64", "nat": "int32", "n": "count"},
        zero={"d": 0, "beyond": 0, "nat": 0, "n": 0},
        lift=lift,
        op={
            "d": lambda a, b: _larger(a, b)["d"],
            "beyond": "max",
            "nat": "max",
            "n": "add",
        },
        kinds="mM",
        on_empty="error",
        finish=_largest_time,
    )


def _largest_time(fields: Fields, context: Context) -> np.ndarray:
    missing = (fields["nat"] != 0) | (fields["n"] == 0)
    return finish_functions.timedeltas(largest(fields), missing, context.dtype, "max_abs_diff")


def _largest_complex(fields: Fields, context: Context) -> np.ndarray:
    there = np.where(fields["n"] == 0, np.nan, fields["d"])
    with np.errstate(over="ignore"):
        return there.astype(part_of(context.dtype))


_SECONDS = np.dtype("M8[s]")
"""Any unit: the fold does not depend on it."""
MAX_ABS_DIFF = Monoid(
    "max_abs_diff",
    **_TWO,
    fields={"hi": "order"},
    zero="lowest",
    lift=lambda x0, x1: order_high(abs(x0 - x1)),
    op="max",
    kinds="f",
    on_empty="error",
    finish=finish_functions.highest,
    instead={
        "biu": Monoid(
            "max_abs_diff",
            **_TWO,
            fields={"d": "uint64"},
            zero=0,
            lift=distance,
            op="max",
            on_empty="error",
            unbounded=True,
        ),
        "c": Monoid(
            "max_abs_diff",
            **_TWO,
            fields={"d": "real", "n": "count"},
            zero={"d": 0, "n": 0},
            lift=lambda x0, x1: {"d": far_complex(x0, x1), "n": 1},
            op={"d": lambda a, b: np.maximum(a.d, b.d), "n": "add"},  # NaN wins
            kinds="c",
            on_empty="error",
            finish=_largest_complex,
        ),
        "mM": _far_times((_SECONDS, _SECONDS)),
    },
    specialised=ForMixedInputs(mixed_difference),
)


def first_unlike(same: SymbolFunction, kinds: str, **others: Any) -> Monoid:
    """Return the position of the first elements that are not the same."""
    return Monoid(
        "first_mismatch",
        **_TWO,
        fields={"i": "int64"},
        zero="highest",
        lift=lambda x0, x1, i: where(same(x0, x1), np.iinfo(np.int64).max, i),
        op="min",
        kinds=kinds,
        finish=finish_functions.position,
        **others,
    )


def same_of(dtypes: Sequence[np.dtype]) -> SymbolFunction:
    """Return the condition that elements of two dtypes, which no dtype holds, are equal."""
    return lambda x0, x1: compare_mixed(dtypes, x0, x1).same


FIRST_MISMATCH = first_unlike(
    alike,
    "biufmM",
    instead={"c": first_unlike(alike, "c")},
    specialised=ForMixedInputs(lambda dtypes: first_unlike(same_of(dtypes), "biumM")),
)

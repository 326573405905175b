"""Reductions of two arrays: where they first differ and by how much, and sums of products."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from chunkfold.kernels import finishes
from chunkfold.kernels.apart import pair_of
from chunkfold.kernels.context import Context, Fields
from chunkfold.kernels.integer_products import (
    DISTANCE,
    INTEGER_DOT,
    INTEGER_SUM_SQ_DIFF,
)
from chunkfold.kernels.integers import wanted_integer, within
from chunkfold.kernels.limbs import part_of
from chunkfold.kernels.monoid import Monoid

ALIKE = "x0 == x1 || (x0 != x0 && x1 != x1)"
"""Whether two numbers are equal; NaN equals NaN."""
EQUAL_COMPLEX = "(re(x0) == re(x1) && im(x0) == im(x1))"
_ODD = "(re({0}) != re({0}) || im({0}) != im({0}))"
ALIKE_COMPLEX = f"{EQUAL_COMPLEX} || ({_ODD.format('x0')} && {_ODD.format('x1')})"
FAR_COMPLEX = "hypot(wide(re(x0) - re(x1)), wide(im(x0) - im(x1)))"
"""How far two complex numbers are apart, in the dtype of a field."""
_TWO: Any = {"inputs": 2, "casts": False}
_FARTHER = {
    "d": "a.beyond == b.beyond ? max(a.d, b.d) : a.beyond > b.beyond ? a.d : b.d",
    "beyond": "max",
}
"""The larger of two numbers of 128 bits without a sign."""


def _far(dtypes: Sequence[np.dtype]) -> Monoid:
    """Return the largest difference of two inputs whose elements no dtype holds."""
    if dtypes[0].kind in "mM":
        return _far_times(dtypes)
    pair = pair_of(dtypes)
    return Monoid(
        "max_abs_diff",
        **_TWO,
        fields={"d": "uint64", "beyond": "uint64"},
        zero={"d": 0, "beyond": 0},
        lift={"d": pair.low, "beyond": pair.high},
        op=_FARTHER,
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
    pair = pair_of(dtypes)
    return Monoid(
        "max_abs_diff",
        **_TWO,
        fields={"d": "uint64", "beyond": "uint64", "nat": "int32", "n": "count"},
        zero={"d": 0, "beyond": 0, "nat": 0, "n": 0},
        lift={
            "d": f"{pair.missing} ? 0 : {pair.low}",
            "beyond": f"{pair.missing} ? 0 : {pair.high}",
            "nat": pair.missing,
            "n": "1",
        },
        op={**_FARTHER, "nat": "max", "n": "add"},
        kinds="mM",
        on_empty="error",
        finish=_largest_time,
    )


def _largest_time(fields: Fields, context: Context) -> np.ndarray:
    missing = (fields["nat"] != 0) | (fields["n"] == 0)
    return finishes.timedeltas(largest(fields), missing, context.dtype, "max_abs_diff")


def _largest_complex(fields: Fields, context: Context) -> np.ndarray:
    there = np.where(fields["n"] == 0, np.nan, fields["d"])
    with np.errstate(over="ignore"):
        return there.astype(part_of(context.dtype))


_SECONDS = np.dtype("M8[s]")
"""A unit for what does not depend on it."""
MAX_ABS_DIFF = Monoid(
    "max_abs_diff",
    **_TWO,
    fields={"hi": "order"},
    zero="lowest",
    lift="order_high(fabs(x0 - x1))",
    op="max",
    kinds="f",
    on_empty="error",
    finish=finishes.highest,
    instead={
        "biu": Monoid(
            "max_abs_diff",
            **_TWO,
            fields={"d": "uint64"},
            zero=0,
            lift=DISTANCE,
            op="max",
            on_empty="error",
            unbounded=True,
        ),
        "c": Monoid(
            "max_abs_diff",
            **_TWO,
            fields={"d": "real", "n": "count"},
            zero={"d": 0, "n": 0},
            lift={"d": FAR_COMPLEX, "n": "1"},
            op={"d": "a.d > b.d || a.d != a.d ? a.d : b.d", "n": "add"},  # NaN wins
            kinds="c",
            on_empty="error",
            finish=_largest_complex,
        ),
        "mM": _far_times((_SECONDS, _SECONDS)),
    },
    pair=_far,
)


def _first(alike: str, kinds: str, **others: Any) -> Monoid:
    """Return the position of the first elements that are not alike."""
    return Monoid(
        "first_mismatch",
        **_TWO,
        fields={"i": "int64"},
        zero="highest",
        lift=f"{alike} ? 9223372036854775807L : (long)i",
        op="min",
        kinds=kinds,
        finish=finishes.position,
        **others,
    )


FIRST_MISMATCH = _first(
    ALIKE,
    "biufmM",
    instead={"c": _first(ALIKE_COMPLEX, "c")},
    pair=lambda dtypes: _first(pair_of(dtypes).same, "biumM"),
)


def _squared(dtypes: Sequence[np.dtype]) -> Monoid:
    return Monoid(
        "sum_sq_diff",
        inputs=2,
        fields={"s": "real"},
        zero=0,
        lift=f"{far_as_float(dtypes)} * {far_as_float(dtypes)}",
        op="add",
        kinds="biu",
        finish=finishes.as_float,
    )


def far_as_float(dtypes: Sequence[np.dtype]) -> str:
    """Return how far elements are apart as a field's float, of which none is 0 that differ."""
    pair = pair_of(dtypes)
    return f"(wide({pair.low}) + ldexp(wide({pair.high}), 64))"


_REAL_DOT = Monoid(
    "dot",
    inputs=2,
    fields={"s": "real"},
    zero=0,
    lift="wide(x0) * wide(x1)",
    op="add",
    kinds="biu",
    finish=finishes.as_float,
)
DOT = Monoid(
    "dot",
    inputs=2,
    fields={"s": "sum"},
    zero=0,
    lift="wide(x0) * wide(x1)",
    op="add",
    kinds="f",
    finish=finishes.summed,
    instead={
        "biu": INTEGER_DOT,
        "c": Monoid(
            "dot",
            inputs=2,
            fields={"re": "sum", "im": "sum"},
            zero={"re": 0, "im": 0},
            lift={
                "re": "wide(re(x0)) * wide(re(x1)) - wide(im(x0)) * wide(im(x1))",
                "im": "wide(re(x0)) * wide(im(x1)) + wide(im(x0)) * wide(re(x1))",
            },
            op={"re": "add", "im": "add"},
            kinds="c",
            finish=finishes.complex_parts,
        ),
    },
    pair=lambda _: _REAL_DOT,
)
SUM_SQ_DIFF = Monoid(
    "sum_sq_diff",
    inputs=2,
    fields={"s": "sum"},
    zero=0,
    lift="(wide(x0) - wide(x1)) * (wide(x0) - wide(x1))",
    op="add",
    kinds="f",
    finish=finishes.summed,
    instead={"biu": INTEGER_SUM_SQ_DIFF},
    pair=_squared,
)

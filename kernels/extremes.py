"""The least and the greatest, and where they stand: what compares, and never rounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from chunkfold.kernels import finishes
from chunkfold.kernels.accumulate import Accumulate
from chunkfold.kernels.context import Finish
from chunkfold.kernels.integers import by_dtype
from chunkfold.kernels.monoid import Monoid

# Integer keys make the order of floats total: NaN propagates and -0 < +0 in any order.
_LOW = {"fields": "order", "zero": "highest", "lift": "order_low(x)", "op": "min"}
_HIGH = {"fields": "order", "zero": "lowest", "lift": "order_high(x)", "op": "max"}
_COUNT: dict[str, Any] = {"fields": "count", "zero": 0, "lift": "1", "op": "add"}


def _named(**fields: dict[str, Any]) -> Any:
    """Name fields as a monoid's parts have them: part by part."""
    return {part: {name: of[part] for name, of in fields.items()} for part in _LOW}


def _extreme(name: str, finish: Finish, **fields: dict[str, Any]) -> Monoid:
    """Return an extreme; of times, for which every key is a value's, it counts elements too."""
    times = Monoid(name, **_named(**fields, n=_COUNT), kinds="mM", on_empty="error", finish=finish)
    return Monoid(
        name,
        **_named(**fields),
        kinds="biuf",
        on_empty="error",
        finish=finish,
        instead={"mM": times},
    )


MIN = _extreme("min", finishes.lowest, lo=_LOW)
MAX = _extreme("max", finishes.highest, hi=_HIGH)
MINMAX = _extreme("minmax", finishes.lowest_and_highest, lo=_LOW, hi=_HIGH)
_BY_BITS = Accumulate(
    state={"least": "bits", "most": "bits", "top": "order"},
    start={"least": "highest", "most": 0, "top": "lowest"},
    step={
        "least": "min(s.least, bits(x))",
        "most": "max(s.most, bits(x))",
        "top": "max(s.top, signed_bits(x))",
    },
    join={
        "least": "min(a.least, b.least)",
        "most": "max(a.most, b.most)",
        "top": "max(a.top, b.top)",
    },
    end={},
)
_ENDS = {
    "lo": "order_lowest(s.least, s.most, s.top)",
    "hi": "order_highest(s.least, s.most, s.top)",
}
FLOAT_ENDS = Monoid(
    "minmax",
    **_named(lo=_LOW, hi=_HIGH),
    finish=finishes.lowest_and_highest,
    kinds="f",
    accumulate=tuple(replace(_BY_BITS, end={name: text}) for name, text in _ENDS.items()),
)
"""Both ends of floats, where both are asked for: three comparisons of integers find them, and NaN.
To make two keys of each element takes as many again."""
_PLACE: Any = {
    "kinds": "biufmM",
    "on_empty": "error",
    "fields": {"m": "order", "i": "int64"},
    "finish": finishes.position,
    "casts": False,
}
ARGMIN = Monoid(
    "argmin",
    **_PLACE,
    zero={"m": "highest", "i": "highest"},
    lift={"m": "rank_low(x)", "i": "i"},
    op={"m": "min", "i": "first(a.m, b.m, a.i, b.i)"},
)
ARGMAX = Monoid(
    "argmax",
    **_PLACE,
    zero={"m": "lowest", "i": "highest"},
    lift={"m": "rank_high(x)", "i": "i"},
    op={"m": "max", "i": "first(b.m, a.m, a.i, b.i)"},
)


def _norminf(dtype: np.dtype) -> Monoid:
    """Compare magnitudes in as few bits as hold them: vectors hold twice as many."""
    return Monoid(
        "norminf",
        fields={"d": "uint64" if dtype.itemsize == 8 else "uint32"},
        zero=0,
        lift="magnitude(x)",
        op="max",
        finish=finishes.as_float,
    )


NORMINF = Monoid(
    "norminf",
    fields={"hi": "order"},
    zero=0,
    lift="order_high(fabs(x))",
    op="max",
    kinds="f",
    finish=finishes.highest,
    instead={"biu": by_dtype(_norminf)},
)

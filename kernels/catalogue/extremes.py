"""The least and the greatest elements, and their positions: nothing rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chunkfold.kernels.catalogue import finish_functions
from chunkfold.kernels.expressions.library import (
    bits,
    first,
    magnitude,
    order_high,
    order_highest,
    order_low,
    order_lowest,
    rank_high,
    rank_low,
    signed_bits,
    time_order_high,
)
from chunkfold.kernels.expressions.symbols import Symbol
from chunkfold.kernels.monoid.accumulate import Accumulate, Expressions, SymbolFunction
from chunkfold.kernels.monoid.finish_context import Finish
from chunkfold.kernels.monoid.monoid import Monoid

# Integer keys make the order of floats total: NaN propagates and -0 < +0 in any order.


def _extreme(name: str, finish: Finish, **ends: str) -> Monoid:
    """Return an extreme, of the least or the greatest keys or both.

    It counts times, too, since every key is the key of a time.
    """

    def monoid(low: SymbolFunction, high: SymbolFunction, **others: Any) -> Monoid:
        keys = {"min": low, "max": high}
        counts = others.pop("counts", {})
        return Monoid(
            name,
            fields=dict.fromkeys(ends, "order") | dict.fromkeys(counts, "count"),
            zero={end: {"min": "highest", "max": "lowest"}[op] for end, op in ends.items()}
            | dict.fromkeys(counts, 0),
            lift={end: keys[op] for end, op in ends.items()} | dict.fromkeys(counts, 1),
            op=ends | dict.fromkeys(counts, "add"),
            on_empty="error",
            initial=True,
            last_axis="extreme" if len(ends) > 1 else None,
            finish=finish,
            **others,
        )

    times = monoid(lambda x: x, time_order_high, kinds="mM", counts=("n",))
    return monoid(order_low, order_high, kinds="biuf", instead={"mM": times})


MIN = _extreme("min", finish_functions.lowest, lo="min")
MAX = _extreme("max", finish_functions.highest, hi="max")
MINMAX = _extreme("minmax", finish_functions.lowest_and_highest, lo="min", hi="max")


def _bits_seen(s: Any, x: Symbol) -> Expressions:
    return {
        "least": np.minimum(s.least, bits(x)),
        "most": np.maximum(s.most, bits(x)),
        "top": np.maximum(s.top, signed_bits(x)),
    }


def _by_bits(**end: SymbolFunction) -> Accumulate:
    return Accumulate(
        state={"least": "bits", "most": "bits", "top": "order"},
        start={"least": "highest", "most": 0, "top": "lowest"},
        step=_bits_seen,
        end=end,
    )


FLOAT_ENDS = Monoid(
    "minmax",
    fields={"lo": "order", "hi": "order"},
    zero={"lo": "highest", "hi": "lowest"},
    lift={"lo": order_low, "hi": order_high},
    op={"lo": "min", "hi": "max"},
    finish=finish_functions.lowest_and_highest,
    kinds="f",
    accumulate=(
        _by_bits(lo=lambda s: order_lowest(s.least, s.most, s.top)),
        _by_bits(hi=lambda s: order_highest(s.least, s.most, s.top)),
    ),
)
"""Both ends of floats, where both are asked for: three comparisons of integers find them, and NaN.
To make two keys of each element takes as many again."""


def _position(
    name: str, zero: str, op: str, key: SymbolFunction, of_times: SymbolFunction
) -> Monoid:
    """Return the first position of an extreme: the key's op, and the index that goes with it."""

    def nearest(a: Any, b: Any) -> Symbol:
        return first(a.m, b.m, a.i, b.i) if op == "min" else first(b.m, a.m, a.i, b.i)

    def monoid(of: SymbolFunction, **others: Any) -> Monoid:
        return Monoid(
            name,
            fields={"m": "order", "i": "int64"},
            zero={"m": zero, "i": "highest"},
            lift=lambda x, i: {"m": of(x), "i": i},
            op={"m": op, "i": nearest},
            on_empty="error",
            finish=finish_functions.position,
            casts=False,
            **others,
        )

    return monoid(key, kinds="biuf", instead={"mM": monoid(of_times, kinds="mM")})


ARGMIN = _position("argmin", "highest", "min", rank_low, lambda x: x)
ARGMAX = _position("argmax", "lowest", "max", rank_high, time_order_high)


def _norminf(dtype: np.dtype) -> Monoid:
    """Compare magnitudes in as few bits as hold them: vectors hold twice as many."""
    return Monoid(
        "norminf",
        fields={"d": "uint64" if dtype.itemsize == 8 else "uint32"},
        zero=0,
        lift=magnitude,
        op="max",
        finish=finish_functions.as_float,
    )


def _by_dtype(make: Callable[[np.dtype], Monoid]) -> Monoid:
    """Return a monoid that `make` adapts to its elements, once for each dtype."""
    made: dict[np.dtype, Monoid] = {}

    def of(dtype: np.dtype) -> Monoid:  # a function, which pickles: functools.cache's do not
        return made[dtype] if dtype in made else made.setdefault(dtype, make(dtype))

    return of(np.dtype(np.int64)).by_dtype(of)


NORMINF = Monoid(
    "norminf",
    fields={"hi": "order"},
    zero=0,
    lift=lambda x: order_high(abs(x)),
    op="max",
    kinds="f",
    finish=finish_functions.highest,
    instead={"biu": _by_dtype(_norminf)},
)

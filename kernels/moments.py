"""Moments and norms: those of floats that round, and what stands in for them.

Exact results, and those of integers, are declared in kernels/exact.py, kernels/integers.py and
kernels/integer_products.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from chunkfold.kernels import exact, finishes
from chunkfold.kernels.accumulate import Accumulate
from chunkfold.kernels.integer_products import (
    INTEGER_NORM2,
    INTEGER_STD,
    INTEGER_SUMSQ,
    INTEGER_VAR,
)
from chunkfold.kernels.integers import INTEGER_NORM1
from chunkfold.kernels.monoid import Monoid

_PIVOT = "when(a.n, a.p, b.p)"
"""Of two streams together, of which either may be empty."""
# Moments about a pivot of each strip's own (Chan, Golub, LeVeque, "Algorithms for computing the
# sample variance", 1983, eq. 2.1): no cancellation where the mean is far from zero.
_MOMENTS: Any = {
    "fields": {"m": "real", "q": "real", "n": "int64"},
    "zero": {"m": 0, "q": 0, "n": 0},
    "lift": {"m": "x", "q": "0", "n": "1"},
    "op": {
        "m": "a.m + (b.m - a.m) * ratio(wide(b.n), wide(a.n + b.n))",
        # The weight first: of nothing it is 0, and what it is multiplied with may not be finite.
        "q": "a.q + b.q"
        " + (b.m - a.m) * ((b.m - a.m) * (wide(a.n) * ratio(wide(b.n), wide(a.n + b.n))))",
        "n": "a.n + b.n",
    },
    "accumulate": Accumulate(
        state={"p": "real", "s": "real", "q": "real", "n": "int64"},
        start={"p": 0, "s": 0, "q": 0, "n": 0},
        first={"p": "wide(x)"},
        step={
            "s": "s.s + (wide(x) - s.p)",
            "q": "fma(wide(x) - s.p, wide(x) - s.p, s.q)",
            "n": "s.n + 1",
        },
        end={
            "m": "s.p + ratio(s.s, wide(s.n))",
            "q": "s.q - s.s * ratio(s.s, wide(s.n))",
            "n": "s.n",
        },
        # About the pivot of one, where there is any: `end` divides, and so does `op`.
        join={
            "p": _PIVOT,
            "s": f"a.s + b.s + wide(b.n) * (b.p - {_PIVOT})",
            "q": f"a.q + b.q + (b.p - {_PIVOT}) * (b.s + b.s + wide(b.n) * (b.p - {_PIVOT}))",
            "n": "a.n + b.n",
        },
        join_alike={"s": "a.s + b.s", "q": "a.q + b.q", "n": "a.n + b.n"},
    ),
    "rtol": 1e-9,
}
_SQUARES: Any = {
    "zero": 0,
    "lift": "wide(x) * wide(x)",
    "op": "add",
    # CPUs multiply elsewhere than they add: both at once leaves what adds for other sums.
    "accumulate": Accumulate(
        state={"q": "real"},
        start={"q": 0},
        step={"q": "fma(wide(x), wide(x), s.q)"},
        end={"q": "s.q"},
        join={"q": "a.q + b.q"},
    ),
}


def _faster(of_floats: Monoid, of_integers: Monoid) -> Monoid:
    """Fold integers of up to 16 bits, and int32, exactly also where results may round.

    The former are faster so by themselves, the latter beside sums and squares, which they share.
    """

    def of(dtype: np.dtype) -> Monoid:
        few = dtype.kind in "biu" and (dtype.itemsize <= 2 or dtype == np.int32)
        return of_integers.for_dtype(dtype) if few else of_floats

    exactly = of_floats.exact
    assert exactly is not None
    return replace(of_floats, adapt=of, exact=replace(exactly, instead={"biu": of_integers}))


VAR = _faster(
    Monoid("var", **_MOMENTS, finish=finishes.variance, exact=exact.EXACT_VAR), INTEGER_VAR
)
STD = _faster(
    Monoid("std", **_MOMENTS, finish=finishes.deviation, exact=exact.EXACT_STD), INTEGER_STD
)
SUMSQ = Monoid(
    "sumsq",
    fields={"q": "sum"},
    **_SQUARES,
    finish=finishes.summed,
    exact=exact.EXACT_SUMSQ,
    kinds="f",
    instead={"biu": INTEGER_SUMSQ},
)
NORM1 = Monoid(
    "norm1",
    fields={"s": "mean"},
    zero=0,
    lift="fabs(wide(x))",
    op="add",
    finish=finishes.as_float,
    exact=exact.EXACT_NORM1,
    kinds="f",
    instead={"biu": INTEGER_NORM1},
)
NORM2 = _faster(
    Monoid(
        "norm2",
        fields={"q": "mean"},
        **_SQUARES,
        finish=finishes.root,
        exact=exact.EXACT_NORM2,
    ),
    INTEGER_NORM2,
)

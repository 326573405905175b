"""Moments and norms.

A reduction that rounds in every addition names its exact form, for the mode that is exact, and for
integers: such forms are declared in exact_sums.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chunkfold.kernels.catalogue import exact_sums as exact
from chunkfold.kernels.catalogue import finish_functions
from chunkfold.kernels.expressions.library import fma, ratio, real
from chunkfold.kernels.expressions.symbols import Symbol
from chunkfold.kernels.monoid.accumulate import Accumulate, Expressions
from chunkfold.kernels.monoid.monoid import Monoid

# Moments about a pivot of each strip's own (Chan, Golub, LeVeque, "Algorithms for computing the
# sample variance", 1983, eq. 2.1): no cancellation where the mean is far from zero.


def _merged(a: Any, b: Any) -> Expressions:
    far, share = b.m - a.m, ratio(real(b.n), real(a.n + b.n))
    return {
        "m": a.m + far * share,
        # The weight first: of nothing it is 0, and what it is multiplied with may not be finite.
        "q": a.q + b.q + far * (far * (real(a.n) * share)),
        "n": a.n + b.n,
    }


def _stepped(s: Any, x: Symbol) -> Expressions:
    far = real(x) - s.p
    return {"s": s.s + far, "q": fma(far, far, s.q), "n": s.n + 1}


def _ended(s: Any) -> Expressions:
    mean = ratio(s.s, real(s.n))
    return {"m": s.p + mean, "q": s.q - s.s * mean, "n": s.n}


_MOMENTS: Any = {
    "fields": {"m": "real", "q": "real", "n": "int64"},
    "zero": {"m": 0, "q": 0, "n": 0},
    "lift": lambda x: {"m": x, "q": 0, "n": 1},
    "op": _merged,
    "accumulate": Accumulate(
        state={"p": "real", "s": "real", "q": "real", "n": "int64"},
        start={"p": 0, "s": 0, "q": 0, "n": 0},
        first=lambda x: {"p": real(x)},
        step=_stepped,
        end=_ended,
    ),
    "rtol": 1e-9,
}
_SQUARES: Any = {
    "zero": 0,
    "lift": lambda x: real(x) * real(x),
    "op": "add",
    # CPUs multiply elsewhere than they add: both at once leaves what adds for other sums.
    "accumulate": Accumulate(
        state={"q": "real"},
        start={"q": 0},
        step=lambda s, x: {"q": fma(real(x), real(x), s.q)},
        end=lambda s: {"q": s.q},
    ),
}


def _faster(rounding: Monoid) -> Monoid:
    """Fold integers of up to 16 bits, and int32, exactly also where results may round.

    Exact sums are faster alone, or together with sums and squares, which they share.
    """

    def of(dtype: np.dtype) -> Monoid:
        few = dtype.kind in "biu" and (dtype.itemsize <= 2 or dtype == np.int32)
        return rounding.exact if few and rounding.exact is not None else rounding

    return rounding.by_dtype(of)


VAR = _faster(Monoid("var", **_MOMENTS, finish=finish_functions.variance, exact=exact.EXACT_VAR))
STD = _faster(Monoid("std", **_MOMENTS, finish=finish_functions.deviation, exact=exact.EXACT_STD))
SUMSQ = Monoid(
    "sumsq",
    fields={"q": "sum"},
    **_SQUARES,
    finish=finish_functions.summed,
    exact=exact.EXACT_SUMSQ,
    kinds="f",
    instead={"biu": exact.EXACT_SUMSQ},
)
NORM1 = Monoid(
    "norm1",
    fields={"s": "mean"},
    zero=0,
    lift=lambda x: abs(real(x)),
    op="add",
    finish=finish_functions.as_float,
    exact=exact.EXACT_NORM1,
    kinds="f",
    instead={"biu": exact.EXACT_NORM1},
)
NORM2 = _faster(
    Monoid(
        "norm2",
        fields={"q": "mean"},
        **_SQUARES,
        finish=finish_functions.root_of_sum,
        exact=exact.EXACT_NORM2,
    )
)

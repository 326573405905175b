"""The reductions that come with chunkfold, each a declaration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from chunkfold.kernels import exact, finishes
from chunkfold.kernels.accumulate import Accumulate
from chunkfold.kernels.differences import DOT, FIRST_MISMATCH, MAX_ABS_DIFF, SUM_SQ_DIFF
from chunkfold.kernels.extremes import ARGMAX, ARGMIN, MAX, MIN, MINMAX, NORMINF
from chunkfold.kernels.histograms import histogram
from chunkfold.kernels.integers import (
    INTEGER_MEAN,
    INTEGER_PROD,
    INTEGER_SUM,
    TIME_SUM,
    few_added_up,
)
from chunkfold.kernels.moments import NORM1, NORM2, STD, SUMSQ, VAR
from chunkfold.kernels.monoid import Monoid

_COMPLEX_PROD = {
    "re": "a.re * b.re - a.im * b.im",
    "im": "a.re * b.im + a.im * b.re",
}
_PARTS: Any = {
    "fields": {"re": "sum", "im": "sum"},
    "lift": {"re": "re(x)", "im": "im(x)"},
    "kinds": "c",
}
_SUM = Monoid(
    "sum",
    fields={"s": "sum"},
    zero=0,
    lift="x",
    op="add",
    finish=finishes.summed,
    exact=exact.EXACT_SUM,
    instead={
        "biu": INTEGER_SUM,
        "m": TIME_SUM,
        "c": Monoid(
            "sum",
            **_PARTS,
            zero={"re": 0, "im": 0},
            op={"re": "add", "im": "add"},
            finish=finishes.complex_parts,
            exact=exact.EXACT_COMPLEX_SUM,
        ),
    },
)
_PROD = Monoid(
    "prod",
    fields={"s": "sum"},
    zero=1,
    lift="x",
    op="a.s * b.s",
    finish=finishes.summed,
    instead={
        "biu": INTEGER_PROD,
        "c": Monoid(
            "prod",
            **_PARTS,
            zero={"re": 1, "im": 0},
            op=_COMPLEX_PROD,
            finish=finishes.complex_parts,
        ),
    },
)
_MEAN = Monoid(
    "mean",
    fields={"s": "mean", "n": "count"},
    zero={"s": 0, "n": 0},
    lift={"s": "x", "n": "1"},
    op={"s": "add", "n": "add"},
    finish=finishes.mean,
    exact=exact.EXACT_MEAN,
    instead={
        "biu": INTEGER_MEAN,
        "c": Monoid(
            "mean",
            fields={"re": "sum", "im": "sum", "n": "count"},
            zero={"re": 0, "im": 0, "n": 0},
            lift={"re": "re(x)", "im": "im(x)", "n": "1"},
            op={"re": "add", "im": "add", "n": "add"},
            kinds="c",
            finish=finishes.complex_mean,
            exact=exact.EXACT_COMPLEX_MEAN,
        ),
        # Pieces of 22 bits: their sums cannot wrap below 2**41 elements.
        "mM": Monoid(
            "mean",
            fields={"high": "int64", "mid": "int64", "low": "int64", "n": "count", "nat": "int32"},
            zero={"high": 0, "mid": 0, "low": 0, "n": 0, "nat": 0},
            lift={
                "high": "x >> 44",
                "mid": "(x >> 22) & 4194303",
                "low": "x & 4194303",
                "n": "1",
                "nat": "x == (-9223372036854775807L - 1)",
            },
            op={"high": "add", "mid": "add", "low": "add", "n": "add", "nat": "max"},
            kinds="mM",
            finish=finishes.time_mean,
        ),
    },
)
_COUNT_NONZERO = Monoid(
    "count_nonzero",
    fields={"n": "int64"},
    zero=0,
    lift="nonzero(x)",
    op="add",
    casts=False,
    kinds="biufcmM",
)


def _count_nonzero(dtype: np.dtype) -> Monoid:
    """Count in the masks that elements of up to 32 bits make: up to twice as fast."""
    if dtype.itemsize > 4:
        return _COUNT_NONZERO
    return replace(_COUNT_NONZERO, accumulate=few_added_up("nonzero(x)", {"n": "s.s"}))


_BITS: Any = {"fields": {"bits": "order"}, "zero": 0, "kinds": "biu"}
_SMALLER = "exp(-fabs(gap(wide(x), s.m)))"
_CATALOGUE = (
    _SUM,
    _PROD,
    MIN,
    MAX,
    MINMAX,
    ARGMIN,
    ARGMAX,
    _MEAN,
    VAR,
    STD,
    SUMSQ,
    NORM1,
    NORM2,
    NORMINF,
    Monoid(
        "logsumexp",
        fields={"s": "real", "m": "real"},
        zero={"s": 0, "m": "lowest"},
        lift={"s": "1", "m": "x"},
        op={
            "s": "a.s * exp(gap(a.m, fmax(a.m, b.m))) + b.s * exp(gap(b.m, fmax(a.m, b.m)))",
            "m": "fmax(a.m, b.m)",
        },
        # One exponential for each: the sum's where the maximum changes, else the element's. The sum
        # first: it needs the maximum as it was. NaN stays in the sum.
        accumulate=Accumulate(
            state={"s": "real", "m": "real"},
            start={"s": 0, "m": "lowest"},
            step={
                "s": f"when(gap(fmax(s.m, wide(x)), s.m), s.s * {_SMALLER} + 1, s.s + {_SMALLER})",
                "m": "fmax(s.m, wide(x))",
            },
            end={"s": "s.s", "m": "s.m"},
        ),
        rtol=1e-9,
        finish=finishes.log_of_sum,
    ),
    Monoid(
        "count", fields={"n": "count"}, zero=0, lift="1", op="add", casts=False,
        kinds="biufcmM",
    ),
    replace(_COUNT_NONZERO, adapt=_count_nonzero),
    Monoid(
        "any", fields={"t": "int32"}, zero=0, lift="nonzero(x)", op="max", kinds="biufcmM",
        finish=finishes.truth, casts=False,
    ),
    Monoid(
        "all", fields={"t": "int32"}, zero=1, lift="nonzero(x)", op="min", kinds="biufcmM",
        finish=finishes.truth, casts=False,
    ),
    # De Morgan: the identity of "and" differs between dtypes, that of "or" is 0.
    Monoid("bitwise_and", **_BITS, lift="~x", op="a.bits | b.bits", finish=finishes.complement),
    Monoid("bitwise_or", **_BITS, lift="x", op="a.bits | b.bits", finish=finishes.bits),
    Monoid("bitwise_xor", **_BITS, lift="x", op="a.bits ^ b.bits", finish=finishes.bits),
    DOT,
    SUM_SQ_DIFF,
    MAX_ABS_DIFF,
    FIRST_MISMATCH,
    histogram(),
)  # fmt: skip
_SKIPPING = ("sum", "prod", "min", "max", "argmin", "argmax", "mean", "var", "std")
"""Those whose NaN-skipping forms have a name in NumPy."""

_NAMED = {monoid.name: monoid for monoid in _CATALOGUE}
CATALOGUE: Mapping[str, Monoid] = MappingProxyType(
    _NAMED | {f"nan{name}": _NAMED[name].skipping(f"nan{name}") for name in _SKIPPING}
)
"""Every built-in reduction by its name."""

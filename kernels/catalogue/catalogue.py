"""The reductions that come with chunkfold, each a declaration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from chunkfold.kernels.catalogue import exact_sums as exact
from chunkfold.kernels.catalogue import finish_functions
from chunkfold.kernels.catalogue.differences import FIRST_MISMATCH, MAX_ABS_DIFF
from chunkfold.kernels.catalogue.distinct import MODE, NUNIQUE, approx_nunique
from chunkfold.kernels.catalogue.extremes import ARGMAX, ARGMIN, MAX, MIN, MINMAX, NORMINF
from chunkfold.kernels.catalogue.histograms import histogram
from chunkfold.kernels.catalogue.integers import INTEGER_PROD, TIME_MEAN, TIME_SUM
from chunkfold.kernels.catalogue.moments import NORM1, NORM2, STD, SUMSQ, VAR
from chunkfold.kernels.catalogue.quantiles import named_quantile
from chunkfold.kernels.catalogue.sums_of_two import (
    BIAS,
    CORR,
    CORRELATION,
    COV,
    COVARIANCE,
    DOT,
    MAE,
    RMSE,
    SUM_SQ_DIFF,
    WEIGHTED_BIAS,
    WEIGHTED_CORR,
    WEIGHTED_CORRELATION,
    WEIGHTED_COV,
    WEIGHTED_COVARIANCE,
    WEIGHTED_MAE,
    WEIGHTED_RMSE,
)
from chunkfold.kernels.catalogue.weighted import (
    SUM_OF_WEIGHTS,
    WEIGHTED_MEAN,
    WEIGHTED_STD,
    WEIGHTED_SUM,
    WEIGHTED_VAR,
)
from chunkfold.kernels.expressions.library import gap, nonzero, order_high, real, where
from chunkfold.kernels.expressions.symbols import Symbol
from chunkfold.kernels.monoid.accumulate import Accumulate, Expressions
from chunkfold.kernels.monoid.monoid import Monoid


def _parts_of(x: Any) -> Expressions:
    return {"re": x.real, "im": x.imag}


def _complex_product(a: Any, b: Any) -> Expressions:
    return {"re": a.re * b.re - a.im * b.im, "im": a.re * b.im + a.im * b.re}


_PARTS: Any = {"fields": {"re": "sum", "im": "sum"}, "lift": _parts_of, "kinds": "c"}
_SUM = Monoid(
    "sum",
    fields={"s": "sum"},
    zero=0,
    lift=lambda x: x,
    op="add",
    finish=finish_functions.added,
    initial=True,
    exact=exact.EXACT_SUM,
    instead={
        "biu": exact.EXACT_SUM,
        "m": TIME_SUM,
        "c": Monoid(
            "sum",
            **_PARTS,
            zero={"re": 0, "im": 0},
            op="add",
            finish=finish_functions.complex_added,
            exact=exact.EXACT_COMPLEX_SUM,
        ),
    },
)
_PROD = Monoid(
    "prod",
    fields={"s": "sum"},
    zero=1,
    lift=lambda x: x,
    op=lambda a, b: a.s * b.s,
    finish=finish_functions.multiplied,
    initial=True,
    instead={
        "biu": INTEGER_PROD,
        "c": Monoid(
            "prod",
            **_PARTS,
            zero={"re": 1, "im": 0},
            op=_complex_product,
            finish=finish_functions.complex_multiplied,
        ),
    },
)
_MEAN = Monoid(
    "mean",
    fields={"s": "mean", "n": "count"},
    zero={"s": 0, "n": 0},
    lift=lambda x: {"s": x, "n": 1},
    op="add",
    finish=finish_functions.mean,
    exact=exact.EXACT_MEAN,
    instead={
        "biu": exact.EXACT_MEAN,
        "c": Monoid(
            "mean",
            fields={"re": "sum", "im": "sum", "n": "count"},
            zero={"re": 0, "im": 0, "n": 0},
            lift=lambda x: {**_parts_of(x), "n": 1},
            op="add",
            kinds="c",
            finish=finish_functions.complex_mean,
            exact=exact.EXACT_COMPLEX_MEAN,
        ),
        "mM": TIME_MEAN,
    },
)
_COUNT_NONZERO = Monoid(
    "count_nonzero",
    fields={"n": "int64"},
    zero=0,
    lift=nonzero,
    op="add",
    casts=False,
    kinds="biufcmM",
)


def _count_nonzero(dtype: np.dtype) -> Monoid:
    """Count in the masks that elements of up to 32 bits make: up to twice as fast."""
    if dtype.itemsize > 4:
        return _COUNT_NONZERO
    counted = Accumulate(
        state={"s": "int64", "few": "int32"},
        start={"s": 0, "few": 0},
        step=lambda s, x: {"s": s.s, "few": s.few + nonzero(x).astype(np.int32)},
        carry=lambda s: {"s": s.s + s.few, "few": 0},
        end=lambda s: {"n": s.s},
    )
    return replace(_COUNT_NONZERO, accumulate=counted)


_BITS: Any = {"fields": {"bits": "order"}, "zero": 0, "kinds": "biu"}


def _logs_added(a: Any, b: Any) -> Expressions:
    most = np.fmax(a.m, b.m)
    return {"s": a.s * np.exp(gap(a.m, most)) + b.s * np.exp(gap(b.m, most)), "m": most}


def _log_added(s: Any, x: Symbol) -> Expressions:
    """Add one element with one exponential: the sum's where the maximum changes, else its own.

    NaN stays in the sum.
    """
    most = np.fmax(s.m, real(x))
    smaller = np.exp(-abs(gap(real(x), s.m)))
    return {"s": where(gap(most, s.m) != 0, s.s * smaller + 1, s.s + smaller), "m": most}


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
        lift=lambda x: {"s": 1, "m": x},
        op=_logs_added,
        accumulate=Accumulate(
            state={"s": "real", "m": "real"},
            start={"s": 0, "m": "lowest"},
            step=_log_added,
            end=lambda s: {"s": s.s, "m": s.m},
        ),
        rtol=1e-9,
        finish=finish_functions.log_of_sum,
    ),
    Monoid(
        "count", fields={"n": "count"}, zero=0, lift=1, op="add", casts=False,
        kinds="biufcmM",
    ),
    _COUNT_NONZERO.by_dtype(_count_nonzero),
    Monoid(
        "any", fields={"t": "int32"}, zero=0, lift=nonzero, op="max", kinds="biufcmM",
        finish=finish_functions.as_bool, casts=False,
    ),
    Monoid(
        "all", fields={"t": "int32"}, zero=1, lift=nonzero, op="min", kinds="biufcmM",
        finish=finish_functions.as_bool, casts=False,
    ),
    # De Morgan: the identity of "and" differs between dtypes, that of "or" is 0.
    Monoid(
        "bitwise_and", **_BITS, lift=lambda x: ~order_high(x), op=lambda a, b: a.bits | b.bits,
        finish=finish_functions.complement,
    ),
    Monoid(
        "bitwise_or", **_BITS, lift=lambda x: x, op=lambda a, b: a.bits | b.bits,
        finish=finish_functions.narrow_bits,
    ),
    Monoid(
        "bitwise_xor", **_BITS, lift=lambda x: x, op=lambda a, b: a.bits ^ b.bits,
        finish=finish_functions.narrow_bits,
    ),
    DOT,
    SUM_SQ_DIFF,
    MAX_ABS_DIFF,
    FIRST_MISMATCH,
    WEIGHTED_SUM,
    WEIGHTED_MEAN,
    WEIGHTED_VAR,
    WEIGHTED_STD,
    SUM_OF_WEIGHTS,
    COVARIANCE,
    CORRELATION,
    COV,
    CORR,
    BIAS,
    MAE,
    RMSE,
    WEIGHTED_COVARIANCE,
    WEIGHTED_CORRELATION,
    WEIGHTED_COV,
    WEIGHTED_CORR,
    WEIGHTED_BIAS,
    WEIGHTED_MAE,
    WEIGHTED_RMSE,
    histogram(),
    named_quantile(0.5, "median"),
    named_quantile(0.5, "weighted_median", weights=True),
    MODE,
    NUNIQUE,
    approx_nunique(),
)  # fmt: skip
_SKIPPING = ("sum", "prod", "min", "max", "argmin", "argmax", "mean", "var", "std", "median")
"""Reductions whose NaN-skipping forms have a name in NumPy."""

_NAMED = {monoid.name: monoid for monoid in _CATALOGUE}
CATALOGUE: Mapping[str, Monoid] = MappingProxyType(
    _NAMED | {f"nan{name}": _NAMED[name].skipping(f"nan{name}") for name in _SKIPPING}
)
"""Every built-in reduction by its name."""

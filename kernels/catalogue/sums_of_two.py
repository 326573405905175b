"""Sums over two arrays: of products, and of squared differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chunkfold.kernels.catalogue import exact_sums as exact
from chunkfold.kernels.catalogue import finish_functions
from chunkfold.kernels.catalogue.apart import apart
from chunkfold.kernels.catalogue.integer_products import INTEGER_DOT, INTEGER_SUM_SQ_DIFF
from chunkfold.kernels.expressions.library import real
from chunkfold.kernels.expressions.symbols import Symbol
from chunkfold.kernels.monoid.accumulate import Expressions
from chunkfold.kernels.monoid.monoid import Monoid


def _squared(dtypes: Sequence[np.dtype]) -> Monoid:
    return Monoid(
        "sum_sq_diff",
        inputs=2,
        fields={"s": "real"},
        zero=0,
        lift=lambda x0, x1: far_as_float(dtypes, x0, x1) ** 2,
        op="add",
        kinds="biu",
        finish=finish_functions.as_float,
    )


def far_as_float(dtypes: Sequence[np.dtype], x0: Symbol, x1: Symbol) -> Symbol:
    """Return how far elements are apart as a float, of which none is 0 that differ."""
    pair = apart(dtypes, x0, x1)
    return real(pair.low) + real(pair.high) * 2.0**64


def product(x0: Symbol, x1: Symbol) -> Symbol:
    """Multiply two numbers in the widest float."""
    return real(x0) * real(x1)


_REAL_DOT = Monoid(
    "dot",
    inputs=2,
    fields={"s": "real"},
    zero=0,
    lift=product,
    op="add",
    kinds="biu",
    finish=finish_functions.as_float,
)


def _complex_product(x0: Any, x1: Any) -> Expressions:
    return {
        "re": product(x0.real, x1.real) - product(x0.imag, x1.imag),
        "im": product(x0.real, x1.imag) + product(x0.imag, x1.real),
    }


def _exact_complex_product(x0: Any, x1: Any) -> Expressions:
    return {
        "re": x0.real * x1.real - x0.imag * x1.imag,
        "im": x0.real * x1.imag + x0.imag * x1.real,
    }


_EXACT_DOT = Monoid(
    "dot",
    inputs=2,
    fields={"s": "exact"},
    zero=0,
    lift=lambda x0, x1: x0 * x1,
    op="add",
    kinds="f",
)
DOT = Monoid(
    "dot",
    inputs=2,
    fields={"s": "sum"},
    zero=0,
    lift=product,
    op="add",
    kinds="f",
    finish=finish_functions.summed,
    exact=_EXACT_DOT,
    instead={
        "biu": INTEGER_DOT,
        "c": Monoid(
            "dot",
            inputs=2,
            fields={"re": "sum", "im": "sum"},
            zero={"re": 0, "im": 0},
            lift=_complex_product,
            op="add",
            kinds="c",
            finish=finish_functions.complex_parts,
            exact=Monoid(
                "dot",
                inputs=2,
                fields={"re": "exact", "im": "exact"},
                zero={"re": 0, "im": 0},
                lift=_exact_complex_product,
                op="add",
                kinds="c",
                finish=exact.complex_sum,
            ),
        ),
    },
    pair=lambda _: _REAL_DOT,
)
SUM_SQ_DIFF = Monoid(
    "sum_sq_diff",
    inputs=2,
    fields={"s": "sum"},
    zero=0,
    lift=lambda x0, x1: (real(x0) - real(x1)) ** 2,
    op="add",
    kinds="f",
    finish=finish_functions.summed,
    exact=Monoid(
        "sum_sq_diff",
        inputs=2,
        fields={"s": "exact"},
        zero=0,
        lift=lambda x0, x1: (x0 - x1) ** 2,
        op="add",
        kinds="f",
    ),
    instead={"biu": INTEGER_SUM_SQ_DIFF},
    pair=_squared,
)

"""Reductions of two arrays made of sums: dots, squared differences, covariances and errors.

Covariances are those of `numpy.cov` and `numpy.corrcoef` off the diagonal; weights are frequencies,
`fweights` there, which need not be whole. Errors follow Willmott and Matsuura, "Advantages of the
mean absolute error (MAE) over the root mean square error (RMSE)", 2005.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chunkfold.kernels.catalogue import exact_sums as exact
from chunkfold.kernels.catalogue import finish_functions
from chunkfold.kernels.catalogue.exact_sums import ExactFields
from chunkfold.kernels.catalogue.mixed_dtypes import compare_mixed
from chunkfold.kernels.expressions.library import real
from chunkfold.kernels.expressions.symbols import Symbol
from chunkfold.kernels.monoid.accumulate import Expressions
from chunkfold.kernels.monoid.finish_context import Context
from chunkfold.kernels.monoid.monoid import Monoid
from chunkfold.kernels.monoid.specialise import ForMixedInputs


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
    """Return the distance of elements as a float, which is 0 only for equal ones."""
    pair = compare_mixed(dtypes, x0, x1)
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


def _difference(x: Any, y: Any) -> Any:
    """Return the first minus the second; bools as integers, which NumPy does not subtract."""
    if x.dtype.kind == "b":
        x, y = x.astype("int8"), y.astype("int8")
    return x - y


def _exact_sum(name: str, lift: Any) -> Monoid:
    return Monoid(
        name,
        inputs=2,
        fields={"s": "exact"},
        zero=0,
        lift=lift,
        op="add",
        unbounded=True,
        finish=exact.sum_of_products,
    )


_EXACT_DOT = _exact_sum("dot", lambda x0, x1: x0 * x1)
_EXACT_SUM_SQ_DIFF = _exact_sum("sum_sq_diff", lambda x0, x1: _difference(x0, x1) ** 2)
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
        "biu": _EXACT_DOT,
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
                finish=exact.rounded_complex_sum,
            ),
        ),
    },
    specialised=ForMixedInputs(lambda _: _REAL_DOT),
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
    exact=_EXACT_SUM_SQ_DIFF,
    instead={"biu": _EXACT_SUM_SQ_DIFF},
    specialised=ForMixedInputs(_squared),
)


_SUMS: Any = {"x": lambda x, _: x, "y": lambda _, y: y, "xy": lambda x, y: x * y}
_SQUARES: Any = {"xx": lambda x, _: x * x, "yy": lambda _, y: y * y}


def _deviations(fields: ExactFields, product: str, one: str, other: str) -> Any:
    """Return the sum of products of deviations from the means."""
    return fields[product] - fields[one] * fields[other] / fields["n"]


def covariance(fields: ExactFields, context: Context) -> Any:
    """Divide the sum of products of deviations by n - ddof, or 0 if that is negative."""
    return _deviations(fields, "xy", "x", "y") / _degrees(fields, context)


def _degrees(fields: ExactFields, context: Context) -> Any:
    degrees = fields["n"] - context.ddof
    if isinstance(degrees, np.ndarray):
        return np.maximum(degrees, 0)
    return np.where(degrees > 0, degrees, 0) if context.ddof else degrees


def correlation(fields: ExactFields, _context: Context) -> Any:
    """Divide it by the root of both sums of squares; NaN where one is 0."""
    squares = _deviations(fields, "xx", "x", "x") * _deviations(fields, "yy", "y", "y")
    return _deviations(fields, "xy", "x", "y") / squares.sqrt()


def exact_of_two(name: str, finish: Any, lift: Mapping[str, Any]) -> Monoid:
    """Return a reduction of two inputs: an exact sum of each lift, and the count `n`."""
    return Monoid(
        name,
        inputs=2,
        fields={"n": "count"} | dict.fromkeys(lift, "exact"),
        zero=dict.fromkeys(["n", *lift], 0),
        lift={"n": 1, **lift},
        op="add",
        finish=finish,
    )


def weighted_of_two(name: str, finish: Any, lift: Mapping[str, Any]) -> Monoid:
    """Return the weighted reduction: a third input, the weights of pairs, has the exact sum `n`."""
    weighed = {key: _times_weight(part) for key, part in lift.items()}
    return Monoid(
        f"weighted_{name}",
        inputs=3,
        weights=1,
        fields=dict.fromkeys(["n", *lift], "exact"),
        zero=dict.fromkeys(["n", *lift], 0),
        lift={"n": _weight, **weighed},
        op="add",
        finish=finish,
    )


def _weight(_x: Any, _y: Any, w: Any) -> Any:
    return w


def _times_weight(part: Any) -> Any:
    return lambda x, y, w: part(x, y) * w


COVARIANCE = exact_of_two("covariance", covariance, _SUMS)
CORRELATION = exact_of_two("correlation", correlation, _SUMS | _SQUARES)
WEIGHTED_COVARIANCE = weighted_of_two("covariance", covariance, _SUMS)
WEIGHTED_CORRELATION = weighted_of_two("correlation", correlation, _SUMS | _SQUARES)
COV, CORR = COVARIANCE.called("cov"), CORRELATION.called("corr")
WEIGHTED_COV = WEIGHTED_COVARIANCE.called("weighted_cov")
WEIGHTED_CORR = WEIGHTED_CORRELATION.called("weighted_corr")


def _far(x: Symbol, y: Symbol) -> Any:
    """Return the distance of two, made of factors, which are not rounded."""
    return _difference(np.maximum(x, y), np.minimum(x, y))


def _mean(fields: ExactFields, _context: Context) -> Any:
    return fields["s"] / fields["n"]


def _root_of_mean(fields: ExactFields, _context: Context) -> Any:
    return (fields["s"] / fields["n"]).sqrt()


_DIFFERENCE: Any = {"s": _difference}
_DISTANCE: Any = {"s": _far}
_SQUARE: Any = {"s": lambda x, y: _difference(x, y) ** 2}
BIAS = exact_of_two("bias", _mean, _DIFFERENCE)
MAE = exact_of_two("mae", _mean, _DISTANCE)
RMSE = exact_of_two("rmse", _root_of_mean, _SQUARE)
WEIGHTED_BIAS = weighted_of_two("bias", _mean, _DIFFERENCE)
WEIGHTED_MAE = weighted_of_two("mae", _mean, _DISTANCE)
WEIGHTED_RMSE = weighted_of_two("rmse", _root_of_mean, _SQUARE)


def _spread(fields: ExactFields, context: Context) -> Any:
    return _deviations(fields, "q", "s", "s") / _degrees(fields, context)


def _root_of_spread(fields: ExactFields, context: Context) -> Any:
    return _spread(fields, context).sqrt()


_CHANGE: Any = {"s": lambda x, y: _difference(y, x)}
TENDENCIES: Mapping[str, Monoid] = {
    "mean": exact_of_two("mean", _mean, _CHANGE),
    "var": exact_of_two("var", _spread, _CHANGE | {"q": _SQUARE["s"]}),
    "std": exact_of_two("std", _root_of_spread, _CHANGE | {"q": _SQUARE["s"]}),
    "rmse": RMSE,
    "mae": MAE,
}
"""Reductions of the change from a first input to a second one, by the names of those of one."""

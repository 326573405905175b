"""Weighted sums, means, variances and deviations: of an array, and of the weights of its elements.

As those of `xarray.DataArray.weighted`, but exact and rounded once: 0 is no sum of weights.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from chunkfold.kernels.catalogue import finish_functions
from chunkfold.kernels.catalogue.exact_sums import ExactFields
from chunkfold.kernels.catalogue.integer_products import INTEGER_DOT
from chunkfold.kernels.catalogue.sums_of_two import product
from chunkfold.kernels.expressions.library import real
from chunkfold.kernels.monoid.finish_context import Context, Fields
from chunkfold.kernels.monoid.monoid import Monoid

_WEIGHED: Any = {"inputs": 2, "weights": 1}


def _over(sums: Any, weights: Any) -> Any:
    return np.where(weights == 0, np.nan, sums / weights)


def _mean(fields: ExactFields, context: Context) -> Any:
    del context
    return _over(fields["s"], fields["w"])


def _fast_mean(fields: Fields, context: Context) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        found: np.ndarray = _over(fields["s"], fields["w"])
        return found.astype(context.floats)


def _variance(fields: ExactFields, context: Context) -> Any:
    """Weigh squared deviations: weights count elements if `ddof` is not 0."""
    weights, degrees = fields["w"], fields["w"] - context.ddof
    if context.ddof:
        degrees = np.where(degrees > 0, degrees, 0)
    return (fields["q"] - _over(fields["s"] ** 2, weights)) / degrees


def _deviation(fields: ExactFields, context: Context) -> Any:
    return _variance(fields, context).sqrt()


def _of_weights(fields: ExactFields, context: Context) -> Any:
    del context
    return np.where(fields["w"] == 0, np.nan, fields["w"])


def _exactly(name: str, lift: Any, finish: Any, kinds: str = "biuf") -> Monoid:
    names = [name for name in ("s", "q", "re", "im", "w") if name in lift]
    return Monoid(
        name,
        **_WEIGHED,
        fields=dict.fromkeys(names, "exact"),
        zero=dict.fromkeys(names, 0),
        lift=lift,
        op="add",
        kinds=kinds,
        finish=finish,
    )


_WEIGHT: Any = {"w": lambda _, w: w}
_PRODUCT: Any = {"s": lambda x, w: x * w}
_SQUARE: Any = {"q": lambda x, w: x * x * w}
_EXACT_MEAN = _exactly("weighted_mean", _PRODUCT | _WEIGHT, _mean)

_PARTS: Any = {"re": lambda x, w: x.real * w.real, "im": lambda x, w: x.imag * w.real}


def _complex_mean(fields: ExactFields, context: Context) -> Any:
    means = {name: _over(fields[name], fields["w"]) for name in ("re", "im")}
    return _joined(means, context)


def _joined(parts: ExactFields, context: Context) -> Any:
    floats = {name: parts[name].rounded(context.floats) for name in ("re", "im")}
    return finish_functions.complex_parts(floats, context)


def _of_parts(name: str, finish: Any, more: Any) -> Monoid:
    """Weigh real and imaginary parts; weights, which are real, have become complex with them."""
    return _exactly(name, _PARTS | more, finish, "c")


_COMPLEX_SUM = _of_parts("weighted_sum", _joined, {})
_COMPLEX_MEAN = _of_parts("weighted_mean", _complex_mean, {"w": lambda _, w: w.real})
_COMPLEX_WEIGHTS = _exactly("sum_of_weights", {"w": lambda _, w: w.real}, _of_weights, "c")
WEIGHTED_SUM = Monoid(
    "weighted_sum",
    **_WEIGHED,
    fields={"s": "sum"},
    zero=0,
    lift=product,
    op="add",
    kinds="f",
    finish=finish_functions.summed,
    exact=_exactly("weighted_sum", _PRODUCT, lambda fields, _: fields["s"], "f"),
    instead={"biu": replace(INTEGER_DOT, name="weighted_sum", weights=1), "c": _COMPLEX_SUM},
)
WEIGHTED_MEAN = Monoid(
    "weighted_mean",
    **_WEIGHED,
    fields={"s": "mean", "w": "mean"},
    zero={"s": 0, "w": 0},
    lift=lambda x, w: {"s": product(x, w), "w": real(w)},
    op="add",
    kinds="f",
    finish=_fast_mean,
    exact=_EXACT_MEAN,
    instead={"biu": _EXACT_MEAN, "c": _COMPLEX_MEAN},
)
WEIGHTED_VAR = _exactly("weighted_var", _PRODUCT | _SQUARE | _WEIGHT, _variance)
WEIGHTED_STD = _exactly("weighted_std", _PRODUCT | _SQUARE | _WEIGHT, _deviation)
SUM_OF_WEIGHTS = replace(
    _exactly("sum_of_weights", _WEIGHT, _of_weights), instead={"c": _COMPLEX_WEIGHTS}
)

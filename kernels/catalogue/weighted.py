"""Weighted sums, means, variances and deviations, and the check that weights are not negative.

They are those of `xarray.DataArray.weighted`, but exact and rounded once: 0 is no sum of weights.
Weights say how often an element counts. Each read checks the weights of its results. The largest
weight is known only after all are read, so weights below zero are left out of sums: that is right
for those below it by rounding, and results with others are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from chunkfold.kernels.catalogue import finish_functions
from chunkfold.kernels.catalogue.exact_sums import ExactFields, sum_of_products
from chunkfold.kernels.catalogue.sums_of_two import product
from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.expressions.library import real, where
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
_EXACT_SUM = replace(_exactly("weighted_sum", _PRODUCT, sum_of_products), unbounded=True)
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
    exact=_EXACT_SUM,
    instead={"biu": _EXACT_SUM, "c": _COMPLEX_SUM},
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


ROUNDED_SHARE = 1e-6
"""Weights below zero by less than this share of the largest are zero."""
WHY_NOT_NEGATIVE = "weights say how often an element counts"
CHECK_FIELDS = MappingProxyType({"least": "real", "most": "real", "negative": "int64"})
CHECK_ZERO = MappingProxyType({"least": "highest", "most": "lowest", "negative": "highest"})
CHECK_OP = MappingProxyType({"least": "min", "most": "max", "negative": "min"})
_NOWHERE = int(np.iinfo(np.int64).max)


def clipped_weight(w: Any) -> Any:
    """Return a weight, or zero if it is below zero."""
    w = w.real
    return where(w < 0, 0, w) if w.dtype.kind in "if" else w


def checks_of(w: Any, i: Any) -> dict[str, Any]:
    """Return the fields of a weight, given its index."""
    w = w.real
    return {"least": real(w), "most": real(w), "negative": where(w < 0, i, _NOWHERE)}


def are_negative(least: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Return True where the least weight is below zero by more than rounding, given the largest."""
    return least < -ROUNDED_SHARE * np.where(most > 0, most, 1)


def refuse_negative(fields: Fields, context: Context) -> None:
    """Refuse weights below zero, by what was seen of them.

    Raises
    ------
    MonoidError
        If a result has some, with the place of the first in what is selected.
    """
    bad = are_negative(fields["least"], fields["most"])
    if not bad.any():
        return
    first = np.unravel_index(fields["negative"][bad].min(), context.shape)
    place = ", ".join(map(str, first))
    raise MonoidError(
        f"{context.quoted} has weights below zero: the first is at [{place}] of the selection, "
        f"and the least is {fields['least'].min():g}; {WHY_NOT_NEGATIVE}: give zero or more, or "
        "exclude the others with a mask"
    )


def checking_negative(monoid: Monoid) -> Monoid:
    """Return the form of a reduction that refuses weights below zero, its last input."""
    lift: Any = monoid.lift
    if isinstance(lift, Mapping):
        parts = {name: partial(_clipped, part) for name, part in lift.items()}
        sums: Callable[..., dict[str, Any]] = partial(_each, parts)
    else:
        sums = partial(_clipped, lift)
    known = monoid.op
    assert known == "add"
    return replace(
        monoid,
        fields={**monoid.fields, **CHECK_FIELDS},
        zero={**monoid.zero, **CHECK_ZERO},  # type: ignore[dict-item]
        lift=_of_two(sums) if monoid.inputs == 2 else _of_three(sums),
        op={**dict.fromkeys(monoid.fields, known), **CHECK_OP},
        finish=partial(_finished, monoid.finish),
        exact=None if monoid.exact is None else checking_negative(monoid.exact),
        instead={kinds: checking_negative(one) for kinds, one in monoid.instead.items()},
    )


def _clipped(part: Callable[..., Any], *inputs: Any) -> Any:
    *elements, weight = inputs
    return part(*elements, clipped_weight(weight))


def _each(parts: Mapping[str, Callable[..., Any]], *inputs: Any) -> dict[str, Any]:
    return {name: part(*inputs) for name, part in parts.items()}


def _of_two(sums: Callable[..., dict[str, Any]]) -> Callable[..., Any]:
    return lambda x, w, i: {**sums(x, w), **checks_of(w, i)}


def _of_three(sums: Callable[..., dict[str, Any]]) -> Callable[..., Any]:
    return lambda x, y, w, i: {**sums(x, y, w), **checks_of(w, i)}


def _finished(finish: Callable[..., Any], fields: Any, context: Context) -> Any:
    refuse_negative(fields, context)
    return finish({name: one for name, one in fields.items() if name not in CHECK_FIELDS}, context)

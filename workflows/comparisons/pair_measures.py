"""Measures of two arrays that are compared: how many pairs differ, and how far they are apart."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from chunkfold.kernels import Monoid, as_monoid
from chunkfold.kernels.catalogue.differences import (
    alike,
    equal,
    far_complex,
    first_unlike,
    largest,
    mixed_difference,
    same_of,
)
from chunkfold.kernels.catalogue.sums_of_two import far_as_float
from chunkfold.kernels.errors import RangeError
from chunkfold.kernels.expressions.library import distance, real, where
from chunkfold.kernels.monoid.accumulate import SymbolFunction
from chunkfold.kernels.monoid.finish_context import Context, Fields
from chunkfold.kernels.monoid.specialise import ForMixedInputs
from chunkfold.workflows.comparisons.tolerances import Tolerance

_TWO: Any = {"inputs": 2, "casts": False}


def _unlike(same: SymbolFunction, kinds: str, **others: Any) -> Monoid:
    """Count the pairs that are not the same."""
    return Monoid(
        "different",
        **_TWO,
        fields={"n": "int64"},
        zero=0,
        lift=lambda x0, x1: ~same(x0, x1),
        op="add",
        kinds=kinds,
        **others,
    )


_DIFFERENT = _unlike(
    alike,
    "biufmM",
    instead={"c": _unlike(alike, "c")},
    specialised=ForMixedInputs(lambda dtypes: _unlike(same_of(dtypes), "biumM")),
)


def counted_and_first(within: Tolerance, common: np.dtype | None) -> list[Monoid]:
    """Return what counts the pairs that differ by more than a tolerance, and finds the first.

    `common` is the dtype in which they are compared; None if no dtype holds both.
    """
    if not within:
        return [_DIFFERENT, as_monoid("first_mismatch")]

    def made(make: Any) -> Monoid:
        def mixed(dtypes: Sequence[np.dtype]) -> Monoid:
            return make(partial(within.near_mixed, dtypes), "biumM")  # type: ignore[no-any-return]

        near = partial(within.near, half=common == np.float16)
        # Symbols of times are integers, which have a tolerance.
        instead = {"c": make(near, "c"), "mM": make(alike, "mM")}
        return make(near, "biuf", instead=instead, specialised=ForMixedInputs(mixed))  # type: ignore[no-any-return]

    return [made(_unlike), made(first_unlike)]


def _unless_equal(far: SymbolFunction) -> SymbolFunction:
    """Return how far elements are apart: 0 where they are equal, infinities too."""
    return lambda x0, x1: where(equal(x0, x1), 0, far(x0, x1))


def _farthest(far: SymbolFunction, kinds: str, **others: Any) -> Monoid:
    """Take the largest difference of floats."""
    return Monoid(
        "max_abs_diff",
        **_TWO,
        fields={"d": "real"},
        zero=0,
        lift=_unless_equal(far),
        op="max",
        kinds=kinds,
        **others,
    )


def _of_any_size(fields: Fields, context: Context) -> np.ndarray:
    """Give the one difference as Python's integer; of times as NumPy's, None if it has none."""
    found = np.empty(1, object)
    (found[0],) = largest(fields)
    if context.dtype.kind in "mM":
        with suppress(RangeError):
            fields = {**fields, "n": np.ones(1), "nat": np.zeros(1)}
            far = as_monoid("max_abs_diff").for_dtype(context.dtype)
            return np.asarray(far.finish(fields, context))
        found[0] = None
    return found


def _exactly(found: Monoid, **others: Any) -> Monoid:
    return replace(found, on_empty="finish", **others)


_MOST = as_monoid("max_abs_diff")
MAX_ABS = _farthest(
    lambda x0, x1: abs(real(x0) - real(x1)),
    "f",
    instead={
        "biu": _exactly(_MOST.instead["biu"]),
        "c": _farthest(far_complex, "c"),
        "mM": _exactly(_MOST.instead["mM"], finish=_of_any_size),
    },
    specialised=ForMixedInputs(
        lambda dtypes: _exactly(mixed_difference(dtypes), finish=_of_any_size)
    ),
).skipping()


def _mean_square(far: SymbolFunction, kinds: str, **others: Any) -> Monoid:
    """Take the root of the mean of squared differences."""
    return Monoid(
        "rmse",
        **_TWO,
        fields={"q": "real", "n": "count"},
        zero={"q": 0, "n": 0},
        lift=lambda x0, x1: {"q": far(x0, x1) ** 2, "n": 1},
        op="add",
        finish=lambda fields, _: np.sqrt(fields["q"] / np.maximum(fields["n"], 1)),
        kinds=kinds,
        **others,
    )


RMSE = _mean_square(
    _unless_equal(lambda x0, x1: real(x0) - real(x1)),
    "f",
    instead={
        "biu": _mean_square(lambda x0, x1: real(distance(x0, x1)), "biu"),
        "c": _mean_square(_unless_equal(far_complex), "c"),
    },
    specialised=ForMixedInputs(lambda dtypes: _mean_square(partial(far_as_float, dtypes), "biu")),
).skipping()

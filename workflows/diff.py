"""Compare two arrays of equal shape, chunked as they like, such as a copy and its original."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack

import numpy as np
from distributed import Client

from chunkfold.api import submit
from chunkfold.events import OnEvent
from chunkfold.kernels import Monoid, Packing, as_monoid, is_defined
from chunkfold.kernels.catalogue.differences import (
    alike,
    equal,
    far_complex,
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
from chunkfold.planning.option_table import Keywords
from chunkfold.planning.options import Options
from chunkfold.planning.request import Request
from chunkfold.planning.resolve import asked
from chunkfold.selections import Selection
from chunkfold.sources.cf_packing import packing_of
from chunkfold.sources.opening import open_source
from chunkfold.sources.source import Source

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
_MAX_ABS = _farthest(
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


_RMSE = _mean_square(
    _unless_equal(lambda x0, x1: real(x0) - real(x1)),
    "f",
    instead={
        "biu": _mean_square(lambda x0, x1: real(distance(x0, x1)), "biu"),
        "c": _mean_square(_unless_equal(far_complex), "c"),
    },
    specialised=ForMixedInputs(lambda dtypes: _mean_square(partial(far_as_float, dtypes), "biu")),
).skipping()


@dataclass(frozen=True)
class Difference:
    """The differences of two arrays; NaN equals NaN."""

    dtypes: tuple[np.dtype, np.dtype]
    """The dtypes of elements, or of decoded values; they are compared in their common dtype."""
    elements: int
    """Pairs that were compared."""
    different: int
    """The number of pairs that differ."""
    first: tuple[int, ...] | None
    """The indices of the first pair that differs, in C order; None if none does."""
    values: tuple[Any, ...] | None
    """The values of the first pair that differs."""
    max_abs: Any
    """Largest absolute difference of pairs without NaN or NaT; None if no timedelta64 holds it."""
    rmse: float | None
    """Root of their mean squared difference, in float64; None for times."""

    @property
    def equal(self) -> bool:
        """Return True if all pairs are equal."""
        return self.first is None

    @property
    def rounded(self) -> str:
        """Name the dtype that integers were rounded to, to be compared with floats; "" if none."""
        wide = any(dtype.kind in "iu" and dtype.itemsize == 8 for dtype in self.dtypes)
        with_floats = any(dtype.kind in "fc" for dtype in self.dtypes)
        return np.result_type(*self.dtypes).name if wide and with_floats else ""

    @property
    def _none(self) -> str:
        return "NaT" if self.dtypes[0].kind in "mM" else "NaN"

    def lines(self) -> list[str]:
        """Say it to people."""
        if self.first is None or self.values is None:
            return [f"equal: {self.elements:,} elements", *self._rounding()]
        where, (one, other) = ", ".join(map(str, self.first)), self.values
        counts = f"{self.different:,} of {self.elements:,} elements differ"
        lines = [f"{counts}, the first at [{where}]: {one} and {other}"]
        measured = {"max_abs": self.max_abs, "rmse": self.rmse}
        told = {name: value for name, value in measured.items() if value is not None}
        lines += [f"{name} {value}" for name, value in told.items()]
        if told and (one != one or other != other):
            are = "are" if len(told) > 1 else "is"
            lines.append(f"({' and '.join(told)} {are} of the pairs without {self._none})")
        return [*lines, *self._rounding()]

    def _rounding(self) -> list[str]:
        if not self.rounded:
            return []
        names = " and ".join(map(str, self.dtypes))
        said = (
            f"({names} were compared as {self.rounded}, as NumPy does: integers beyond 2**53 are "
            "rounded, and those that round to the same are equal)"
        )
        return [said]


def diff(
    a: Any,
    b: Any,
    *,
    mask_and_scale: bool = False,
    selection: Selection = None,
    memory: int | str | None = None,
    client: Client | None = None,
    on_event: OnEvent | None = None,
) -> Difference:
    """Compare two arrays of equal shape element by element, in one read of both.

    Parameters as `chunkfold.reduce` has them.

    Raises
    ------
    ChunkfoldError
        If the shapes differ, no dtype holds the elements of both, or one cannot be read.
    """
    request = comparison(a, b, mask_and_scale=mask_and_scale, selection=selection, memory=memory)
    return compared(request, client=client, on_event=on_event)


def comparison(a: Any, b: Any, **options: Unpack[Keywords]) -> Request:
    """Return what compares two arrays; parameters as `diff`.

    Raises
    ------
    ChunkfoldError
        If anything is wrong with these.
    """
    pair = open_source(a), open_source(b)
    packings = [packing_of(one) if options.get("mask_and_scale") else None for one in pair]
    dtypes = [source.dtype for source in pair]
    measures = [one for one in (_MAX_ABS, _RMSE) if is_defined(one, dtypes, packings)]
    ops = [as_monoid("first_mismatch"), _DIFFERENT, *measures]
    return asked(pair, Options(ops, **options), by_position=True)


def compared(
    request: Request, *, client: Client | None = None, on_event: OnEvent | None = None
) -> Difference:
    """Carry out what `comparison` returned."""
    run = submit(request, client=client, on_event=on_event)
    found, layout = run.result(), run.plan.layout
    pair, packings = request.sources, request.packings
    first = values = None
    if found["first_mismatch"] >= 0:
        place = np.unravel_index(int(found["first_mismatch"]), layout.shape)
        axes = zip(layout.axes, map(int, place), strict=True)
        first = tuple(int(axis.shown[n]) for axis, n in axes)
        values = tuple(
            _value(_element(source, first), packing)
            for source, packing in zip(pair, packings, strict=True)
        )
    rmse = found.get("rmse")
    one, other = (
        packing.value_dtype(source.dtype) if packing else source.dtype
        for source, packing in zip(pair, packings, strict=True)
    )
    return Difference(
        dtypes=(one, other),
        elements=layout.elements,
        different=int(found["different"]),
        first=first,
        values=values,
        max_abs=found.get("max_abs_diff"),
        rmse=None if rmse is None else float(rmse),
    )


def _element(source: Source, place: Sequence[int]) -> np.ndarray:
    """Read one element: an array of it."""
    element = np.empty([1] * len(place), source.dtype)
    source.read([slice(n, n + 1, 1) for n in place], element)
    return element.reshape(1)


def _value(element: np.ndarray, packing: Packing | None) -> Any:
    """Return what an element, an array of it, stands for."""
    return (packing.values(element) if packing else element)[0]

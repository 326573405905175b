"""Compare two arrays of equal shape, chunked as they like, such as a copy and its original."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from distributed import Client

from chunkfold.api import submit
from chunkfold.events import OnEvent
from chunkfold.kernels import Packing, is_defined
from chunkfold.kernels.catalogue.mixed_dtypes import are_mixed
from chunkfold.planning.option_table import Keywords
from chunkfold.planning.options import Options
from chunkfold.planning.request import Request
from chunkfold.planning.resolve import resolve
from chunkfold.selections import Selection
from chunkfold.sources.cf_packing import packing_of
from chunkfold.sources.opening import open_source
from chunkfold.sources.source import Source
from chunkfold.tracebacks import traceback_cut
from chunkfold.workflows.comparisons.pair_measures import MAX_ABS, RMSE, counted_and_first
from chunkfold.workflows.comparisons.tolerances import EXACTLY, Tolerance


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
    within: Tolerance = EXACTLY
    """Differences that count as none."""

    @property
    def equal(self) -> bool:
        """Return True if all pairs are equal, or differ by no more than the tolerance."""
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
            within = f" within {self.within}" if self.within else ""
            lines, (one, other) = [f"equal{within}: {self.elements:,} elements"], (0, 0)
            if not self.within:
                return [*lines, *self._rounding()]
        else:
            where, (one, other) = ", ".join(map(str, self.first)), self.values
            counts = f"{self.different:,} of {self.elements:,} elements differ"
            by = f" by more than {self.within}" if self.within else ""
            lines = [f"{counts}{by}, the first at [{where}]: {one} and {other}"]
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


@traceback_cut
def diff(
    a: Any,
    b: Any,
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    ulp: int = 0,
    mask_and_scale: bool = False,
    selection: Selection = None,
    memory: int | str | None = None,
    client: Client | None = None,
    on_event: OnEvent | None = None,
) -> Difference:
    """Compare two arrays of equal shape element by element, in one read of both.

    Parameters
    ----------
    a, b
        As `chunkfold.reduce` takes a source.
    rtol, atol
        Elements x and y of `a` and `b` count as equal if |x - y| <= atol + rtol * |y|, in float64.
    ulp
        They count as equal, too, if at most so many steps lead from one to the other, each to the
        next value that their common dtype has: 1 for neighbours.
    mask_and_scale, selection, memory, client, on_event
        As `chunkfold.reduce` has them.

    Raises
    ------
    ChunkfoldError
        If the shapes differ, no dtype holds the elements of both, or one cannot be read.
    """
    within = Tolerance(rtol, atol, ulp)
    request = comparison(
        a, b, within, mask_and_scale=mask_and_scale, selection=selection, memory=memory
    )
    return compared(request, within, client=client, on_event=on_event)


def comparison(a: Any, b: Any, within: Tolerance = EXACTLY, **options: Unpack[Keywords]) -> Request:
    """Return what compares two arrays; parameters as `diff`.

    Raises
    ------
    ChunkfoldError
        If anything is wrong with these.
    """
    pair = open_source(a), open_source(b)
    packings = [packing_of(one) if options.get("mask_and_scale") else None for one in pair]
    dtypes = [source.dtype for source in pair]
    measures = [one for one in (MAX_ABS, RMSE) if is_defined(one, dtypes, packings)]
    values = [
        packing.value_dtype(dtype) if packing else dtype
        for packing, dtype in zip(packings, dtypes, strict=True)
    ]
    common = None
    if not are_mixed(values):
        with suppress(TypeError):  # planning says that no dtype holds both
            common = np.result_type(*values)
    ops = [*counted_and_first(within, common), *measures]
    return resolve(pair, Options(ops, **options), by_position=True)


def compared(
    request: Request,
    within: Tolerance = EXACTLY,
    *,
    client: Client | None = None,
    on_event: OnEvent | None = None,
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
        within=within,
    )


def _element(source: Source, place: Sequence[int]) -> np.ndarray:
    """Read one element: an array of it."""
    element = np.empty([1] * len(place), source.dtype)
    source.read([slice(n, n + 1, 1) for n in place], element)
    return element.reshape(1)


def _value(element: np.ndarray, packing: Packing | None) -> Any:
    """Return what an element, an array of it, stands for."""
    return (packing.values(element) if packing else element)[0]

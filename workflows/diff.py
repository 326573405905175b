"""Compare two arrays of equal shape, chunked as they like, such as a copy and its original."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from distributed import Client

from chunkfold.api import submit
from chunkfold.events import OnEvent
from chunkfold.grid import Selection
from chunkfold.kernels import Monoid, Packing, as_monoid, is_defined
from chunkfold.opening import open_source
from chunkfold.packed import packing_of

# Of equal elements the difference is 0, of infinities too.
_RMSE = Monoid(
    "rmse",
    inputs=2,
    fields={"q": "real", "n": "count"},
    zero={"q": 0, "n": 0},
    lift={"q": "x0 == x1 ? 0 : (wide(x0) - wide(x1)) * (wide(x0) - wide(x1))", "n": "1"},
    op={"q": "add", "n": "add"},
    finish=lambda fields, _: np.sqrt(fields["q"] / np.maximum(fields["n"], 1)),
    kinds="biuf",
    casts=False,
).skipping()
_DIFFERENT = Monoid(
    "different",
    inputs=2,
    fields={"n": "int64"},
    zero=0,
    lift="x0 == x1 || (x0 != x0 && x1 != x1) ? 0 : 1",
    op="add",
    kinds="biufmM",
    casts=False,
)
_OF_FLOATS = Monoid(
    "max_abs_diff",
    inputs=2,
    fields={"d": "real"},
    zero=0,
    lift="x0 == x1 ? 0 : fabs(wide(x0) - wide(x1))",
    op="max",
    kinds="f",
    casts=False,
).skipping()
_OF_INTEGERS = replace(
    as_monoid("max_abs_diff").for_dtype(np.dtype("int64")), kinds="biu", on_empty="finish"
)


@dataclass(frozen=True)
class Difference:
    """How two arrays differ; NaN equals NaN."""

    dtypes: tuple[np.dtype, np.dtype]
    """Of either's elements, or of their values; they are compared in the dtype that holds both."""
    elements: int
    """Pairs that were compared."""
    different: int
    """Of these, those that differ."""
    first: tuple[int, ...] | None
    """Where the first pair stands, in C order, that differs; None if none does."""
    values: tuple[Any, ...] | None
    """That pair."""
    max_abs: Any
    """Largest absolute difference of pairs without NaN; None for dtypes that have none."""
    rmse: float | None
    """Root of their mean squared difference, in float64."""

    @property
    def equal(self) -> bool:
        """Whether all pairs are equal."""
        return self.first is None

    def lines(self) -> list[str]:
        """Say it to people."""
        if self.first is None or self.values is None:
            return [f"equal: {self.elements:,} elements"]
        where, (one, other) = ", ".join(map(str, self.first)), self.values
        counts = f"{self.different:,} of {self.elements:,} elements differ"
        lines = [f"{counts}, the first at [{where}]: {one} and {other}"]
        if self.rmse is not None:
            lines += [f"max_abs {self.max_abs}", f"rmse {self.rmse}"]
            if one != one or other != other:
                lines.append("(max_abs and rmse are of the pairs without NaN)")
        return lines


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
    pair = open_source(a), open_source(b)
    packings = [packing_of(source) if mask_and_scale else None for source in pair]
    dtypes = [source.dtype for source in pair]
    measured = (one for one in (_OF_FLOATS, _OF_INTEGERS) if is_defined(one, dtypes, packings))
    most = next(measured, None)
    measures = [] if most is None else [most, _RMSE]
    run = submit(
        pair,
        [as_monoid("first_mismatch"), _DIFFERENT, *measures],
        mask_and_scale=mask_and_scale,
        selection=selection,
        memory=memory,
        client=client,
        on_event=on_event,
    )
    found, layout = run.result(), run.plan.layout
    first = values = None
    if found["first_mismatch"] >= 0:
        place = np.unravel_index(int(found["first_mismatch"]), layout.shape)
        axes = zip(layout.axes, map(int, place), strict=True)
        first = tuple(axis.start + n * axis.step for axis, n in axes)
        values = tuple(
            _value(np.atleast_1d(source.array[first]), packing)
            for source, packing in zip(pair, packings, strict=True)
        )
    rmse = found.get("rmse")
    one, other = (
        packing.value_dtype(dtype) if packing else dtype
        for dtype, packing in zip(dtypes, packings, strict=True)
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


def _value(element: np.ndarray, packing: Packing | None) -> Any:
    """Return what an element, an array of it, stands for."""
    return (packing.values(element) if packing else element)[0]

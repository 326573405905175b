"""Reductions of stored arrays in graphs of Dask's: found, each as a question of chunkfold's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunkfold.graphs.graph_calls import NotTakenError
from chunkfold.graphs.stored_views import Chunks, StoredView
from chunkfold.kernels import Monoid

FEW = 8
"""Fewer elements than this for each result are left to Dask."""
DDOF = (0, 1)
"""With others Dask divides otherwise where there are fewer elements."""
_MANY_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class GraphReduction:
    """A layer of a graph, and the question whose answer its chunks are."""

    layer: str
    view: StoredView
    """The stored array that is reduced."""
    op: str | Monoid
    options: Mapping[str, Any]
    """Options of the question, by name."""
    dtype: np.dtype
    """The dtype of the layer."""
    chunks: Chunks
    """Extents of the layer's chunks along each axis."""
    turned: tuple[int, ...] = ()
    """The axis of the answer that each axis of the layer is, but for reduced ones that it keeps."""

    def __str__(self) -> str:
        """Return what is told of it."""
        op = self.op if isinstance(self.op, str) else self.op.name
        axes = self.options.get("axis")
        over = "" if axes is None else f" over {', '.join(map(str, axes))}"
        groups = " by groups" if "by" in self.options else ""
        return f"{op} of {self.view.source.name}{over}{groups}"

    @property
    def few_each(self) -> bool:
        """True if many results are of few elements each: to write them takes Dask no longer."""
        results = math.prod(map(sum, self.chunks))
        many = results * self.dtype.itemsize > _MANY_BYTES
        return many and results * FEW > math.prod(self.view.shape)

    def blocks(self, answer: Any) -> dict[tuple[Any, ...], Any]:
        """Return the layer's chunks by key, of an answer.

        Raises
        ------
        NotTakenError
            If Dask's result is another, or none.
        """
        values = np.asarray(getattr(answer, "values", answer))
        if values.dtype.kind == "i" and str(self.op).startswith("arg") and np.any(values < 0):
            raise NotTakenError("all elements of a result are NaN, and Dask warns of that")
        if values.dtype != self.dtype:
            if not np.can_cast(values.dtype, self.dtype, "same_kind"):
                raise NotTakenError(f"its results are {self.dtype}, not {values.dtype}")
            values = values.astype(self.dtype)
        values = values.transpose(self.turned).reshape(tuple(map(sum, self.chunks)))
        bounds = [np.cumsum([0, *along]) for along in self.chunks]
        return {
            (self.layer, *place): values[
                tuple(slice(b[n], b[n + 1]) for b, n in zip(bounds, place, strict=True))
            ].copy()[()]
            for place in np.ndindex(*map(len, self.chunks))
        }


def skipping(view: StoredView, *, skips: bool) -> dict[str, Any]:
    """Return the option of a reduction that skips NaN, if elements may be NaN."""
    return {"skipna": True} if skips and view.dtype.kind == "f" else {}


def summed_dtype(op: str, view: StoredView) -> np.dtype:
    """Return the dtype of sums, means and deviations that Dask and flox make if none is given."""
    if view.dtype.kind == "f":
        return view.dtype
    return np.sum(np.empty(0, view.dtype)).dtype if op == "sum" else np.dtype("f8")


def kept_chunks(view: StoredView, axes: Sequence[int], *, keepdims: bool) -> Chunks:
    """Return the chunks of a layer that is reduced over some of its axes."""
    chunks = [(1,) if n in axes else along for n, along in enumerate(view.chunks)]
    return tuple(along for n, along in enumerate(chunks) if keepdims or n not in axes)


def answer_axes(view: StoredView, axes: Sequence[int]) -> tuple[int, ...]:
    """Return the axis of an answer that each axis is which a layer keeps, in the layer's order."""
    left = [along for n, along in enumerate(view.order) if n not in axes]
    return tuple(sorted(left).index(along) for along in left)

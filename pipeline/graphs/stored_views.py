"""Layers of Dask's graphs that are stored arrays: read, decoded and cut, no more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dask.array as da
import numpy as np
from dask.blockwise import Blockwise
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.layers import ArraySliceDep
from dask.local import get_sync

from chunkfold.errors import ChunkfoldError
from chunkfold.graphs.graph_calls import (
    NotTakenError,
    block_call,
    blocks_of,
    only_below,
)
from chunkfold.selections import Selection
from chunkfold.settings import accelerate_bytes
from chunkfold.sources.dask_selections import ORIGINAL, read_by
from chunkfold.sources.data_arrays import stored_below
from chunkfold.sources.source import Source

Chunks = tuple[tuple[int, ...], ...]
_READERS = ("getter", "getter_nofancy", "getter_inline")
RECHUNKED = "rechunk-"
KINDS = "biuf"
_HALF = np.dtype("f2")
"""Dask adds up float16 in float16, so that its results are others."""


@dataclass(frozen=True, eq=False)
class StoredView:
    """A stored array as a layer has it."""

    base: str
    """The layer that reads it, and may select of it, or that computes it."""
    readers: tuple[str, ...]
    """The layers that read it, or the arrays that it is computed of."""
    source: Source
    selection: Selection
    decoded: bool
    """True if its elements stand for other values."""
    dtype: np.dtype
    """The dtype of the layer's elements."""
    chunks: Chunks
    """Extents of the layer's chunks along each of its axes."""
    order: tuple[int, ...]
    """The axis of what is selected of the source that each axis of the layer is."""
    cast: bool = False
    """True if elements are cast to the dtype."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return tuple(map(sum, self.chunks))

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, as Dask has them."""
        return math.prod(self.shape) * self.dtype.itemsize

    def turned(self, axes: Sequence[int]) -> StoredView:
        """Return it with its axes in another order."""
        chunks = tuple(self.chunks[n] for n in axes)
        return replace(self, chunks=chunks, order=tuple(self.order[n] for n in axes))


def base_view(graph: HighLevelGraph, name: str) -> StoredView:
    """Return the stored array that a layer reads, and may select of.

    Raises
    ------
    NotTakenError
        If it does anything else with its elements.
    """
    reader = name
    while not _reads(graph, reader):
        if not reader.startswith(("getitem-", RECHUNKED)):
            raise NotTakenError("its elements are computed by Dask before")
        reader = only_below(graph, reader)
    lazy = dict(graph.layers[f"{ORIGINAL}{reader}"])[f"{ORIGINAL}{reader}"]
    dtype, shape = np.dtype(lazy.dtype), tuple(lazy.shape)
    refuse_dtype(dtype)
    chunks = _chunks(graph, reader)
    _refuse_small(chunks, dtype)
    cuts = None
    if name != reader:
        origin = f"{ORIGINAL}{reader}"
        stand = np.broadcast_to(np.int8(0), shape)
        chunks = _sizes(graph, name, origin, {origin: stand})
        _refuse_small(chunks, dtype)
        part = HighLevelGraph(dict(graph.layers), dict(graph.dependencies))
        data = da.Array(part, name, chunks, meta=np.empty((0,) * len(chunks), dtype))
        read = read_by(data)
        if read is None:
            raise NotTakenError("it is cut in a way that is not known")
        _, cuts = read
    try:
        source, selection, decoded = stored_below(lazy, cuts, dtype)
    except ChunkfoldError as error:
        raise NotTakenError(str(error)) from error
    return StoredView(
        name, (reader,), source, selection, decoded, dtype, chunks, tuple(range(len(chunks)))
    )


def refuse_dtype(dtype: np.dtype) -> None:
    """Refuse elements of which Dask's results are others, or none.

    Raises
    ------
    NotTakenError
        If they are such.
    """
    if dtype.kind not in KINDS or dtype == _HALF:
        raise NotTakenError(f"its elements are {dtype}")


def _refuse_small(chunks: Chunks, dtype: np.dtype) -> None:
    nbytes, least = math.prod(map(sum, chunks)) * dtype.itemsize, accelerate_bytes()
    if nbytes < least:
        raise NotTakenError(f"it reads {nbytes:,} bytes, and Dask keeps those below {least:,}")


def _reads(graph: HighLevelGraph, name: str) -> bool:
    """Return True if a layer reads chunks of one object as they are."""
    call = block_call(graph, name)
    return (
        call is not None
        and f"{ORIGINAL}{name}" in graph.layers
        and getattr(call.function, "__name__", "") in _READERS
        and len(call.inputs) == 2
    )


def _chunks(graph: HighLevelGraph, reader: str) -> Chunks:
    layer = graph.layers[reader]
    assert isinstance(layer, Blockwise)
    for given in layer.io_deps.values():
        if isinstance(given, ArraySliceDep):
            return tuple(tuple(map(int, along)) for along in given.chunks)
    raise NotTakenError("its chunks are not known")


def sizes_of(graph: HighLevelGraph, name: str, below: str, view: StoredView) -> Chunks:
    """Return the extents of a layer's chunks, which is made of one that has a view; none is read.

    The layer's tasks are run with bytes in the place of elements.
    """
    stand = np.broadcast_to(np.int8(0), view.shape)
    bounds = [np.cumsum([0, *along]) for along in view.chunks]
    tasks = {
        (below, *place): stand[
            tuple(slice(b[n], b[n + 1]) for b, n in zip(bounds, place, strict=True))
        ]
        for place in np.ndindex(*map(len, view.chunks))
    }
    return _sizes(graph, name, below, tasks)


def _sizes(graph: HighLevelGraph, name: str, below: str, tasks: Mapping[Any, Any]) -> Chunks:
    layers = {**graph.layers, below: MaterializedLayer(tasks)}
    dependencies = {**graph.dependencies, below: set()}
    blocks = blocks_of(graph, name)
    keys: list[Any] = [
        [(name, *(n if other == axis else 0 for other in range(len(blocks)))) for n in range(many)]
        for axis, many in enumerate(blocks)
    ]
    wanted = {key for along in keys for key in along}
    made = get_sync(HighLevelGraph(layers, dependencies).cull(wanted), keys)
    return tuple(tuple(int(b.shape[axis]) for b in along) for axis, along in enumerate(made))

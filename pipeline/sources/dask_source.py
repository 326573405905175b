"""Arrays of Dask's: their chunks are computed where blocks run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from dask.base import is_dask_collection
from dask.core import flatten
from dask.typing import Key
from distributed import Client

from chunkfold.axis_cuts import Cells
from chunkfold.bad_chunks import BadChunk
from chunkfold.boxes import region_shape
from chunkfold.errors import ChunkError, SourceError
from chunkfold.sources.array_origins import array_origins
from chunkfold.sources.array_source import Region, cells_of_chunks
from chunkfold.sources.dask_division import Division
from chunkfold.sources.dask_graph import Failed, futures_in, optimized
from chunkfold.sources.declared_source import BroughtSource
from chunkfold.sources.source import Source
from chunkfold.stores.expected import Expected

_KIND = "computed by Dask"
ChunkIndex = tuple[int, ...]
"""The number of a chunk along each axis, of those that have elements."""


@dataclass(frozen=True, repr=False, eq=False)
class DaskSource(Source):
    """A `dask.array.Array`."""

    array: Any
    name: str
    cells: tuple[Cells, ...]
    """The boundaries of chunks along each axis."""
    named: tuple[str | None, ...] | None = None
    """Names of the axes, where they have any."""
    labelled: Any = None
    """The DataArray that it was given as."""
    futures: Mapping[Key, Any] = field(default_factory=dict)
    """Futures that it is made of, by their keys."""
    keys: Mapping[ChunkIndex, Key] = field(default_factory=dict)
    """Keys of the tasks that make its chunks, once a run has its graph."""

    def __repr__(self) -> str:
        return f"<DaskSource {self.name}: {self.dtype}, shape {self.shape}>"

    @property
    def dtype(self) -> np.dtype:
        """Return the dtype of an element."""
        dtype: np.dtype = np.dtype(self.array.dtype)
        return dtype

    @property
    def grid(self) -> tuple[Cells, ...]:
        """Return the boundaries of chunks along each axis."""
        return self.cells

    @property
    def dims(self) -> tuple[str | None, ...] | None:
        """Names of the axes, of arrays that came with some."""
        return self.named

    @property
    def own_addresses(self) -> Sequence[str]:
        """The paths and URLs of the stored arrays that it is computed from."""
        return [self.name, *array_origins(self.array)]

    @property
    def kind(self) -> str:
        """Return the name of this kind of source."""
        return _KIND

    @property
    def travels(self) -> bool:
        """Only in blocks, each with tasks of its graph."""
        return False

    @property
    def client(self) -> Client | None:
        """Return the client whose cluster has its futures; None if it has no futures."""
        owners = (future.client for future in self.futures.values())
        return next(owners, None)

    def described(self) -> list[str]:
        """Say what it is, and what the memory bound does not know."""
        beside = "          the bound does not include the memory of its tasks and their results"
        return [*super().described(), beside]

    def reading_bytes(self, leaf_bytes: int, touched_bytes: int) -> int:  # noqa: ARG002
        """None beside what its tasks made."""
        return 0

    def read(self, region: Region, out: np.ndarray, known: Expected | None = None) -> None:
        """Compute a region. Runs compute the chunks of a block at once, and copy from these."""
        del known
        scheduler = "synchronous" if self.client is None else self.client.get
        out[...] = self.array[tuple(region)].compute(scheduler=scheduler)

    def parted(self, regions: Sequence[Region]) -> DaskChunks:
        """Return the chunks that regions touch, to be computed."""
        places = itertools.chain.from_iterable(map(self._touched, regions))
        wanted = {place: self.keys[place] for place in places}
        return DaskChunks(self.name, self.dtype, self.cells, wanted)

    def touched(self, regions: Iterable[Region]) -> list[Key]:
        """Return the keys of the chunks that regions touch."""
        places = itertools.chain.from_iterable(map(self._touched, regions))
        return [self.keys[place] for place in dict.fromkeys(places)]

    def _touched(self, region: Region) -> Iterator[ChunkIndex]:
        """Yield the chunks that have elements of a region."""
        return itertools.product(*map(_cells_of, region, self.cells))


def _cells_of(cut: slice, along: Cells) -> Sequence[int]:
    """Return which cells along an axis have elements of a slice, which has some.

    >>> _cells_of(slice(3, 9, 1), Cells(12, 4)), _cells_of(slice(0, 9, 8), Cells(12, 4))
    ([0, 1, 2], [0, 2])
    >>> _cells_of(slice(3, 9, 3), Cells(12, 9, (0, 1, 3, 12)))
    [2]
    """
    step = cut.step or 1
    first, last = map(int, along.holding(np.array([cut.start, cut.stop - 1])))
    bounds = np.clip(along.offsets[first : last + 2], cut.start, cut.stop)
    return [first + int(n) for n in np.flatnonzero(np.diff(-((cut.start - bounds) // step)))]


@dataclass(frozen=True, repr=False, eq=False)
class DaskChunks(BroughtSource):
    """Chunks of an array of Dask's, where a block reads them."""

    wanted: Mapping[ChunkIndex, Key] = field(default_factory=dict)
    """The keys of the chunks, by their places."""
    chunks_by_key: Mapping[Key, Any] = field(default_factory=dict)
    """Results of the tasks that make its chunks."""

    def computed(self, results: Mapping[Key, Any]) -> DaskChunks:
        """Return it with what tasks made."""
        return replace(self, chunks_by_key={key: results[key] for key in self.wanted.values()})

    def read(self, region: Region, out: np.ndarray, known: Expected | None = None) -> None:
        """Copy a region from the chunks that have it."""
        del known
        shape = region_shape(region)
        into = out.reshape(shape)
        for place in itertools.product(*map(_cells_of, region, self.cells)):
            cuts = list(map(_overlap, region, self.cells, place))
            chunk = self._chunk(place)
            into[tuple(cut for cut, _ in cuts)] = chunk[tuple(cut for _, cut in cuts)]

    def _chunk(self, place: ChunkIndex) -> np.ndarray:
        """Return a chunk, checked: what tasks make may be anything.

        Raises
        ------
        ChunkError
            If its tasks failed, or made something else.
        """
        if place not in self.wanted:
            raise SourceError(
                f"{self.name}: chunk {place} did not come with the block that reads it"
            )
        made = self.chunks_by_key[self.wanted[place]]
        bounds = [along.offsets[n : n + 2] for along, n in zip(self.cells, place, strict=True)]
        shape = tuple(int(behind - first) for first, behind in bounds)
        reason = made.reason if isinstance(made, Failed) else ""
        if isinstance(made, np.ma.MaskedArray):
            reason = (
                "its elements are masked: give dask.array.ma.filled(x, np.nan), and skipna=True"
            )
        array = np.empty(0) if reason else np.asarray(made)
        if not reason and (array.shape, array.dtype) != (shape, self.dtype):
            reason = f"it is {array.dtype} of shape {array.shape}, not {self.dtype} of {shape}"
        if reason:
            bad = BadChunk(self.name, "chunk", str(place), (), _KIND, reason)
            raise ChunkError(str(bad), bad)
        return array


def _overlap(cut: slice, along: Cells, cell: int) -> tuple[slice, slice]:
    """Return which elements of a slice a cell has: where they are in the slice, and in the cell.

    >>> _overlap(slice(1, 10, 2), Cells(12, 4), 1)
    (slice(2, 4, None), slice(1, 4, 2))
    """
    step = cut.step or 1
    first, behind = (int(bound) for bound in along.offsets[cell : cell + 2])
    begin = max(0, -((cut.start - first) // step))
    end = -((cut.start - min(behind, cut.stop)) // step)
    inside = cut.start + begin * step - first
    return slice(begin, end), slice(inside, cut.start + (end - 1) * step + 1 - first, step)


def is_dask(given: Any) -> bool:
    """Return True if an object is a Dask collection, or made of one."""
    return bool(is_dask_collection(given))


def dask_source(given: Any) -> Source:
    """Return an array of Dask's, or one of xarray's that is made of one, as a source.

    Raises
    ------
    SourceError
        If it is no array, its extents are not known, or its meaning would be lost.
    """
    from dask.array import Array  # which takes long, and which whoever has an array has imported

    array = given if isinstance(given, Array) else getattr(given, "data", None)
    called = f"{type(given).__module__.partition('.')[0]}'s {type(given).__name__}"
    if not isinstance(array, Array):
        raise SourceError(
            f"{called} is not an array: give a dask.array.Array, as df.to_dask_array(lengths=True)"
        )
    name = str(getattr(given, "name", None) or array.name)
    unknown = [axis for axis, size in enumerate(array.shape) if math.isnan(size)]
    if unknown:
        raise SourceError(
            f"{name}: the lengths of its chunks are unknown along axis {unknown[0]}: call "
            "x.compute_chunk_sizes() first"
        )
    if isinstance(array._meta, np.ma.MaskedArray):
        raise SourceError(
            f"{name}: a masked array has elements that are missing: give "
            "dask.array.ma.filled(x, np.nan), and skipna=True"
        )
    cells = tuple(map(cells_of_chunks, array.shape, array.chunks))
    named = None if array is given else tuple(map(str, given.dims))
    labelled = given if hasattr(given, "coords") else None
    return DaskSource(array, name, cells, named, labelled, futures_in([array]))


def arrays_in(sources: Iterable[Source]) -> list[Any]:
    """Return the arrays of Dask's among sources."""
    return [source.array for source in sources if isinstance(source, DaskSource)]


def with_keys(source: Source) -> Source:
    """Return a source whose chunks have the keys that its own graph gives them; others as is."""
    if not isinstance(source, DaskSource):
        return source
    return replace(source, keys=_by_place(source.array, source.array.__dask_keys__()))


def with_tasks(
    sources: Sequence[Source], regions: Iterable[Callable[[Source], Sequence[Region]]]
) -> tuple[tuple[Source, ...], Division | None]:
    """Return sources whose chunks have keys, and the tasks that make them; None if none has any.

    `regions` return what each block reads of a source.
    """
    arrays = arrays_in(sources)
    if not arrays:
        return tuple(sources), None
    graph, keys = optimized(arrays)
    left = iter(keys)
    ready = tuple(
        replace(source, keys=_by_place(source.array, next(left)))
        if isinstance(source, DaskSource)
        else source
        for source in sources
    )
    own = [source for source in ready if isinstance(source, DaskSource)]
    wanted = [
        list(dict.fromkeys(key for source in own for key in source.touched(of_block(source))))
        for of_block in regions
    ]
    return ready, Division(graph, wanted)


def _by_place(array: Any, keys: Any) -> Mapping[ChunkIndex, Key]:
    """Return the keys of chunks that have elements by their places among these."""
    sizes = itertools.product(*map(enumerate, array.chunks))
    places = [
        {number: place for place, number in enumerate(n for n, size in enumerate(along) if size)}
        for along in array.chunks
    ]
    return {
        tuple(along[number] for along, (number, _) in zip(places, chunk, strict=True)): key
        for chunk, key in zip(sizes, flatten(keys), strict=True)
        if all(size for _, size in chunk)
    }

"""Arrays that are in memory or behind an object of Python's: NumPy's, and all that is like them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from dask.base import is_dask_collection

from chunkfold.axis_cuts import Cells
from chunkfold.bad_chunks import BadChunk
from chunkfold.boxes import region_shape
from chunkfold.errors import SourceError, unreadable
from chunkfold.sources.declared_source import BroughtSource
from chunkfold.sources.source import Source
from chunkfold.stores.expected import Expected

_FILL = "give array.filled(np.nan), and skipna=True"
CHUNK_BYTES = 4 << 20
"""Bytes that are read at once from an array that has no chunks."""
Region = Sequence[slice]


@dataclass(frozen=True, repr=False, eq=False)
class ArraySource(Source):
    """An array that gives regions of itself by `array[region]`."""

    array: Any
    """Has `shape`, `dtype` and `__getitem__` with slices."""
    name: str
    cells: tuple[Cells, ...]
    """The boundaries of chunks along each axis."""
    in_memory: bool = False
    """True if the elements are in this process, so that a read is a copy."""

    def __repr__(self) -> str:
        return f"<ArraySource {self.name}: {self.dtype}, shape {self.shape}>"

    @cached_property
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
        """Names of the axes, of arrays that have `dims`."""
        return _names(self.array)

    @property
    def kind(self) -> str:
        """Return the place of its elements: in memory, or the type that reads them."""
        return "in memory" if self.in_memory else f"read by {type(self.array).__name__}"

    @property
    def travels(self) -> bool:
        """Only in blocks: it has no address."""
        return False

    @property
    def here(self) -> bool:
        """Return True: the elements are in this process, or an object in it reads them."""
        return True

    @property
    def as_it_is(self) -> bool:
        """Return True if reading a part takes time proportional to its bytes."""
        return self.in_memory

    def reading_bytes(self, leaf_bytes: int, touched_bytes: int) -> int:
        """None where elements are copied from where they are."""
        return 0 if self.in_memory else super().reading_bytes(leaf_bytes, touched_bytes)

    def read(self, region: Region, out: np.ndarray, known: Expected | None = None) -> None:
        """Copy a region."""
        del known
        out[...] = self._part(region)

    def parted(self, regions: Sequence[Region]) -> Source:
        """Return regions: of what is in memory views of it."""
        parts = tuple((tuple(region), self._part(region)) for region in regions)
        return PartsSource(self.name, self.dtype, self.cells, parts)

    def _part(self, region: Region) -> np.ndarray:
        """Return a region, checked: arrays of others may give anything.

        Raises
        ------
        ChunkError
            If it cannot be had.
        """
        try:
            given = self.array[tuple(region)]
            # Dask's own conversion drops masks.
            part = np.asanyarray(given.compute() if is_dask_collection(given) else given)
            if np.ma.is_masked(part):  # what is under a mask is anything
                raise ValueError(f"it gave masked elements: {_FILL}")
            part, shape = np.asarray(part), region_shape(region)
            if not part.shape:  # a scalar of NumPy's, which is in native byte order
                part = part.astype(part.dtype.newbyteorder(self.dtype.byteorder))
            if (part.shape, part.dtype) != (shape, self.dtype):
                raise ValueError(
                    f"it gave {part.dtype} of shape {part.shape}, not {self.dtype} of {shape}"
                )
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            place = "[" + ", ".join(f"{cut.start}:{cut.stop}" for cut in region) + "]"
            bad = BadChunk(self.name, "region", place, (), self.kind, reason)
            raise unreadable(bad, error) from error
        return part


@dataclass(frozen=True, repr=False, eq=False)
class PartsSource(BroughtSource):
    """Regions of an array, as a block brings them to a worker."""

    parts: Sequence[tuple[tuple[slice, ...], np.ndarray]] = ()
    """The slices of each region, and its elements."""

    def __sizeof__(self) -> int:
        return sum(elements.nbytes for _, elements in self.parts)

    def reading_bytes(self, leaf_bytes: int, touched_bytes: int) -> int:  # noqa: ARG002
        """Return the bytes of a leaf: the elements came with the block."""
        return leaf_bytes

    def read(self, region: Region, out: np.ndarray, known: Expected | None = None) -> None:
        """Copy a region from the part that has it."""
        del known
        for place, elements in self.parts:
            within = [_within(part, cut) for part, cut in zip(place, region, strict=True)]
            if None not in within:
                out[...] = elements[tuple(within)].reshape(out.shape)
                return
        raise SourceError(f"{self.name}: {list(region)} did not come with the block that reads it")


def copied(source: Source, regions: Sequence[Region]) -> PartsSource:
    """Return copies of regions of a source, as blocks bring them.

    Raises
    ------
    ChunkError
        If one of them cannot be read.
    """
    parts = tuple((tuple(region), source.part(region)) for region in regions)
    return PartsSource(source.name, source.dtype, source.grid, parts)


def _within(part: slice, cut: slice) -> slice | None:
    """Return where a slice is in the elements of another; None if not all of it is there.

    >>> _within(slice(10, 21, 2), slice(12, 17, 2)), _within(slice(0, 4, 1), slice(3, 5, 1))
    (slice(1, 4, None), None)
    """
    step = part.step or 1
    inside = part.start <= cut.start and cut.stop <= part.stop
    if not inside or (cut.step or 1) != step or (cut.start - part.start) % step:
        return None
    first = (cut.start - part.start) // step
    return slice(first, first + len(range(cut.start, cut.stop, step)))


def array_source(array: Any) -> Source:
    """Return an array of Python's as a source.

    Raises
    ------
    SourceError
        If it is none, or one whose meaning would be lost.
    """
    called = type(array).__name__
    if isinstance(array, np.ma.MaskedArray):
        raise SourceError(f"a masked array has elements that are missing: {_FILL}")
    in_memory = isinstance(array, np.ndarray) or hasattr(array, "__array_interface__")
    if in_memory:
        array = np.asarray(array)
    elif not all(hasattr(array, name) for name in ("shape", "dtype", "__getitem__")):
        raise SourceError(
            "a source must be a path or URL of a Zarr array, or an array (with shape, dtype and "
            f"regions by slices), not {called}"
        )
    try:
        shape, dtype = tuple(map(int, array.shape)), np.dtype(array.dtype)
    except (TypeError, ValueError) as error:
        raise SourceError(
            f"{called}: its shape or dtype is not one of NumPy's ({error})"
        ) from error
    chunks = getattr(array, "chunks", None)
    if chunks:
        grid = _grid(called, shape, chunks)
    else:
        grid = cut_in_memory(shape, dtype.itemsize, getattr(array, "strides", None) or ())
    return ArraySource(array, _name(array, called), grid, in_memory)


def _name(array: Any, called: str) -> str:
    name = getattr(array, "name", None)
    return name if isinstance(name, str) and name else f"{called} of shape {tuple(array.shape)}"


def _names(array: Any) -> tuple[str | None, ...] | None:
    names = getattr(array, "dims", None)
    if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
        return None
    return names


def _grid(called: str, shape: tuple[int, ...], chunks: Sequence[Any]) -> tuple[Cells, ...]:
    """Return the grid of chunks: one extent for each axis, or those of all chunks along it."""
    try:
        grid = tuple(itertools.starmap(cells_of_chunks, zip(shape, chunks, strict=True)))
    except (TypeError, ValueError) as error:
        raise SourceError(
            f"{called}: its chunks, {chunks!r}, do not fit its shape, {shape} ({error})"
        ) from None
    return grid


def cells_of_chunks(size: int, chunks: int | Sequence[int]) -> Cells:
    """Return how an axis is cut by chunks: of one extent, or of those that are named.

    >>> cells_of_chunks(10, 4), cells_of_chunks(10, (4, 4, 2)), cells_of_chunks(6, (1, 3, 2)).bounds
    (Cells(size=10, cell=4, bounds=None), Cells(size=10, cell=4, bounds=None), (0, 1, 4, 6))

    Raises
    ------
    ValueError
        If they do not make up the axis.
    """
    if isinstance(chunks, (int, np.integer)):
        if chunks < 1 and size:
            raise ValueError(f"a chunk of {chunks}")
        return Cells(size, max(1, int(chunks)))
    extents = [int(n) for n in chunks if n]
    if sum(extents) != size or min(extents, default=1) < 1:
        raise ValueError(f"{sum(extents)} elements of {size}")
    first = max(extents[:1], default=1)
    if all(n == first for n in extents[:-1]) and extents[-1:] <= [first]:
        return Cells(size, first)
    return Cells(size, max(extents), tuple(itertools.accumulate(extents, initial=0)))


def cut_in_memory(
    shape: tuple[int, ...], itemsize: int, strides: Sequence[int] = ()
) -> tuple[Cells, ...]:
    """Cut what has no chunks where its memory is continuous: along the axes that vary last.

    Without `strides` that is in C order.
    """
    steps = strides or tuple(range(len(shape), 0, -1))
    cells, room = [1] * len(shape), max(1, CHUNK_BYTES // max(1, itemsize))
    for axis in sorted(range(len(shape)), key=lambda n: abs(steps[n])):
        cells[axis] = max(1, min(shape[axis], room))
        room //= cells[axis]
        if not room:
            break
    return tuple(map(Cells, shape, cells))

"""Read stored chunks of a local array straight into given memory, those within shards too.

Zarr decodes each chunk into memory of its own and copies it from there; here it is decoded where it
is wanted, if it stands there in one piece.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunkfold.codecs import Chain, undo
from chunkfold.errors import ChunkError
from chunkfold.ranges import read_range
from chunkfold.shards import ABSENT, Shards


@dataclass(frozen=True)
class Direct:
    """How chunks of an array are found and decoded without zarr."""

    folder: str
    key: Callable[[tuple[int, ...]], str]
    """Names a stored object's file within the folder, by the object's place in the grid."""
    shape: tuple[int, ...]
    """Of a chunk."""
    dtype: np.dtype
    fill: Any
    """The elements of chunks that are not stored."""
    chain: Chain
    codecs: tuple[str, ...]
    """Names of the chain's codecs, in the order they were applied in."""
    shards: Shards | None = None

    @property
    def nbytes(self) -> int:
        """Decoded bytes of a chunk."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def object_shape(self) -> tuple[int, ...]:
        """Shape of what is stored as one file: a chunk or a shard."""
        within = (1,) * len(self.shape) if self.shards is None else self.shards.shape
        return tuple(a * b for a, b in zip(self.shape, within, strict=True))

    def read(self, name: str, region: Sequence[slice], out: np.ndarray) -> None:
        """Decode a region into `out`, whose shape and dtype are the region's.

        Raises
        ------
        ChunkError
            If a chunk cannot be read or decoded, or has another size than its shape; `name` is
            what it calls the array.
        """
        for place, source, target in _cells(region, self.object_shape, out):
            try:
                self._read_object(place, source, target)
            except Exception as error:
                codecs = f"codecs {', '.join(self.codecs)}" if self.codecs else "no codec"
                raise ChunkError(
                    f"{name}: cannot read chunk {self.key(place)!r} ({codecs}; {self.folder}): "
                    f"{type(error).__name__}: {error}"
                ) from error

    def _read_object(
        self, place: tuple[int, ...], source: Sequence[slice], target: np.ndarray
    ) -> None:
        try:
            descriptor = os.open(f"{self.folder}/{self.key(place)}", os.O_RDONLY)
        except FileNotFoundError:
            target[...] = self.fill
            return
        try:
            size = os.fstat(descriptor).st_size
            if self.shards is None:
                self._read_chunk(descriptor, (0, size), source, target)
            else:
                index = self.shards.index(descriptor, size)
                for inner, within, part in _cells(source, self.shape, target):
                    self._read_inner(descriptor, size, (inner, index[inner]), within, part)
        finally:
            os.close(descriptor)

    def _read_inner(
        self,
        descriptor: int,
        size: int,
        found: tuple[tuple[int, ...], np.ndarray],
        source: Sequence[slice],
        target: np.ndarray,
    ) -> None:
        """Read a part of a chunk within a shard of `size` bytes, whose index has found it."""
        inner, (offset, nbytes) = found
        if offset == nbytes == ABSENT:
            target[...] = self.fill
            return
        at = int(offset), int(nbytes)
        try:
            if sum(at) > size:
                raise ValueError(f"its index says {at}, but the shard has {size:,} bytes")
            self._read_chunk(descriptor, at, source, target)
        except Exception as error:
            raise ValueError(f"inner chunk {inner}: {type(error).__name__}: {error}") from error

    def _read_chunk(
        self, descriptor: int, at: tuple[int, int], source: Sequence[slice], target: np.ndarray
    ) -> None:
        """Decode what stands at an offset, so many bytes, and take a part of it."""
        if target.shape == self.shape and target.flags.c_contiguous:
            self._decode(descriptor, at, target.reshape(-1).view(np.uint8))
            return
        chunk = _scratch.room("decoded", self.nbytes)
        self._decode(descriptor, at, chunk)
        target[...] = chunk.view(self.dtype).reshape(self.shape)[tuple(source)]

    def _decode(self, descriptor: int, at: tuple[int, int], out: np.ndarray) -> None:
        offset, size = at
        if self.chain:
            stored = _scratch.room("stored", size)
            read_range(descriptor, stored, offset)
            undo(self.chain, stored.data, out)
        elif size == out.nbytes:
            read_range(descriptor, out, offset)
        else:
            raise ValueError(f"it has {size:,} bytes, but its shape needs {out.nbytes:,}")


def _cells(
    region: Sequence[slice], shape: Sequence[int], out: np.ndarray
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], np.ndarray]]:
    """Cut a region along a grid of cells.

    Yields each cell's place in the grid, what is taken of it, and the part of `out` that it is for.
    """
    cuts = [_cuts(cut, size) for cut, size in zip(region, shape, strict=True)]
    for cell in itertools.product(*cuts):
        places, sources, targets = zip(*cell, strict=True) if cell else ((), (), ())
        yield places, sources, out[(*targets, ...)]  # a view, also where there are no axes


def _cuts(region: slice, size: int) -> list[tuple[int, slice, slice]]:
    """Cut a slice, of a positive step, along cells of `size`.

    Returns the number of each, what is taken of it, and where that stands among all that is taken.

    >>> _cuts(slice(3, 9, 3), 4)
    [(0, slice(3, 4, 3), slice(0, 1, None)), (1, slice(2, 3, 3), slice(1, 2, None))]
    """
    start, stop, step = region.start, region.stop, region.step or 1
    cuts, done = [], 0
    while (at := start + done * step) < stop:
        cell, first = divmod(at, size)
        count = -(-(min(stop - cell * size, size) - first) // step)
        last = first + (count - 1) * step + 1
        cuts.append((cell, slice(first, last, step), slice(done, done + count)))
        done += count
    return cuts


_KEPT_BYTES = 64 << 20
"""Larger chunks get memory of their own each time: clearing it costs them less than it holds."""


class _Scratch(threading.local):
    """Memory of a reading thread that chunks pass through; it grows to the largest kept."""

    def room(self, use: str, nbytes: int) -> np.ndarray:
        """Return memory for a use, uint8."""
        if nbytes > _KEPT_BYTES:
            return np.empty(nbytes, np.uint8)
        held: np.ndarray | None = getattr(self, use, None)
        if held is None or held.nbytes < nbytes:
            held = np.empty(nbytes, np.uint8)
            setattr(self, use, held)
        return held[:nbytes]


_scratch = _Scratch()

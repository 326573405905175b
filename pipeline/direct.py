"""Read stored chunks straight into given memory, those within shards too.

Zarr decodes each chunk into memory of its own and copies it from there; here it is decoded where it
is wanted, if it stands there in one piece.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from chunkfold.codecs import Chain, Stored, undo
from chunkfold.errors import ChunkError
from chunkfold.objects import (
    Known,
    LocalObjects,
    Objects,
    Span,
    StoredObject,
    decode_clock,
    scratch,
)
from chunkfold.shards import ABSENT, Shards


@dataclass(frozen=True)
class Direct:
    """How chunks of an array are found and decoded without zarr."""

    objects: Objects
    key: Callable[[tuple[int, ...]], str]
    """Names a stored object by its place in the grid."""
    shape: tuple[int, ...]
    """Of a chunk."""
    dtype: np.dtype
    fill: Any
    """The elements of chunks that are not stored."""
    chain: Chain
    codecs: tuple[str, ...]
    """Names of the chain's codecs, in the order they were applied in."""
    shards: Shards | None = None

    @cached_property
    def nbytes(self) -> int:
        """Decoded bytes of a chunk."""
        return math.prod(self.shape) * self.dtype.itemsize

    @cached_property
    def _files(self) -> LocalObjects | None:
        """Where its chunks are, if each is a local file of its own, with codecs."""
        if isinstance(self.objects, LocalObjects) and self.chain and self.shards is None:
            return self.objects
        return None

    @cached_property
    def _room(self) -> int:
        """Bytes that any chunk takes less than, as codecs shrink what they can and add a little."""
        return self.nbytes + self.nbytes // 128 + (64 << 10)

    @cached_property
    def object_shape(self) -> tuple[int, ...]:
        """Shape of what is stored as one file: a chunk or a shard."""
        within = (1,) * len(self.shape) if self.shards is None else self.shards.shape
        return tuple(a * b for a, b in zip(self.shape, within, strict=True))

    def read(
        self, name: str, region: Sequence[slice], out: np.ndarray, known: Known | None = None
    ) -> None:
        """Decode a region into `out`, whose dtype is the region's.

        Objects that are known not to be stored are not asked for. If `out` has the region's shape,
        elements stand where they are in it. If it has one axis, elements of a chunk stand together,
        in C order, behind those of the chunk before: chunks are then decoded where they are wanted,
        which they are otherwise only where a chunk is in one piece in `out`.

        Raises
        ------
        ChunkError
            If a chunk cannot be read or decoded, or has another size than its shape; `name` is
            what it calls the array.
        """
        in_turn = out.ndim != len(region)
        for place, source, target in _cells(region, self.object_shape, out):
            if known is not None and known.lacks(place):
                target[...] = self.fill
                continue
            try:
                files = self._files
                if files is None or not self._read_short(files, place, source, target):
                    # A shard's chunks are in turn too.
                    into = target.reshape(-1) if in_turn and self.shards else target
                    self._read_object(place, source, into)
            except Exception as error:
                codecs = f"codecs {', '.join(self.codecs)}" if self.codecs else "no codec"
                raise ChunkError(
                    f"{name}: cannot read chunk {self.key(place)!r} "
                    f"({codecs}; {self.objects.where}): {type(error).__name__}: {error}"
                ) from error

    def _read_short(
        self,
        files: LocalObjects,
        place: tuple[int, ...],
        source: Sequence[slice],
        target: np.ndarray,
    ) -> bool:
        """Read a chunk that is a local file in few calls: each gives Python's lock away.

        False where it takes a closer look, which then says what is wrong.
        """
        stored = scratch.room("stored", self._room)
        try:
            count = files.read_short(self.key(place), stored)
            if count == self._room:
                return False
            self._undo(stored[:count].data, source, target)
        except (FileNotFoundError, NotADirectoryError):
            target[...] = self.fill
        except Exception:  # noqa: BLE001 # whatever it is: it is read again, with more care
            return False
        return True

    def _read_object(
        self, place: tuple[int, ...], source: Sequence[slice], target: np.ndarray
    ) -> None:
        index = None if self.shards is None else self.shards.index_span
        with self.objects.open(self.key(place), self.nbytes, index) as stored:
            if stored is None:
                target[...] = self.fill
            elif self.shards is None:
                self._read_chunk(stored, (0, stored.size), source, target)
            else:
                self._read_shard(stored, self.shards, source, target)

    def _read_shard(
        self, stored: StoredObject, shards: Shards, source: Sequence[slice], target: np.ndarray
    ) -> None:
        index = shards.index(stored)
        cells = list(_cells(source, self.shape, target))
        spans = [(int(offset), int(nbytes)) for offset, nbytes in (index[n] for n, _, _ in cells)]
        stored.fetch([span for span in spans if sum(span) <= stored.size])
        for (inner, within, part), span in zip(cells, spans, strict=True):
            if span == (ABSENT, ABSENT):
                part[...] = self.fill
                continue
            try:
                if sum(span) > stored.size:
                    raise ValueError(
                        f"its index says {span}, but the shard has {stored.size:,} bytes"
                    )
                self._read_chunk(stored, span, within, part)
            except Exception as error:
                raise ValueError(f"inner chunk {inner}: {type(error).__name__}: {error}") from error

    def _read_chunk(
        self, stored: StoredObject, span: Span, source: Sequence[slice], target: np.ndarray
    ) -> None:
        """Decode what stands in a span, and take a part of it."""
        if self.chain:
            self._undo(stored.read(span), source, target)
            return
        if span[1] != self.nbytes:
            raise ValueError(f"it has {span[1]:,} bytes, but its shape needs {self.nbytes:,}")
        if self._whole(target):
            stored.read_into(target.reshape(-1).view(np.uint8), span[0])
        else:
            self._read_run(stored, span[0], source, target)

    def _read_run(
        self, stored: StoredObject, offset: int, source: Sequence[slice], target: np.ndarray
    ) -> None:
        """Read no more of a chunk that is stored as it is than from the first to the last taken."""
        first, shape, within = _run(source, self.shape)
        nbytes = math.prod(shape) * self.dtype.itemsize
        alone = target.shape == shape and target.flags.c_contiguous
        memory = target.reshape(-1).view(np.uint8) if alone else scratch.room("decoded", nbytes)
        stored.read_into(memory, offset + first * self.dtype.itemsize)
        if not alone:
            target[...] = memory.view(self.dtype).reshape(shape)[within]

    def _undo(self, found: Stored, source: Sequence[slice], target: np.ndarray) -> None:
        """Decode a chunk's bytes, where they are wanted if all of it is, and take a part of it."""
        whole = self._whole(target)
        chunk = target.reshape(-1).view(np.uint8) if whole else scratch.room("decoded", self.nbytes)
        with decode_clock:
            undo(self.chain, found, chunk)
        if not whole:
            target[...] = chunk.view(self.dtype).reshape(self.shape)[tuple(source)]

    def _whole(self, target: np.ndarray) -> bool:
        """Whether a chunk can be decoded where it is wanted."""
        return target.shape == self.shape and target.flags.c_contiguous


def _cells(
    region: Sequence[slice], shape: Sequence[int], out: np.ndarray
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], np.ndarray]]:
    """Cut a region along a grid of cells.

    Yields each cell's place in the grid, what is taken of it, and the part of `out` that it is for:
    where it is in the region, or if `out` has one axis behind the cell before.
    """
    cuts = [_cuts(cut, size) for cut, size in zip(region, shape, strict=True)]
    in_turn, done = out.ndim != len(region), 0
    for cell in itertools.product(*cuts):
        places, sources, targets = zip(*cell, strict=True) if cell else ((), (), ())
        if in_turn:
            extents = [target.stop - target.start for target in targets]
            count = math.prod(extents)
            yield places, sources, out[done : done + count].reshape(extents)
            done += count
        else:
            yield places, sources, out[(*targets, ...)]  # a view, also where there are no axes


def _run(
    source: Sequence[slice], shape: Sequence[int]
) -> tuple[int, tuple[int, ...], tuple[slice, ...]]:
    """Return the shortest run of a box in C order that holds a part of it.

    That is the number of its first element, its shape, and where the part stands in that.

    >>> _run((slice(2, 3), slice(1, 6, 2), slice(0, 4)), (9, 7, 5))
    (75, (1, 5, 5), (slice(0, 1, None), slice(0, 5, 2), slice(0, 4, None)))
    """
    extents = [cut.stop - cut.start for cut in source]
    # Behind the first axis along which there are several, rows are not in one piece.
    last = next((n for n, extent in enumerate(extents) if extent > 1), len(shape) - 1)
    first = sum(source[n].start * math.prod(shape[n + 1 :]) for n in range(last + 1))
    taken = (slice(0, extents[n], source[n].step) for n in range(last + 1))
    return first, (*extents[: last + 1], *shape[last + 1 :]), (*taken, *source[last + 1 :])


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

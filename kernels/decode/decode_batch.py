"""Describe the chunks that a device decodes, and the boxes that are copied from them."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chunkfold.kernels.decode.codec_chain import CodecChain

ALIGNED = 16
"""Alignment of stored chunks in bytes: kernels read whole vectors."""


class Boxes(NamedTuple):
    """Places of boxes of chunks in a region."""

    boxes: np.ndarray
    """A row for each chunk, int64: the flat index of the box's first element in the chunk, that in
    the region, and the extents of the box."""
    chunk: tuple[int, ...]
    """Shape of a chunk."""
    region: tuple[int, ...]
    """Shape of the region."""


class DecodeBatch(NamedTuple):
    """Compressed chunks in one buffer, and the place of each in the decoded region."""

    places: np.ndarray
    """The byte of a buffer where each begins, multiples of `ALIGNED`, int64, ascending."""
    sizes: np.ndarray
    """Stored bytes of each, or their bound before it is read; 0 if the chunk is missing."""
    codecs: CodecChain
    nbytes: int
    """Decoded bytes of each chunk."""
    itemsize: int
    boxes: Boxes | None
    """None: chunks are taken whole, in order, without gaps."""
    fill: bytes
    """The bytes of the fill value, for missing chunks."""

    @property
    def stored_bytes(self) -> int:
        """Size of the buffer of stored chunks, in bytes."""
        return int(self.places[-1] + self.sizes[-1])

    def stored_ones(self) -> DecodeBatch:
        """Return the batch without missing chunks."""
        stored = self.sizes > 0
        boxes = self.boxes or one_behind_another(self)
        return self._replace(
            places=self.places[stored],
            sizes=self.sizes[stored],
            boxes=boxes._replace(boxes=boxes.boxes[stored]),
        )


def one_behind_another(chunks: DecodeBatch) -> Boxes:
    """Return the boxes of chunks that are taken whole, each behind the one before."""
    count, extent = len(chunks.places), chunks.nbytes // chunks.itemsize
    number = np.arange(count, dtype=np.int64)
    boxes = np.column_stack([0 * number, number * extent, 0 * number + extent])
    return Boxes(boxes, (extent,), (count * extent,))


def aligned_offsets(sizes: np.ndarray) -> np.ndarray:
    """Return the place of each of several chunks, one behind another, by their stored bytes.

    >>> aligned_offsets(np.array([5, 32, 1])).tolist()
    [0, 16, 48]
    """
    rooms = -(-sizes // ALIGNED) * ALIGNED
    places: np.ndarray = np.cumsum(rooms) - rooms
    return places


def packed(stored: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the places and sizes of chunks, and the memory in which they stand: uint8.

    >>> places, sizes, memory = packed([b"ab", b"c"])
    >>> places.tolist(), sizes.tolist(), memory.nonzero()[0].tolist()
    ([0, 16], [2, 1], [0, 1, 16])
    """
    sizes = np.array([len(one) for one in stored])
    places = aligned_offsets(sizes)
    memory = np.zeros(int(places[-1] + sizes[-1]), np.uint8)
    for place, one in zip(places, stored, strict=True):
        memory[place : place + len(one)] = np.frombuffer(one, np.uint8)
    return places, sizes, memory


def boxes_of(region: Sequence[slice], chunk: Sequence[int]) -> Boxes:
    """Return the box that each chunk contributes to a region, in C order of the chunks.

    Slices have step 1 and are not empty.

    >>> boxes_of([slice(1, 4)], (2,)).boxes.tolist()
    [[1, 0, 1], [0, 1, 2]]
    """
    extents = [cut.stop - cut.start for cut in region]
    along = [_along(cut, size) for cut, size in zip(region, chunk, strict=True)]
    counts = tuple(len(one[0]) for one in along)
    columns = [
        functools.reduce(
            np.add.outer,
            [one[row] * math.prod(inner[n + 1 :]) for n, one in enumerate(along)],
            np.zeros((), np.int64),
        )
        for row, inner in enumerate((chunk, extents))
    ]
    for n, one in enumerate(along):
        shape = [1] * len(counts)
        shape[n] = -1
        columns.append(np.broadcast_to(one[2].reshape(shape), counts))
    boxes = np.stack(columns, axis=-1).reshape(-1, 2 + len(counts)).astype(np.int64)
    return Boxes(boxes, tuple(chunk), tuple(extents))


def _along(cut: slice, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each chunk along an axis the start in it, the start in the region, the length."""
    numbers = np.arange(cut.start // size, (cut.stop - 1) // size + 1, dtype=np.int64)
    begins = np.maximum(numbers * size, cut.start)
    ends = np.minimum((numbers + 1) * size, cut.stop)
    return begins - numbers * size, begins - cut.start, ends - begins

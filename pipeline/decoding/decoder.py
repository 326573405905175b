"""Decode one stored chunk, or a part of it, into given memory."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chunkfold.decoding.codecs import Chain, StoredBytes, most_stored, undo
from chunkfold.decoding.decode_units import run_of, view
from chunkfold.stores.objects import Span, StoredObject, decode_clock, scratch

_LEAST_ROW_BYTES = 32 << 10
"""Least bytes of a row: shorter ones are copied faster than named."""
_MOST_ROWS = 256
"""Most rows: the system takes 1,024 pieces of memory at a time."""


@dataclass(frozen=True)
class Decoder:
    """Decodes the chunks of an array."""

    shape: tuple[int, ...]
    """Shape of a chunk."""
    dtype: np.dtype
    chain: Chain

    @cached_property
    def nbytes(self) -> int:
        """Decoded bytes of a chunk."""
        return math.prod(self.shape) * self.dtype.itemsize

    def read(
        self, stored: StoredObject, span: Span, source: Sequence[slice], target: np.ndarray
    ) -> None:
        """Decode the chunk in a span of an object, and copy a part of it to `target`."""
        if self.chain:
            if span[1] > (most := most_stored(self.nbytes)):
                raise ValueError(
                    f"it has {span[1]:,} bytes, more than {most:,}: it cannot be this chunk"
                )
            self.undo(stored.read(span), source, target)
            return
        if span[1] != self.nbytes:
            raise ValueError(f"it has {span[1]:,} bytes, but its shape needs {self.nbytes:,}")
        if (straight := self.straight(source, target)) is not None:
            first, pieces = straight
            stored.read_into(pieces, span[0] + first)
            return
        first, shape, within = run_of(source, self.shape)
        run = scratch.buffer("decoded", math.prod(shape) * self.dtype.itemsize)
        stored.read_into([run.data], span[0] + first * self.dtype.itemsize)
        target[...] = run.view(self.dtype).reshape(shape)[within]

    def straight(
        self, source: Sequence[slice], target: np.ndarray
    ) -> tuple[int, list[memoryview]] | None:
        """Return where to read the bytes of a chunk without codecs, so that none is copied.

        That is the offset of the first byte, and pieces of memory. None if bytes must be copied.
        """
        if self.whole(target):
            return 0, [target.reshape(-1).view(np.uint8).data]
        return scattered(source, self.shape, target)

    def undo(self, found: StoredBytes, source: Sequence[slice], target: np.ndarray) -> None:
        """Decode a chunk's bytes, straight into `target` if it is whole; else copy a part of it."""
        whole = self.whole(target)
        chunk = (
            target.reshape(-1).view(np.uint8) if whole else scratch.buffer("decoded", self.nbytes)
        )
        with decode_clock:
            undo(self.chain, found, chunk)
        if not whole:
            target[...] = chunk.view(self.dtype).reshape(self.shape)[tuple(source)]

    def whole(self, target: np.ndarray) -> bool:
        """Return whether a chunk can be decoded straight into `target`."""
        return target.shape == self.shape and target.flags.c_contiguous


def scattered(
    source: Sequence[slice], shape: Sequence[int], target: np.ndarray
) -> tuple[int, list[memoryview]] | None:
    """Return the memory that one read of a chunk fills, from the first to the last taken byte.

    Taken rows go to `target`; the bytes between two of them go to memory that nothing reads.

    Parameters
    ----------
    source
        The taken slices, of the shape of `target`.
    shape
        The shape of the chunk, which stands in C order.

    Returns
    -------
    The offset of the first byte, and pieces of memory, which are filled one after the other. None
    if rows are too short, or too many: then a copy is faster.
    """
    if any((along.step or 1) > 1 for along in source):
        return None
    axis, row_bytes = _rows(shape, target)
    rows = target.shape[:axis]
    count = math.prod(rows)
    if count > _MOST_ROWS or (count > 1 and row_bytes < _LEAST_ROW_BYTES):
        return None
    steps = [math.prod(shape[n + 1 :]) * target.itemsize for n in range(target.ndim)]
    first = sum(along.start * step for along, step in zip(source, steps, strict=True))
    indices = list(itertools.product(*map(range, rows)))
    begins = [sum(map(operator.mul, index, steps)) for index in indices]
    gaps = [after - before - row_bytes for before, after in itertools.pairwise(begins)]
    unread = scratch.buffer("unread", max(gaps, default=0)).data
    pieces = []
    for index, gap in zip(indices, (*gaps, 0), strict=True):
        pieces.append(view(target, index).reshape(-1).view(np.uint8).data)
        if gap:
            pieces.append(unread[:gap])
    return first, pieces


def _rows(shape: Sequence[int], target: np.ndarray) -> tuple[int, int]:
    """Return the first axis from which target and chunk are contiguous, and the bytes of a row."""
    axis, nbytes = target.ndim, target.itemsize
    while axis and (target.strides[axis - 1] == nbytes or target.shape[axis - 1] == 1):
        axis -= 1
        nbytes *= target.shape[axis]
        if target.shape[axis] < shape[axis]:
            break
    return axis, nbytes

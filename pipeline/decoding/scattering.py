"""Memory that one read of a stored chunk fills, so that each row stands where it is wanted."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence

import numpy as np

from chunkfold.decoding.decode_units import view
from chunkfold.stores.objects import scratch

_LEAST_ROW_BYTES = 32 << 10
"""A shorter row is sooner copied than named."""
_MOST_ROWS = 256
"""The system takes 1,024 pieces of memory at a time."""


def scattered(
    source: Sequence[slice], shape: Sequence[int], target: np.ndarray
) -> tuple[int, list[memoryview]] | None:
    """Return which bytes of a chunk are read, from the first to the last taken, and to what memory.

    Rows of what is taken go to `target`; what stands between two of them goes where nothing reads
    it.

    Parameters
    ----------
    source
        What is taken, of the shape of `target`.
    shape
        Of the chunk, which stands in C order.

    Returns
    -------
    The offset of the first byte, and pieces of memory, which are filled one after the other. None
    if rows would be too short, or too many: what is taken is then better copied.
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
    unread = scratch.room("unread", max(gaps, default=0)).data
    pieces = []
    for index, gap in zip(indices, (*gaps, 0), strict=True):
        pieces.append(view(target, index).reshape(-1).view(np.uint8).data)
        if gap:
            pieces.append(unread[:gap])
    return first, pieces


def _rows(shape: Sequence[int], target: np.ndarray) -> tuple[int, int]:
    """Return the axis from which on `target` is in one piece, as in the chunk, and its bytes."""
    axis, nbytes = target.ndim, target.itemsize
    while axis and (target.strides[axis - 1] == nbytes or target.shape[axis - 1] == 1):
        axis -= 1
        nbytes *= target.shape[axis]
        if target.shape[axis] < shape[axis]:
            break
    return axis, nbytes

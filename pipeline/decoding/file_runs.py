"""Find the runs of bytes in chunks without codecs that make up a region: pure functions."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

LEAST_RUN_BYTES = 2048
"""Least average bytes of a run: shorter ones are faster read by chunks, and copied."""


def runs_of_region(
    region: Sequence[slice], chunk: Sequence[int], itemsize: int, *, in_turn: bool = False
) -> tuple[list[range], np.ndarray] | None:
    """Return the box of chunks that a region touches, and the runs of bytes in them.

    The runs are int64: the number of the chunk, in C order, the offset in it, the place in the
    region, and the size, all in bytes. The region is in C order; or, if it may be and all of its
    chunks are whole, chunk by chunk, `in_turn`. None if elements are left out between others, or
    runs are short.

    >>> box, runs = runs_of_region([slice(0, 2), slice(1, 4)], (2, 2), 4096)
    >>> box
    [range(0, 1), range(0, 2)]
    >>> runs[:2].tolist()
    [[0, 4096, 0, 4096], [1, 0, 4096, 8192]]
    """
    extents = [cut.stop - cut.start for cut in region]
    if 0 in extents or any((cut.step or 1) != 1 for cut in region):
        return None
    if not extents:
        return [], np.array([[0, 0, 0, itemsize]])
    ranges = chunks_touched(region, chunk)
    whole = zip(extents, ranges, chunk, strict=True)
    if in_turn and all(extent == len(each) * size for extent, each, size in whole):
        number, nbytes = np.arange(math.prod(map(len, ranges))), math.prod(chunk) * itemsize
        zero = np.zeros_like(number)
        return ranges, np.column_stack([number, zero, number * nbytes, zero + nbytes])
    axis = _axis_of_runs(extents, ranges, chunk)
    count = math.prod(extents[:axis]) * len(ranges[axis])
    if count > 1 and math.prod(extents) * itemsize < count * LEAST_RUN_BYTES:
        return None
    own = [_single(cut, size) for cut, size in zip(region[:axis], chunk, strict=False)]
    own.append(_spans(region[axis], chunk[axis]))
    steps = [
        ([len(one) for one in ranges], 1),
        (chunk, itemsize),
        (extents, itemsize),
    ]
    columns = [
        functools.reduce(
            np.add.outer,
            [one[row] * (math.prod(inner[n + 1 :]) * unit) for n, one in enumerate(own)],
        ).reshape(-1)
        for row, (inner, unit) in enumerate(steps)
    ]
    sizes = own[axis][3] * (math.prod(extents[axis + 1 :]) * itemsize)
    columns.append(np.tile(sizes, count // len(sizes)))
    return ranges, np.column_stack(columns)


def chunks_touched(region: Sequence[slice], chunk: Sequence[int]) -> list[range]:
    """Return the places along each axis of the chunks that a region touches; it is not empty."""
    return [
        range(cut.start // size, (cut.stop - 1) // size + 1)
        for cut, size in zip(region, chunk, strict=True)
    ]


def _axis_of_runs(extents: Sequence[int], ranges: Sequence[range], chunk: Sequence[int]) -> int:
    """Return the first axis from which elements are contiguous in a chunk and in the region."""
    axis = len(extents) - 1
    while axis and len(ranges[axis]) == 1 and extents[axis] == chunk[axis]:
        axis -= 1
    return axis


def _single(cut: slice, size: int) -> np.ndarray:
    """Return chunk, place in it, and place in the region of each element along an axis."""
    at = np.arange(cut.start, cut.stop, dtype=np.int64)
    return np.array([at // size - cut.start // size, at % size, at - cut.start])


def _spans(cut: slice, size: int) -> np.ndarray:
    """Return the same of the part of each chunk along an axis, and the length of the part."""
    first = cut.start // size
    begins = np.arange(first, (cut.stop - 1) // size + 1, dtype=np.int64) * size
    begins[0] = cut.start
    ends = np.append((begins[:-1] // size + 1) * size, cut.stop)
    return np.array([begins // size - first, begins % size, begins - cut.start, ends - begins])

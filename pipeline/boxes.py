"""Boxes of elements, one slice an axis: their sizes, and how they are cut; pure functions."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator, Sequence

from chunkfold.grid import Piece

Slices = tuple[slice, ...]
"""A box: a start and a stop for each axis."""


def extents_of(box: Sequence[slice]) -> tuple[int, ...]:
    """Return the shape of a box of slices with both ends, and no step.

    >>> extents_of((slice(2, 5), slice(0, 4)))
    (3, 4)
    """
    return tuple([along.stop - along.start for along in box])


def elements_of(box: Sequence[slice]) -> int:
    """Return the number of elements of a box as `extents_of` takes it.

    >>> elements_of((slice(2, 5), slice(0, 4))), elements_of(())
    (12, 1)
    """
    return math.prod(extents_of(box))


def region_shape(region: Sequence[slice]) -> tuple[int, ...]:
    """Return the shape of a box of slices with both ends, and perhaps a step.

    >>> region_shape((slice(2, 9, 3), slice(0, 4)))
    (3, 4)
    """
    return tuple(len(range(cut.start, cut.stop, cut.step or 1)) for cut in region)


def place_of(pieces: Sequence[Piece], within: Sequence[slice], axes: Sequence[int]) -> Slices:
    """Return the place of a box within a leaf among all selected elements, along some axes."""
    return tuple(
        slice(pieces[n].position + within[n].start, pieces[n].position + within[n].stop)
        for n in axes
    )


def place_key(place: Slices) -> tuple[tuple[int, int], ...]:
    """Return a hashable key of a place; slices have no hash."""
    return tuple((along.start, along.stop) for along in place)


def cut_at(along: slice, starts: Sequence[int]) -> Iterator[tuple[int, slice, slice]]:
    """Cut a slice at the starts of segments that follow each other; the last start ends the last.

    Yields for each segment with elements its number, their slice among all, and in the segment.

    >>> list(cut_at(slice(1, 7, 2), (0, 4, 9)))
    [(0, slice(0, 2, None), slice(1, 4, 2)), (1, slice(2, 3, None), slice(1, 2, 2))]
    """
    start, step = along.start, along.step or 1
    count = len(range(start, along.stop, step))
    done, number = 0, bisect.bisect_right(starts, start) - 1
    while done < count:
        first, end = starts[number], starts[number + 1]
        here = min(count, -(-(end - start) // step))  # elements before its end
        if here > done:
            begin = start + done * step - first
            own = slice(begin, begin + (here - done - 1) * step + 1, step)
            yield number, slice(done, here), own
            done = here
        number += 1


def slabs(shape: Sequence[int], itemsize: int, limit: int) -> Iterator[tuple[slice, ...]]:
    """Cut a C-order box into boxes of at most `limit` bytes, slowest axis first.

    >>> [s[0] for s in slabs((5, 10), 1, 20)]
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    if math.prod(shape) * itemsize <= limit or not shape:
        yield tuple(slice(0, size) for size in shape)
        return
    row = math.prod(shape[1:]) * itemsize
    if row <= limit:
        rows = limit // row
        for start in range(0, shape[0], rows):
            rest = (slice(0, size) for size in shape[1:])
            yield (slice(start, min(start + rows, shape[0])), *rest)
        return
    for start in range(shape[0]):
        for inner in slabs(shape[1:], itemsize, limit):
            yield (slice(start, start + 1), *inner)


def slabs_of_cells(
    cuts: Sequence[Sequence[slice]], itemsize: int, limit: int
) -> Iterator[tuple[slice, ...]]:
    """Cut a box, given by the slices of its cells along each axis, between cells if these fit.

    >>> [s[0] for s in slabs_of_cells([[slice(1, 3), slice(3, 6), slice(6, 8)]], 1, 6)]
    [slice(1, 6, None), slice(6, 8, None)]
    >>> [s[0] for s in slabs_of_cells([[slice(1, 3), slice(3, 6), slice(6, 8)]], 1, 2)]
    [slice(1, 3, None), slice(3, 5, None), slice(5, 7, None), slice(7, 8, None)]
    """
    largest = math.prod(max(cut.stop - cut.start for cut in along) for along in cuts) * itemsize
    if largest > limit:
        box = [slice(along[0].start, along[-1].stop) for along in cuts]
        shape = extents_of(box)
        yield from (shifted(box, slab) for slab in slabs(shape, itemsize, limit))
        return
    for slab in slabs([len(along) for along in cuts], largest, limit):
        yield tuple(
            slice(along[cells.start].start, along[cells.stop - 1].stop)
            for along, cells in zip(cuts, slab, strict=True)
        )


def shifted(whole: Sequence[slice], part: Sequence[slice]) -> tuple[slice, ...]:
    """Return a box within another one, counted as the other one is."""
    return tuple(
        slice(along.start + cut.start, along.start + cut.stop)
        for along, cut in zip(whole, part, strict=True)
    )


def overlaps(cuts: Sequence[slice], along: slice) -> list[slice]:
    """Return the intersections of some slices with another one, without empty ones.

    >>> overlaps([slice(0, 4), slice(4, 8), slice(8, 9)], slice(2, 8))
    [slice(2, 4, None), slice(4, 8, None)]
    """
    inner = (slice(max(cut.start, along.start), min(cut.stop, along.stop)) for cut in cuts)
    return [cut for cut in inner if cut.start < cut.stop]

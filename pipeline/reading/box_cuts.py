"""Cut boxes into slabs of so many bytes: pure integer functions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from chunkfold.boxes import extents_of


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
    """Cut a box, given by where its cells are along each axis, between cells if these fit.

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
    """Return a part of a box where the box stands."""
    return tuple(
        slice(along.start + cut.start, along.start + cut.stop)
        for along, cut in zip(whole, part, strict=True)
    )


def overlaps(cuts: Sequence[slice], along: slice) -> list[slice]:
    """Return what of some runs is in another, where anything is.

    >>> overlaps([slice(0, 4), slice(4, 8), slice(8, 9)], slice(2, 8))
    [slice(2, 4, None), slice(4, 8, None)]
    """
    inner = (slice(max(cut.start, along.start), min(cut.stop, along.stop)) for cut in cuts)
    return [cut for cut in inner if cut.start < cut.stop]

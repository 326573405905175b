"""Boxes of elements: a run along each axis, as slices."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator, Sequence

from chunkfold.grid import Piece

Slices = tuple[slice, ...]
"""A box: of each axis from where to where."""


def extents_of(box: Sequence[slice]) -> tuple[int, ...]:
    """Return the elements along each axis of a box of slices with both ends, and no step.

    >>> extents_of((slice(2, 5), slice(0, 4)))
    (3, 4)
    """
    return tuple([along.stop - along.start for along in box])


def elements_of(box: Sequence[slice]) -> int:
    """Return the number of elements of such a box.

    >>> elements_of((slice(2, 5), slice(0, 4))), elements_of(())
    (12, 1)
    """
    return math.prod(extents_of(box))


def region_shape(region: Sequence[slice]) -> tuple[int, ...]:
    """Return the elements along each axis of slices with both ends, and perhaps a step.

    >>> region_shape((slice(2, 9, 3), slice(0, 4)))
    (3, 4)
    """
    return tuple(len(range(cut.start, cut.stop, cut.step or 1)) for cut in region)


def place_of(pieces: Sequence[Piece], within: Sequence[slice], axes: Sequence[int]) -> Slices:
    """Return where a part of a leaf is in what is selected, along some axes."""
    return tuple(
        slice(pieces[n].position + within[n].start, pieces[n].position + within[n].stop)
        for n in axes
    )


def place_key(place: Slices) -> tuple[tuple[int, int], ...]:
    """Return what tells a place from others; slices have no hash."""
    return tuple((along.start, along.stop) for along in place)


def cut_at(along: slice, starts: Sequence[int]) -> Iterator[tuple[int, slice, slice]]:
    """Cut places where parts begin, one behind another; the last start is where the last one ends.

    Yields the number of each part that has some, where these are among all, and in the part.

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

"""Boxes of elements: a run along each axis, as slices."""

from __future__ import annotations

import math
from collections.abc import Sequence

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

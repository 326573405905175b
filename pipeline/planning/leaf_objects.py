"""Which objects of a stored grid leaves touch: pure integer functions of a layout."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from chunkfold.planning.layout import Layout

_SUMMED = 1 << 20
"""Cells that are added up at a time."""


def leaf_sums(
    layout: Layout,
    held: np.ndarray,
    cell: Sequence[int],
    of: Callable[[np.ndarray], np.ndarray] = np.asarray,
    weights: Sequence[np.ndarray] | None = None,
) -> np.ndarray:
    """Add up for every leaf what the cells of a grid hold that it touches.

    Parameters
    ----------
    held
        Over the grid.
    cell
        Shape of a cell.
    of
        What is added up of what cells hold, element by element.
    weights
        Along each axis, by which that is multiplied.

    Returns
    -------
    int64, (tiles, parts).
    """
    if not layout.axes:
        return np.array(of(held), np.int64).reshape(1, 1)
    touched = [axis.touched(size) for axis, size in zip(layout.axes, cell, strict=True)]
    along = max(range(len(layout.axes)), key=lambda n: held.shape[n])
    first, behind = touched[along]
    # Some leaves at a time along the longest axis: sums take more memory than what is summed.
    each = max(1, int(_SUMMED * len(first) / max(1, held.size)))
    sums = []
    for n in range(0, len(first), each):
        begin, end = int(first[n : n + each].min()), int(behind[n : n + each].max())
        rows: list[slice] = [slice(None)] * held.ndim
        rows[along] = slice(begin, end)
        some = of(held[tuple(rows)]).astype(np.int64)
        for axis, factors in enumerate(weights or ()):
            across = (1,) * axis + (-1,) + (1,) * (held.ndim - axis - 1)
            some *= factors[rows[axis]].reshape(across)
        ends = touched.copy()
        ends[along] = first[n : n + each] - begin, behind[n : n + each] - begin
        for axis, (least, most) in enumerate(ends):
            reached = np.insert(np.cumsum(some, axis=axis), 0, 0, axis=axis)
            some = reached.take(most, axis=axis) - reached.take(least, axis=axis)
        sums.append(some)
    if not sums:
        return layout.in_order(np.zeros([axis.pieces for axis in layout.axes], np.int64))
    return layout.in_order(np.concatenate(sums, axis=along))


def objects_touched(layout: Layout, shape: Sequence[int], grid: Sequence[int]) -> int:
    """Return how many objects of a shape, in a grid, have selected elements."""
    return math.prod(
        int(axis.hits(*along).sum()) for axis, *along in zip(layout.axes, shape, grid, strict=True)
    )


def leaf_objects(layout: Layout, tile: int, part: int, shape: Sequence[int]) -> tuple[slice, ...]:
    """Return which objects of a grid a leaf touches."""
    return next(leaves_objects(layout, np.array([tile]), np.array([part]), shape))


def leaves_objects(
    layout: Layout, tiles: np.ndarray, parts: np.ndarray, shape: Sequence[int]
) -> Iterator[tuple[slice, ...]]:
    """Yield which objects of a grid each of some leaves touches."""
    along = []
    for axis, size, number in zip(layout.axes, shape, layout.numbers(tiles, parts), strict=True):
        first, behind = axis.touched(size)
        along.append(map(slice, first[number].tolist(), behind[number].tolist()))
    return zip(*along, strict=True) if along else iter([()] * len(tiles))

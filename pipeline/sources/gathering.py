"""Read places of an array that no slices select: what is between them, chunk by chunk."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from chunkfold.axis_cuts import Cells
from chunkfold.grid import Taken
from chunkfold.positions import crossed
from chunkfold.sources.source import Source
from chunkfold.stores.expected import Expected


class Gathered(NamedTuple):
    """A range of an axis, in one cell, that is read at once, and the positions taken from it."""

    cover: slice
    """The range: from the first position to the last; all of them if they are a slice."""
    taken: Taken
    """The positions within the range."""
    within: Taken
    """The indices of these positions among all positions."""


def gathered(places: Taken, cells: Cells) -> list[Gathered]:
    """Cut places along cells: each cell is read once; a slice is not cut.

    >>> [(n.cover, n.within) for n in gathered(np.array([8, 1, 6]), Cells(9, 3))]
    [(slice(1, 2, 1), slice(1, 2, None)), (slice(6, 9, 1), array([0, 2]))]
    >>> gathered(np.array([1, 1, 2]), Cells(9, 3))
    [Gathered(cover=slice(1, 3, 1), taken=array([0, 0, 1]), within=slice(0, 3, None))]
    """
    if isinstance(places, slice):
        return [Gathered(places, slice(None), slice(None))]
    held, made = cells.holding(places), []
    for cell in np.unique(held):
        within = np.flatnonzero(held == cell)
        here = places[within]
        first, last = int(here.min()), int(here.max())
        run = int(within[-1]) - int(within[0]) + 1 == len(within)
        made.append(
            Gathered(
                slice(first, last + 1, 1),
                here - first,
                slice(int(within[0]), int(within[-1]) + 1) if run else within,
            )
        )
    return made


def covers(region: Sequence[Taken], grid: Sequence[Cells]) -> Iterator[tuple[slice, ...]]:
    """Yield the boxes that are read of a region."""
    along = [gathered(places, cells) for places, cells in zip(region, grid, strict=True)]
    for cell in itertools.product(*along):
        yield tuple(one.cover for one in cell)


def read_region(
    source: Source, region: Sequence[Taken], out: np.ndarray, known: Expected | None = None
) -> None:
    """Read a region, by slices or places along each axis; otherwise as `Source.read`.

    Beside `out` it holds what a cell along the axes of places has of the region, at most.
    """
    if all(isinstance(places, slice) for places in region):
        source.read(region, out, known)  # type: ignore[arg-type] # all are slices
        return
    along = [gathered(places, cells) for places, cells in zip(region, source.grid, strict=True)]
    for cell in itertools.product(*along):
        _place(out, cell, source.part([one.cover for one in cell], known))


def _place(out: np.ndarray, cell: Sequence[Gathered], held: np.ndarray) -> None:
    """Put what is taken of a cell where it belongs."""
    taken = crossed(held, [one.taken for one in cell])
    within = [one.within for one in cell]
    if sum(isinstance(places, np.ndarray) for places in within) > 1:
        each = (np.arange(size)[along] for size, along in zip(out.shape, within, strict=True))
        out[np.ix_(*each)] = taken
    else:
        out[tuple(within)] = taken

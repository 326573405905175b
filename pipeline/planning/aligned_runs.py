"""Runs of cells of a grid that stand where any other plan looks for them: whole boxes.

A run is 1, 2, 4, ... cells along one axis, and all cells along the axes behind it. It begins at a
multiple of its length along that axis, counted from the start of the array.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chunkfold.grid import Axis
from chunkfold.planning.blocks import Range
from chunkfold.planning.layout import Layout


@dataclass(frozen=True)
class RunGrid:
    """Cells in C order."""

    shape: tuple[int, ...]
    before: tuple[int, ...]
    """For each axis, how many cells of the array come before the first one."""

    @property
    def count(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    @cached_property
    def lengths(self) -> dict[int, tuple[int, int]]:
        """Lengths of runs, ascending: of each its axis, and its cells along that.

        >>> RunGrid((9, 3), (0, 0)).lengths
        {1: (1, 1), 2: (1, 2), 3: (0, 1), 6: (0, 2), 12: (0, 4), 24: (0, 8)}
        """
        found, behind = {}, 1
        for axis in reversed(range(len(self.shape))):
            cells = 1
            while cells < self.shape[axis]:
                found[cells * behind] = axis, cells
                cells *= 2
            behind *= self.shape[axis]
            first = next((n for n, size in enumerate(self.shape) if size > 1), 0)
            if axis == first and cells == self.shape[axis]:
                found[behind] = axis, cells
        return found or {1: (0, 1)}

    def longest(self, most: float) -> int:
        """Return the length of the longest runs of at most so many cells, at least 1."""
        return max((one for one in self.lengths if one <= most), default=1)

    def cells(self, length: int) -> tuple[int, ...]:
        """Return how many cells runs of a length have along each axis; 0: all there are.

        >>> RunGrid((9, 3), (0, 0)).cells(6), RunGrid((9, 3), (0, 0)).cells(2)
        ((2, 0), (1, 2))
        """
        along, cells = self.lengths[length]
        alone = tuple(0 if size == 1 else 1 for size in self.shape[:along])
        return (*alone, cells, *[0] * (len(self.shape) - along - 1))[: len(self.shape)]

    def runs(self, length: int) -> Iterator[Range]:
        """Yield the runs of a length, ascending.

        >>> list(RunGrid((10,), (2,)).runs(4)), list(RunGrid((2, 3), (0, 0)).runs(2))
        ([(2, 6), (6, 10)], [(0, 2), (3, 5)])
        """
        along, cells = self.lengths[length]
        size = self.shape[along] if self.shape else 1
        offset = self.before[along] if self.shape else 0
        behind = length // cells
        for outer in range(0, self.count, size * behind):
            for at in range(-offset % cells, size - cells + 1, cells):
                yield outer + at * behind, outer + (at + cells) * behind

    def filled(self, known: Iterable[Range], longest: int) -> list[Range]:
        """Return known runs, and between them others of at most a length.

        >>> RunGrid((11,), (0,)).filled([(4, 8)], 4)
        [(0, 4), (4, 8), (8, 10), (10, 11)]
        """
        made, at = list[Range](), 0
        lengths = [one for one in reversed(self.lengths) if one <= longest]
        for begin, end in [*sorted(known), (self.count, self.count)]:
            while at < begin:
                length = next(n for n in lengths if at + n <= begin and self._begins(at, n))
                made.append((at, at + length))
                at += length
            if end > begin:
                made.append((begin, end))
            at = end
        return made

    def _begins(self, at: int, length: int) -> bool:
        """Tell if a run of a length begins at a cell."""
        along, cells = self.lengths[length]
        if not self.shape:
            return True
        behind = length // cells
        place = at // behind % self.shape[along]
        whole = place + cells <= self.shape[along]
        return at % behind == 0 and whole and (place + self.before[along]) % cells == 0


@dataclass(frozen=True)
class LeafGrids:
    """The grid of a layout's tiles, and that of the parts of each."""

    layout: Layout
    tiles: RunGrid
    parts: RunGrid

    @classmethod
    def of(cls, layout: Layout) -> LeafGrids:
        """Return the grids of a layout."""
        before = tuple(map(_cells_before, layout.axes))
        return cls(layout, RunGrid(layout.tile_grid, before), RunGrid(layout.part_grid, before))

    def span(self, tiles: int, parts: int) -> tuple[int, ...]:
        """Return the elements along each axis of runs of so many tiles, and of parts of these.

        Those at the edges of an array may have fewer. Layouts with leaves of other sizes have runs
        of the same span.
        """
        whole = (0,) * len(self.layout.axes)
        of_tiles, of_parts = (
            grid.cells(length) if length in grid.lengths else whole
            for grid, length in ((self.tiles, tiles), (self.parts, parts))
        )
        return tuple(
            min((a or n) * (b or m) * axis.cells.cell, axis.cells.size) if a or b else axis.length
            for axis, a, b, n, m in zip(
                self.layout.axes,
                of_tiles,
                of_parts,
                self.tiles.shape,
                self.parts.shape,
                strict=True,
            )
        )


def _cells_before(axis: Axis) -> int:
    """Return how many cells of an array come before the first one that is selected."""
    if axis.window or not axis.pieces or axis.picked is not None or axis.step < 0:
        return 0
    return int(axis.cells.holding(np.array([axis.start]))[0])

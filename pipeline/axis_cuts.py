"""Cut an axis in cells and in windows: pure integer functions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chunkfold.errors import PlanError

MOST_CELLS = 1 << 27
"""Cells along one axis beyond which planning would take gigabytes."""


@dataclass(frozen=True)
class Cells:
    """The cells of an axis: every `cell` elements one, or between given bounds."""

    size: int
    """Number of elements of the axis."""
    cell: int
    """Elements of the largest cell; the last cell may have fewer."""
    bounds: tuple[int, ...] | None = None
    """Boundaries of an irregular grid, ascending from 0 to `size`."""

    @property
    def offsets(self) -> np.ndarray:
        """Boundaries of the cells, int64, shape (cells + 1,).

        >>> Cells(10, 4).offsets.tolist()
        [0, 4, 8, 10]
        """
        if self.bounds is not None:
            return np.array(self.bounds, np.int64)
        if self.size // self.cell > MOST_CELLS:
            raise PlanError(
                f"an axis of {self.size:,} elements has more than {MOST_CELLS:,} leaves of "
                f"{self.cell:,}: use larger chunks"
            )
        return np.append(np.arange(0, self.size, self.cell, dtype=np.int64), np.int64(self.size))

    def coarsened(self, factor: int) -> Cells:
        """Join every `factor` cells, counted from 0.

        >>> Cells(10, 4).coarsened(2).offsets.tolist()
        [0, 8, 10]
        """
        if self.bounds is None:
            return Cells(self.size, self.cell * factor)
        bounds = (*self.bounds[:-1:factor], self.bounds[-1])
        return Cells(self.size, max(int(n) for n in np.diff(bounds)), bounds)

    def inside(self, start: int, behind: int) -> np.ndarray:
        """Return the boundaries between the first of some elements and the last, int64.

        >>> Cells(10, 4).inside(1, 9).tolist(), Cells(9, 4, (0, 1, 5, 9)).inside(1, 9).tolist()
        ([4, 8], [5])
        """
        if self.bounds is None:
            return np.arange(start // self.cell + 1, (behind - 1) // self.cell + 1) * self.cell
        return np.array([n for n in self.bounds if start < n < behind], np.int64)

    def holding(self, elements: np.ndarray) -> np.ndarray:
        """Return the numbers of the cells that have some elements, int64.

        >>> Cells(9, 4, (0, 1, 5, 9)).holding(np.array([0, 1, 4, 8])).tolist()
        [0, 1, 1, 2]
        """
        if self.bounds is None:
            return elements // self.cell
        return np.searchsorted(np.array(self.bounds), elements, side="right") - 1


def whole_windows(positions: np.ndarray, window: int) -> np.ndarray:
    """Move each boundary of cells up to the next boundary of windows.

    `positions` ascend from 0 to the number of selected elements.

    >>> whole_windows(np.array([0, 5, 10, 11]), 2).tolist()
    [0, 6, 10, 11]
    """
    return np.unique(np.minimum(-(-positions // window) * window, positions[-1]))


def split_windows(positions: np.ndarray, window: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut windows at the boundaries of cells, each into as many pieces; the last may be empty.

    Returns
    -------
    The start and the length of each piece: int64, shape (windows, pieces of each).

    >>> [n.tolist() for n in split_windows(np.array([0, 4, 8, 10]), 6)]
    [[[0, 4], [6, 8]], [[4, 2], [2, 2]]]
    >>> [n.tolist() for n in split_windows(np.array([0, 4, 8, 12, 14]), 6)]
    [[[0, 4], [6, 8], [12, 14]], [[4, 2], [2, 4], [2, 0]]]
    """
    length = int(positions[-1])
    ends = np.minimum(np.arange(window, length + window, window, dtype=np.int64), length)
    edges = np.unique(np.concatenate([positions, ends]))[:-1]
    of = edges // window
    counts = np.bincount(of, minlength=len(ends))
    pieces = int(counts.max(initial=1))
    starts = np.repeat(ends[:, None], pieces, axis=1)
    starts[of, np.arange(len(edges)) - np.repeat(np.cumsum(counts) - counts, counts)] = edges
    return starts, np.diff(starts, append=ends[:, None])


def picked_pieces(cells: Cells, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the position among places, and the length of each piece of them: int64.

    A piece has places of one cell that follow each other, no more than the cell has elements.
    """
    if not places.size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    begins = np.append(0, changes(cells.holding(places)))
    runs = np.diff(begins, append=len(places))
    counts = -(-runs // cells.cell)  # several where places are picked more than once
    numbers = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    positions = np.repeat(begins, counts) + numbers * cells.cell
    return positions, np.diff(positions, append=len(places))


def changes(numbers: np.ndarray) -> np.ndarray:
    """Return the indices of numbers that differ from the one before.

    >>> changes(np.array([3, 3, 1, 1, 1, 2])).tolist()
    [2, 5]
    """
    return np.flatnonzero(np.diff(numbers)) + 1

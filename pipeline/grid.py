"""Selections of axes, and the pieces that cells cut them into: pure integer functions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from chunkfold.axis_cuts import Cells
from chunkfold.positions import Positions, as_range, chosen_of, index_of
from chunkfold.windows import split_windows, whole_windows


@dataclass(frozen=True)
class Axis:
    """One axis of an array: its cells, and what is selected of it.

    Every so many elements, or, if `picked` says so, any.
    """

    cells: Cells
    start: int
    stop: int
    step: int
    """Negative: from the last element to the first."""
    dropped: bool = False
    """Selected by an integer: one element, and no axis of the result."""
    picked: Positions | None = None
    """Positions of elements that are not evenly spaced, in the order of reduction."""
    order: Positions | range | None = None
    """Where, among what is folded, the elements stand in the order that was asked for; None: in
    the same."""
    window: int = 0
    """Selected elements that are reduced to one output, the last ones perhaps fewer; 0: none."""
    together: int = 1
    """Windows that a leaf has whole, or multiples of them: those of which others are made."""
    split: bool = False
    """True if windows are cut at the edges of cells; False if leaves have whole windows."""
    pieces_of: Axis | None = None
    """Another one of the same elements, by whose pieces they are read; None: its own."""

    @classmethod
    def at(cls, cells: Cells, places: np.ndarray | range) -> Axis:
        """Return an axis of which elements at some places are selected."""
        if isinstance(places, range):
            # A step beyond the axis takes its first element, however far it goes.
            step = places.step if len(places) > 1 else 1
            stop = places[-1] + (1 if step > 0 else -1) if places else places.start
            return cls(cells, places.start, stop, step)
        return cls(cells, 0, cells.size, 1, picked=Positions(places))

    @property
    def places(self) -> np.ndarray | range:
        """Return the positions of elements in the array, in the order of reduction."""
        if self.picked is not None:
            return self.picked.numbers
        return range(self.start, self.stop, self.step)

    @property
    def shown(self) -> np.ndarray | range:
        """The same in the order that was asked for, which results have."""
        return self.places if self.order is None else chosen_of(self.places, self.order)

    @property
    def index(self) -> slice | np.ndarray:
        """Return the NumPy index of the elements, in the order of reduction."""
        return index_of(self.places)

    @property
    def outputs(self) -> int:
        """Number of windows; of elements, where there are none."""
        return -(-self.length // self.window) if self.window else self.length

    @property
    def parts(self) -> int:
        """Number of pieces that each window is cut in."""
        return self.pieces // max(1, self.outputs) if self.split else 1

    @property
    def length(self) -> int:
        """Number of elements selected."""
        return len(self.places)

    def within(self, other: Axis) -> Axis:
        """Return what is left of it by a selection among its elements."""
        made = Axis.at(self.cells, chosen_of(self.places, other.index))
        return replace(made, dropped=other.dropped, window=other.window)

    @property
    def ascends(self) -> bool:
        """Return True if positions never decrease in the order of reduction."""
        if self.picked is None:
            return self.step > 0
        return bool((np.diff(self.picked.numbers) >= 0).all())

    def ascending(self) -> tuple[Axis, slice | np.ndarray]:
        """Return it as its elements stand in the array, and by what that selects of those here."""
        if self.picked is None:
            turned = range(self.length - 1, -1, -1)
            made = Axis.at(self.cells, range(self.start, self.stop, self.step)[::-1])
            return replace(made, dropped=self.dropped, order=turned), index_of(turned)
        places = self.picked.numbers
        taken = np.argsort(places, kind="stable")
        back = np.empty_like(taken)
        back[taken] = np.arange(len(taken))
        made = Axis.at(self.cells, as_range(places[taken]))
        return replace(made, dropped=self.dropped, order=Positions(back)), taken

    @property
    def pieces(self) -> int:
        """Number of pieces: of cells that hold selected elements, where these ascend.

        Or of those that windows make of them.
        """
        return len(_pieces(self)[0])

    @property
    def lengths(self) -> np.ndarray:
        """Elements selected of each such piece, int64; of one that pads a window, 0."""
        return _pieces(self)[1]

    def touched(self, cells: int | Cells) -> tuple[np.ndarray, np.ndarray]:
        """Return which cells of another grid each piece touches: the first, and the one behind.

        >>> [n.tolist() for n in Axis(Cells(10, 4), 1, 10, 1).touched(3)]
        [[0, 1, 2], [2, 3, 4]]
        """
        return _touched(self, cells if isinstance(cells, Cells) else Cells(self.cells.size, cells))

    def hits(self, cell: int, count: int) -> np.ndarray:
        """Return in which of the first cells of a size selected elements lie: 1 or 0, (count,).

        >>> Axis(Cells(10, 10), 1, 10, 6).hits(2, 5).tolist()
        [1, 0, 0, 1, 0]
        """
        if self.step < 0:
            return self.ascending()[0].hits(cell, count)
        hit = np.zeros(count, np.uint8)
        if not self.length:
            return hit
        if self.picked is None and self.step <= cell:
            hit[self.start // cell : -(-self.stop // cell)] = 1
        else:
            hit[np.asarray(self.places, np.int64) // cell] = 1
        return hit

    def piece(self, number: int) -> Piece:
        """Return what is selected of the `number`-th such piece."""
        positions, lengths = _pieces(self)
        position, length = int(positions[number]), int(lengths[number])
        if not length:  # it pads a window
            return Piece(slice(0, 0, 1), position, 0)
        places = self.places[position : position + length]
        if isinstance(places, range) and self.step > 0:
            source: Taken = slice(places[0], places[-1] + 1, self.step)
        else:
            source = np.asarray(places, np.int64)
        return Piece(source, position, length)


Taken = slice | np.ndarray
"""A selection along an axis: a slice with a start, a stop and a positive step, or positions."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Selected elements of one cell along one axis."""

    source: Taken
    """Their positions in the array."""
    position: int
    """The index of the first one in the selection."""
    length: int

    def places(self, offsets: np.ndarray) -> np.ndarray:
        """Return where some of its elements stand in the array, by their numbers: int64."""
        if isinstance(self.source, slice):
            return np.asarray(self.source.start + offsets * self.source.step)
        return np.asarray(self.source[offsets])

    def taken(self, cut: slice) -> Taken:
        """Return where a run of its elements stands in the array.

        >>> Piece(slice(2, 9, 2), 0, 4).taken(slice(1, 3))
        slice(4, 7, 2)
        """
        if isinstance(self.source, slice):
            start, step = self.source.start, self.source.step
            return slice(start + cut.start * step, start + (cut.stop - 1) * step + 1, step)
        return np.asarray(self.source[cut])

    def cut(self, grids: Sequence[Cells]) -> list[slice]:
        """Cut its elements where cells of any of these grids meet.

        >>> Piece(slice(2, 9, 2), 0, 4).cut([Cells(10, 4), Cells(10, 8)])
        [slice(0, 1, None), slice(1, 3, None), slice(3, 4, None)]
        >>> Piece(np.array([5, 5, 3, 9]), 0, 4).cut([Cells(10, 4)])
        [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
        """
        bounds = {0, self.length}
        for cells in grids:
            if isinstance(self.source, slice):
                start, stop, step = self.source.start, self.source.stop, self.source.step
                bounds.update((-((start - cells.inside(start, stop)) // step)).tolist())
            else:
                bounds.update(_changes(cells.holding(self.source)).tolist())
        return [slice(*ends) for ends in itertools.pairwise(sorted(bounds))]


def _changes(numbers: np.ndarray) -> np.ndarray:
    """Return where numbers differ from the one before.

    >>> _changes(np.array([3, 3, 1, 1, 1, 2])).tolist()
    [2, 5]
    """
    return np.flatnonzero(np.diff(numbers)) + 1


@lru_cache(maxsize=64)
def _pieces(axis: Axis) -> tuple[np.ndarray, np.ndarray]:
    """Return position in the selection, and length of each piece.

    None is empty but those that pad windows which are split.
    """
    if axis.pieces_of is not None:
        return _pieces(axis.pieces_of)
    if axis.window and axis.length:
        return _windowed_pieces(axis)
    if axis.picked is not None:
        return _picked_pieces(axis.cells, axis.picked.numbers)
    if axis.step < 0:
        positions, lengths = _pieces(axis.ascending()[0])
        return (axis.length - positions - lengths)[::-1], lengths[::-1]
    bounds = axis.cells.offsets
    positions = np.clip(-((axis.start - bounds) // axis.step), 0, axis.length)
    lengths = np.diff(positions)
    keep = lengths > 0
    return positions[:-1][keep], lengths[keep]


def _windowed_pieces(axis: Axis) -> tuple[np.ndarray, np.ndarray]:
    """The same of windows, in the order in which they are folded."""
    begins, _ = _pieces(replace(axis, window=0, split=False))
    bounds = np.append(begins, axis.length)
    if axis.split:
        positions, lengths = split_windows(bounds, axis.window)
        return positions.reshape(-1), lengths.reshape(-1)
    bounds = whole_windows(bounds, axis.window * axis.together)
    return bounds[:-1], np.diff(bounds)


def _picked_pieces(cells: Cells, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same of places: a cell's that follow each other, no more than it has elements."""
    if not places.size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    begins = np.append(0, _changes(cells.holding(places)))
    runs = np.diff(begins, append=len(places))
    counts = -(-runs // cells.cell)  # several where places are picked more than once
    numbers = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    positions = np.repeat(begins, counts) + numbers * cells.cell
    return positions, np.diff(positions, append=len(places))


@lru_cache(maxsize=64)
def _touched(axis: Axis, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
    positions, lengths = _pieces(axis)
    if not lengths.all():
        return _padded(axis, cells, positions, lengths)
    if axis.picked is not None:
        held = cells.holding(axis.picked.numbers)
        if not len(positions):
            return positions, positions
        return np.minimum.reduceat(held, positions), np.maximum.reduceat(held, positions) + 1
    ends = [axis.start + n * axis.step for n in (positions, positions + lengths - 1)]
    first, last = ends if axis.step > 0 else reversed(ends)
    return cells.holding(first), cells.holding(last) + 1


def _padded(
    axis: Axis, cells: Cells, positions: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same where some pieces are empty: they touch no cell, and stand behind one that does."""
    there = lengths > 0
    before = np.cumsum(there) - 1
    held = cells.holding(np.asarray(axis.places, np.int64))
    first = np.minimum.reduceat(held, positions[there])[before]
    behind = np.maximum.reduceat(held, positions[there])[before] + 1
    return first, np.where(there, behind, first)

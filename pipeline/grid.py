"""Selected elements of an axis, and the pieces that cells cut them in: pure integer functions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from chunkfold.axis_cuts import (
    Cells,
    changes,
    picked_pieces,
    split_windows,
    whole_windows,
)
from chunkfold.positions import Positions, as_range, chosen_of, index_of


@dataclass(frozen=True)
class Axis:
    """One axis of an array: its cells, and its selected elements.

    These are at equal distances, from `start` to `stop` by `step`, or at the places of `picked`.
    """

    cells: Cells
    start: int
    stop: int
    step: int
    """Negative: from the last element to the first."""
    dropped: bool = False
    """Selected by an integer: one element, and no axis of the result."""
    picked: Positions | None = None
    """Places of elements that are not at equal distances, in the order of the fold."""
    order: Positions | range | None = None
    """Numbers, in the order of the fold, of the elements in the requested order; None: both orders
    are the same."""
    window: int = 0
    """Number of selected elements that are reduced to one output; 0: the axis has no windows."""
    together: int = 1
    """A leaf has a multiple of so many whole windows: other results are made of these together."""
    split: bool = False
    """True: windows are cut at boundaries of cells; False: leaves have whole windows."""
    pieces_of: Axis | None = None
    """Another axis of the same elements, whose pieces are read; None: its own."""

    @classmethod
    def at(cls, cells: Cells, places: np.ndarray | range) -> Axis:
        """Return an axis with selected elements at some places."""
        if isinstance(places, range):
            # A step beyond the axis takes its first element, however far it goes.
            step = places.step if len(places) > 1 else 1
            stop = places[-1] + (1 if step > 0 else -1) if places else places.start
            return cls(cells, places.start, stop, step)
        return cls(cells, 0, cells.size, 1, picked=Positions(places))

    @property
    def places(self) -> np.ndarray | range:
        """Places of the elements in the array, in the order of the fold."""
        if self.picked is not None:
            return self.picked.numbers
        return range(self.start, self.stop, self.step)

    @property
    def shown(self) -> np.ndarray | range:
        """Places of the elements in the requested order, which results have."""
        return self.places if self.order is None else chosen_of(self.places, self.order)

    @property
    def index(self) -> slice | np.ndarray:
        """The index by which NumPy selects the elements, in the order of the fold."""
        return index_of(self.places)

    @property
    def outputs(self) -> int:
        """Number of windows; without windows, of elements."""
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
        """Return the axis with a further selection among its elements."""
        made = Axis.at(self.cells, chosen_of(self.places, other.index))
        return replace(made, dropped=other.dropped, window=other.window)

    @property
    def ascends(self) -> bool:
        """Tell whether the fold takes elements in the order of their places."""
        if self.picked is None:
            return self.step > 0
        return bool((np.diff(self.picked.numbers) >= 0).all())

    def ascending(self) -> tuple[Axis, slice | np.ndarray]:
        """Return the axis with ascending places, and the index of these among the elements here."""
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
        """Number of pieces: one for each cell with selected elements, if these ascend.

        With windows as many as `_windowed_pieces` makes.
        """
        return len(self._cut[0])

    @property
    def lengths(self) -> np.ndarray:
        """Number of selected elements of each piece, int64; 0 for one that pads a window."""
        return self._cut[1]

    @cached_property
    def _cut(self) -> tuple[np.ndarray, np.ndarray]:
        return _pieces(self)

    def __getstate__(self) -> dict[str, Any]:
        """Return its fields: whoever needs its pieces cuts it anew."""
        return {name: one for name, one in self.__dict__.items() if name != "_cut"}

    def touched(self, cells: int | Cells) -> tuple[np.ndarray, np.ndarray]:
        """Return the cells of another grid that each piece touches: the first, and the last + 1.

        >>> [n.tolist() for n in Axis(Cells(10, 4), 1, 10, 1).touched(3)]
        [[0, 1, 2], [2, 3, 4]]
        """
        return _touched(self, cells if isinstance(cells, Cells) else Cells(self.cells.size, cells))

    def hits(self, cell: int, count: int) -> np.ndarray:
        """Tell of each of the first cells of a size if it has selected elements: uint8, (count,).

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
        """Return the `number`-th piece."""
        positions, lengths = self._cut
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
"""Elements along an axis: a slice with a start, a stop and a positive step, or places."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Selected elements of one cell along one axis."""

    source: Taken
    """Their places in the array."""
    position: int
    """Number of the first one among all selected elements."""
    length: int

    def places(self, offsets: np.ndarray) -> np.ndarray:
        """Return the places in the array of some of its elements, given by number: int64."""
        if isinstance(self.source, slice):
            return np.asarray(self.source.start + offsets * self.source.step)
        return np.asarray(self.source[offsets])

    def taken(self, cut: slice) -> Taken:
        """Return the places in the array of a run of its elements.

        >>> Piece(slice(2, 9, 2), 0, 4).taken(slice(1, 3))
        slice(4, 7, 2)
        """
        if isinstance(self.source, slice):
            start, step = self.source.start, self.source.step
            return slice(start + cut.start * step, start + (cut.stop - 1) * step + 1, step)
        return np.asarray(self.source[cut])

    def cut(self, grids: Sequence[Cells]) -> list[slice]:
        """Cut its elements at the boundaries of cells of any of these grids.

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
                bounds.update(changes(cells.holding(self.source)).tolist())
        return [slice(*ends) for ends in itertools.pairwise(sorted(bounds))]


@lru_cache(maxsize=64)
def _pieces(axis: Axis) -> tuple[np.ndarray, np.ndarray]:
    """Return the position in the selection, and the length of each piece.

    Only pieces that pad split windows are empty.
    """
    if axis.pieces_of is not None:
        return _pieces(axis.pieces_of)
    if axis.window and axis.length:
        return _windowed_pieces(axis)
    if axis.picked is not None:
        return picked_pieces(axis.cells, axis.picked.numbers)
    if axis.step < 0:
        positions, lengths = _pieces(axis.ascending()[0])
        return (axis.length - positions - lengths)[::-1], lengths[::-1]
    bounds = axis.cells.offsets
    positions = np.clip(-((axis.start - bounds) // axis.step), 0, axis.length)
    lengths = np.diff(positions)
    keep = lengths > 0
    return positions[:-1][keep], lengths[keep]


def _windowed_pieces(axis: Axis) -> tuple[np.ndarray, np.ndarray]:
    """Return what `_pieces` returns, of an axis with windows."""
    begins, _ = _pieces(replace(axis, window=0, split=False))
    bounds = np.append(begins, axis.length)
    if axis.split:
        positions, lengths = split_windows(bounds, axis.window)
        return positions.reshape(-1), lengths.reshape(-1)
    bounds = whole_windows(bounds, axis.window * axis.together)
    return bounds[:-1], np.diff(bounds)


@lru_cache(maxsize=64)
def _touched(axis: Axis, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
    positions, lengths = _pieces(axis)
    if not lengths.all():
        return _padded(axis, cells, positions, lengths)
    if axis.picked is not None:
        touched = cells.holding(axis.picked.numbers)
        if not len(positions):
            return positions, positions
        return (
            np.minimum.reduceat(touched, positions),
            np.maximum.reduceat(touched, positions) + 1,
        )
    ends = [axis.start + n * axis.step for n in (positions, positions + lengths - 1)]
    first, last = ends if axis.step > 0 else reversed(ends)
    return cells.holding(first), cells.holding(last) + 1


def _padded(
    axis: Axis, cells: Cells, positions: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return what `_touched` returns where some pieces are empty: these touch no cell."""
    filled = lengths > 0
    before = np.cumsum(filled) - 1
    touched = cells.holding(np.asarray(axis.places, np.int64))
    first = np.minimum.reduceat(touched, positions[filled])[before]
    behind = np.maximum.reduceat(touched, positions[filled])[before] + 1
    return first, np.where(filled, behind, first)

"""Cut a selection along a grid of cells: pure integer functions, axis by axis."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.positions import Positions, as_range, chosen_of, index_of
from chunkfold.windows import split_windows, whole_windows

MOST_CELLS = 1 << 27
"""Cells along one axis beyond which planning would take gigabytes."""
LEAST_OUTPUTS = 1 << 16
"""Outputs that fill a device."""


@dataclass(frozen=True)
class Cells:
    """Where an axis is cut: every `cell` elements, or at given bounds."""

    size: int
    """Elements of the axis."""
    cell: int
    """Elements of a cell, of the largest where they differ; the last one may have fewer."""
    bounds: tuple[int, ...] | None = None
    """Boundaries of an irregular grid, ascending from 0 to `size`."""

    @property
    def offsets(self) -> np.ndarray:
        """Boundaries, int64, one more than there are cells.

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
    """Where elements stand that are not every so many, in the order in which they are folded."""
    order: Positions | range | None = None
    """Where, among what is folded, the elements stand in the order that was asked for; None: in
    the same."""
    window: int = 0
    """Selected elements that are reduced to one output, the last ones perhaps fewer; 0: none."""
    together: int = 1
    """Windows that a leaf has whole, or multiples of them: those of which others are made."""
    split: bool = False
    """Whether windows are cut where cells meet; else leaves have windows whole."""

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
        """Where elements stand in the array, in the order in which they are folded."""
        if self.picked is not None:
            return self.picked.numbers
        return range(self.start, self.stop, self.step)

    @property
    def shown(self) -> np.ndarray | range:
        """The same in the order that was asked for, which results have."""
        return self.places if self.order is None else chosen_of(self.places, self.order)

    @property
    def index(self) -> slice | np.ndarray:
        """What NumPy selects the elements by, in the order in which they are folded."""
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
        """Whether no element stands before one that it is folded after."""
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
"""What is selected along an axis: a slice with a start, a stop and a positive step, or places."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Selected elements of one cell along one axis."""

    source: Taken
    """Where they stand in the array."""
    position: int
    """Where the first stands in the selection."""
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


def leaf_factors(
    cells: Sequence[Cells],
    itemsize: int,
    target_bytes: int,
    reduced: Sequence[int],
    groups: int = 1,
    spans: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """Return how many cells per axis make a leaf: powers of two, at most `target_bytes`.

    Depends on nothing that changes when the array grows, once an axis has cells enough, so that
    leaves stay what they are. Axes are doubled in turn, the last one first, until all of their
    cells are in a leaf: kept ones until a leaf has outputs enough to fill a device, then reduced
    ones, since each leaf reads and writes the accumulators of its outputs: one of each of `groups`.
    Along kept axes an output is of so many elements as `spans` says; None: of one.

    >>> planes = [Cells(99, 1), Cells(999, 256), Cells(999, 256)]
    >>> leaf_factors(planes, 4, 1 << 20, (0, 1, 2)), leaf_factors(planes, 4, 1 << 20, (0,))
    ((1, 2, 2), (4, 1, 1))
    """
    factors = [1] * len(cells)
    cell = [max(1, axis.cell) for axis in cells]
    order = range(len(cells) - 1, -1, -1)
    nbytes = math.prod(cell) * itemsize
    while nbytes * 2 <= target_bytes:
        outputs = groups * math.prod(
            -(-cell[n] * factors[n] // (spans[n] if spans else 1))
            for n in order
            if n not in reduced
        )
        growing = [n for n in order if cell[n] * factors[n] < cells[n].size]
        if not growing:
            break
        widen = outputs < LEAST_OUTPUTS
        # Of the axes that are to grow the one that grew least; of the others, if there is none.
        chosen = min(growing, key=lambda n: ((n in reduced) == widen, factors[n]))
        factors[chosen] *= 2
        nbytes *= 2
    return tuple(factors)


def normalized_axes(axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Return the axes to reduce, ascending, as NumPy reads `axis`.

    Raises
    ------
    PlanError
        If one is out of range or named twice.
    """
    if axis is None:
        return tuple(range(ndim))
    given = list(axis) if isinstance(axis, Sequence) else [axis]
    out = []
    for entry in given:
        if not isinstance(entry, (int, np.integer)) or isinstance(entry, bool):
            raise PlanError(f"axis {entry!r} is not an integer")
        if not -ndim <= entry < ndim:
            raise PlanError(
                f"axis {int(entry)} is out of range for an array of {ndim} dimension(s): "
                + (f"use {-ndim} to {ndim - 1}" if ndim else "it has none to reduce")
            )
        out.append(int(entry) % ndim)
    if len(set(out)) != len(out):
        twice = next(n for n in out if out.count(n) > 1)
        raise PlanError(f"axis {axis!r} names axis {twice} twice: name it once")
    return tuple(sorted(out))

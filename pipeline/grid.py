"""Cut a selection along a grid of cells: pure integer functions, axis by axis."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import EllipsisType

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.windows import split_windows, whole_windows

MOST_CELLS = 1 << 27
"""Cells along one axis beyond which planning would take gigabytes."""
LEAST_OUTPUTS = 1 << 16
"""Outputs that fill a device."""
Index = int | slice
Selection = Index | EllipsisType | tuple[Index | EllipsisType, ...] | None


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
    """One axis of an array: its cells, and what is selected of it."""

    cells: Cells
    start: int
    stop: int
    step: int
    dropped: bool = False
    """Selected by an integer: one element, and no axis of the result."""
    window: int = 0
    """Selected elements that are reduced to one output, the last ones perhaps fewer; 0: none."""
    together: int = 1
    """Windows that a leaf has whole, or multiples of them: those of which others are made."""
    split: bool = False
    """Whether windows are cut where cells meet; else leaves have windows whole."""

    @property
    def outputs(self) -> int:
        """Number of windows; of elements, where there are none."""
        return -(-self.length // self.window) if self.window else self.length

    @property
    def parts(self) -> int:
        """Number of pieces that each window is cut in."""
        return self.pieces // max(1, self.outputs) if self.split else 1

    @property
    def extent(self) -> int:
        """Most elements of an array's axis, those between selected ones too, that a piece spans."""
        return (int(self.lengths.max(initial=0)) - 1) * self.step + 1

    @property
    def length(self) -> int:
        """Number of elements selected."""
        return len(range(self.start, self.stop, self.step))

    @property
    def pieces(self) -> int:
        """Number of cells that hold selected elements, or of pieces that windows make of them."""
        return len(_pieces(self)[0])

    @property
    def lengths(self) -> np.ndarray:
        """Elements selected of each such piece, int64; of one that pads a window, 0."""
        return _pieces(self)[2]

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
        hit = np.zeros(count, np.uint8)
        if self.step <= cell:
            hit[self.start // cell : -(-self.stop // cell)] = 1
        else:
            hit[np.arange(self.start, self.stop, self.step) // cell] = 1
        return hit

    def piece(self, number: int) -> Piece:
        """Return what is selected of the `number`-th such piece."""
        starts, positions, lengths = _pieces(self)
        start, length = int(starts[number]), int(lengths[number])
        stop = start + (length - 1) * self.step + 1 if length else start
        return Piece(slice(start, stop, self.step), int(positions[number]), length)


@dataclass(frozen=True)
class Piece:
    """Selected elements of one cell along one axis."""

    source: slice
    """Where they stand in the array."""
    position: int
    """Where the first stands in the selection."""
    length: int

    def cut(self, grids: Sequence[Cells]) -> list[slice]:
        """Cut its elements where cells of any of these grids meet.

        >>> Piece(slice(2, 9, 2), 0, 4).cut([Cells(10, 4), Cells(10, 8)])
        [slice(0, 1, None), slice(1, 3, None), slice(3, 4, None)]
        """
        start, stop, step = self.source.start, self.source.stop, self.source.step
        bounds = {0, self.length}
        for cells in grids:
            bounds.update((-((start - cells.inside(start, stop)) // step)).tolist())
        return [slice(*ends) for ends in itertools.pairwise(sorted(bounds))]


@lru_cache(maxsize=64)
def _pieces(axis: Axis) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return array start, position in the selection, and length of each piece.

    None is empty but those that pad windows which are split.
    """
    bounds = axis.cells.offsets
    positions = np.clip(-((axis.start - bounds) // axis.step), 0, axis.length)
    if axis.split and axis.length:
        positions, lengths = (each.reshape(-1) for each in split_windows(positions, axis.window))
        return axis.start + positions * axis.step, positions, lengths
    if axis.window:
        positions = whole_windows(positions, axis.window * axis.together)
    lengths = np.diff(positions)
    keep = lengths > 0
    positions = positions[:-1][keep]
    return axis.start + positions * axis.step, positions, lengths[keep]


@lru_cache(maxsize=64)
def _touched(axis: Axis, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
    starts, _, lengths = _pieces(axis)
    if not len(starts):
        return starts, starts
    # A piece that pads a window may stand behind all that is selected.
    last = axis.start + (axis.length - 1) * axis.step
    first = cells.holding(np.minimum(starts, last))
    behind = cells.holding(starts + (lengths - 1) * axis.step) + 1
    return first, np.where(lengths, behind, first)


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


def select(cells: Sequence[Cells], selection: Selection = None) -> tuple[Axis, ...]:
    """Apply a selection of integers, slices and Ellipsis to every axis.

    Parameters
    ----------
    cells
        Where each axis is cut.
    selection
        As NumPy indexing takes it; slices have positive steps.

    Raises
    ------
    PlanError
        If it has too many entries, an integer out of range, or anything else.
    """
    entries = _expanded(selection, len(cells))
    return tuple(
        _axis(number, cut, entry)
        for number, (cut, entry) in enumerate(zip(cells, entries, strict=True))
    )


def _expanded(selection: Selection, ndim: int) -> list[Index]:
    given = list(selection) if isinstance(selection, tuple) else [selection]
    if selection is None:
        given = []
    dots = [n for n, entry in enumerate(given) if entry is Ellipsis]
    if len(dots) > 1:
        raise PlanError(f"selection {selection!r} has more than one Ellipsis")
    missing = ndim - (len(given) - len(dots))
    if missing < 0:
        raise PlanError(f"selection {selection!r} has {len(given)} entries for {ndim} axes")
    at = dots[0] if dots else len(given)
    return [*given[:at], *[slice(None)] * missing, *given[at + len(dots) :]]


def _written(entry: slice) -> str:
    """Return a slice as it is written in brackets.

    >>> _written(slice(None, None, -1)), _written(slice(2, 5))
    ('::-1', '2:5')
    """
    parts = [entry.start, entry.stop, *([] if entry.step is None else [entry.step])]
    return ":".join("" if part is None else str(part) for part in parts)


def _axis(number: int, cells: Cells, entry: Index) -> Axis:
    size = cells.size
    if isinstance(entry, slice):
        try:
            start, stop, step = entry.indices(size)
        except (TypeError, ValueError) as error:
            raise PlanError(f"selection {entry!r} on axis {number}: {error}") from None
        if step < 1:
            raise PlanError(
                f"selection {_written(entry)!r} on axis {number} has step {step}; steps must be "
                "positive"
            )
        # A step beyond the axis takes its first element, however far it goes.
        return Axis(cells, start, max(start, stop), min(step, max(size, 1)))
    if isinstance(entry, (bool, np.bool_)) or not isinstance(entry, (int, np.integer)):
        raise PlanError(
            f"selection {entry!r} on axis {number} is neither an integer, a slice nor Ellipsis"
        )
    index = int(entry) + size if entry < 0 else int(entry)
    if not 0 <= index < size:
        raise PlanError(f"index {int(entry)} is out of range for axis {number} of size {size}")
    return Axis(cells, index, index + 1, 1, dropped=True)


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

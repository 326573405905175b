"""The least and the greatest elements of leaves, and the leaves that another read can skip."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from chunkfold.axis_cuts import Cells
from chunkfold.kernels import Packing
from chunkfold.kernels.monoid.finish_context import NextPass
from chunkfold.planning.layout import Layout
from chunkfold.sources.source import Source

LeafGrid = tuple[tuple[Cells, int, int, bool], ...]
"""For each axis its cells, and the windows that pieces end with: see `Axis`."""
MOST_LEAVES = 1 << 20
"""Leaves of a plan whose extremes are kept, at most."""
_TRIED = 4
"""Leaves of a block after which it is known whether extremes tell leaves apart."""


@dataclass(frozen=True)
class LeafExtremes:
    """The extremes of some leaves, by their numbers in the grid of all: arrays of equal length."""

    leaves: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    low: np.ndarray = field(default_factory=lambda: np.zeros(0))
    high: np.ndarray = field(default_factory=lambda: np.zeros(0))
    grid: LeafGrid = ()
    """The cuts of that grid along each axis."""

    @classmethod
    def merged(cls, several: Iterable[LeafExtremes | None]) -> LeafExtremes:
        """Return the extremes of all leaves of several."""
        given = [one for one in several if one is not None and len(one.leaves)]
        if not given:
            return cls()
        return cls(
            np.concatenate([one.leaves for one in given]),
            np.concatenate([one.low for one in given]),
            np.concatenate([one.high for one in given]),
            given[0].grid,
        )


class ExtremesFound:
    """The extremes of a block's leaves as they come, as long as they tell leaves apart."""

    def __init__(self, layout: Layout) -> None:
        self.wanted = True
        """True while the extremes of leaves to come are of use."""
        self._layout = layout
        self._seen: dict[tuple[int, int], tuple[float, float, int]] = {}
        """By tile and part: the range of a leaf, and of how many of its elements it is."""

    def add(self, leaf: tuple[int, int], low: float, high: float, elements: int) -> None:
        """Take the range of some elements of a leaf."""
        if (before := self._seen.get(leaf)) is not None:
            low, high = np.fmin(low, before[0]), np.fmax(high, before[1])
            elements += before[2]
        self._seen[leaf] = low, high, elements
        if len(self._seen) == _TRIED:
            self.wanted &= self._apart()

    def _apart(self) -> bool:
        """Tell if leaves have less than half of the range of all leaves in common."""
        lows, highs, _ = (np.array(one, float) for one in zip(*self._seen.values(), strict=True))
        with np.errstate(invalid="ignore", over="ignore"):
            common = np.fmin.reduce(highs) - np.fmax.reduce(lows)
            return bool(common <= (np.fmax.reduce(highs) - np.fmin.reduce(lows)) / 2)

    def found(self) -> LeafExtremes:
        """Return the extremes of leaves all of whose elements were seen."""
        layout = self._layout
        grid = [axis.pieces for axis in layout.axes]
        leaves, lows, highs = [], [], []
        for leaf, (low, high, elements) in self._seen.items():
            if elements == math.prod(piece.length for piece in layout.leaf(*leaf)):
                leaves.append(np.ravel_multi_index(layout.numbers(*leaf), grid))
                lows.append(low)
                highs.append(high)
        return LeafExtremes(
            np.array(leaves, np.int64), np.array(lows), np.array(highs), grid_of(layout)
        )


@dataclass(frozen=True, eq=False)
class SkippedLeaves:
    """The leaves that a read skips, since nothing in them counts any more."""

    grid: LeafGrid
    """The cuts of leaves along each axis."""
    leaves: np.ndarray
    """The leaves that are skipped, in the grid of all: bool."""

    def of(self, layout: Layout) -> np.ndarray | None:
        """Return the leaves of a layout to skip: bool, (tiles, parts); None if it has others."""
        if grid_of(layout) != self.grid:
            return None
        found: np.ndarray = self.leaves[_numbers(layout)]
        return found


def has_extremes(
    sources: Sequence[Source], packings: Sequence[Packing | None], cast: np.dtype | None
) -> bool:
    """Tell if kernels reduce numbers as they are stored, so that extremes of leaves are theirs."""
    plain = len(sources) == 1 and packings[0] is None and cast is None
    return plain and sources[0].dtype.kind in "iuf"


def skipped_leaves(
    each: Iterable[tuple[Layout, Sequence[NextPass]]], extremes: LeafExtremes | None
) -> SkippedLeaves | None:
    """Return the leaves that no question needs any more; None if there are none.

    Each question has its layout, of the same leaves, and its requests for another read.
    """
    if extremes is None or not len(extremes.leaves):
        return None
    unneeded: np.ndarray | bool = True
    for layout, asked in each:
        if grid_of(layout) != extremes.grid:  # a later read may cut leaves otherwise
            return None
        unneeded = unneeded & _beyond(layout, extremes, asked)
    return SkippedLeaves(extremes.grid, np.asarray(unneeded)) if np.any(unneeded) else None


def grid_of(layout: Layout) -> LeafGrid:
    """Return how leaves are cut along each axis: where cells meet, and where windows do."""
    cut = (axis.pieces_of or axis for axis in layout.axes)
    return tuple((axis.cells, axis.window, axis.together, axis.split) for axis in cut)


def _beyond(layout: Layout, extremes: LeafExtremes, asked: Sequence[NextPass]) -> np.ndarray:
    """Return which leaves have no element that counts any more: bool, by their numbers.

    The extremes of all outputs of a tile count for each of them.
    """
    numbers = _numbers(layout)
    out = np.zeros(numbers.size, bool)
    if any(one.between is None for one in asked):
        return out
    at = np.full(numbers.size, -1)
    at[extremes.leaves] = np.arange(len(extremes.leaves))
    known = at[numbers]
    low, high = extremes.low[known], extremes.high[known]
    unneeded = known >= 0
    regions = [layout.tile_region(tile) for tile in range(layout.tiles)]

    def of_tiles(each: np.ndarray, of: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Return the least or the greatest of each tile's outputs, of all groups: (tiles, 1)."""
        values = each.reshape(-1, *layout.outputs_shape)
        return np.array([of(values[(slice(None), *region)]) for region in regions])[:, None]

    for one in asked:
        for first, last in zip(*map(np.transpose, one.between or ()), strict=True):
            least, most = of_tiles(first, np.min), of_tiles(last, np.max)
            unneeded &= ~((high >= least) & (low <= most))
    out[numbers] = unneeded
    return out


def _numbers(layout: Layout) -> np.ndarray:
    """Return the numbers of all leaves in their grid: int64, (tiles, parts)."""
    grid = [axis.pieces for axis in layout.axes]
    return layout.in_order(np.arange(math.prod(grid)).reshape(grid))

"""Finish tiles one by one, where results are written as they come: on whoever has their partial."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chunkfold.kernels import Accumulator, Partial
from chunkfold.kernels.accumulator.partial import taken
from chunkfold.kernels.accumulator.sums import Rounded, Rounding
from chunkfold.kernels.binding.statistic import Statistic
from chunkfold.kernels.catalogue.window_modes import window_modes
from chunkfold.planning.nans import since_elements_are, since_rounded_are

if TYPE_CHECKING:
    from chunkfold.planning.layout import Layout
    from chunkfold.planning.plan import Plan
    from chunkfold.planning.request import Request
    from chunkfold.planning.workers import Terms

LEAST_OUTPUTS = 1 << 14
"""Outputs of a tile, from which on a device rounds its results."""
_SHARING = frozenset({"cpu"})
"""Kinds of devices that share the host's memory: nothing is read back from them."""
Combine = Callable[[Accumulator, Sequence[Partial]], Partial]


@dataclass(frozen=True)
class Level:
    """Results of the outputs of a tile, or of windows of these."""

    values: Mapping[str, np.ndarray]
    """By name, (outputs, ...)."""
    shape: tuple[int, ...]
    """Extents of the outputs along the kept axes."""


@dataclass(frozen=True)
class FinishedTile:
    """What is known of a tile when all of it is folded."""

    tile: int
    levels: tuple[Level, ...]
    nan: Mapping[str, bool | None]
    """Of which results some are NaN since elements are: see `since_elements_are`."""
    nothing: int
    """Outputs of which no element was there."""


@dataclass(frozen=True)
class TileFinishing:
    """How a run's results are read off partials."""

    accumulator: Accumulator
    statistics: tuple[Statistic, ...]
    """Of which each output has a result."""
    shape: tuple[int, ...]
    reduced: tuple[int, ...]
    """What was reduced, as `Statistic.finish` is told it."""
    grouped: bool = False
    dtype: np.dtype | None = None
    """Integers that results are rounded to as they leave, if they are."""
    factors: tuple[tuple[int, ...], ...] = ()
    """For each coarser level how many outputs of the one before are one, along the kept axes."""
    modes: bool = False
    """Whether levels have the most frequent results of windows, and results are no level."""

    @classmethod
    def of(cls, plan: Plan) -> TileFinishing:
        """Return how the results of a plan are finished, each op by itself."""
        layout, request = plan.layout, plan.request
        return cls(
            plan.accumulator,
            plan.bound.statistics,
            layout.by_window,
            layout.reduced_by_window,
            plan.grouping is not None,
            request.rounded_to,
            request.factors(layout.kept),
            bool(request.modes),
        )

    def finished(
        self, tile: int, shape: tuple[int, ...], partial: Partial, combine: Combine | None = None
    ) -> FinishedTile:
        """Finish a tile; `combine` combines its outputs, where there are coarser levels."""
        if self.modes:
            (one,) = self.statistics
            elements = self._level(partial, shape).values[one.name].reshape(shape)
            return self.of_levels(tile, window_modes(elements, self.factors))
        levels, nan = [self._level(partial, shape)], dict[str, bool | None]()
        for one in self.statistics:
            done = levels[0].values[one.name]
            nan[one.name] = since_elements_are(one, partial, done, grouped=self.grouped)
        nothing = 0 if self.grouped else int(np.sum(np.asarray(partial.count) == 0))
        for factors in self.factors:
            assert combine is not None
            partial, shape = coarser(self.accumulator, combine, partial, shape, factors)
            levels.append(self._level(partial, shape))
        return FinishedTile(tile, tuple(levels), nan, nothing)

    @property
    def roundings(self) -> tuple[Rounding, ...]:
        """The way devices round all results; empty if they cannot."""
        found = [one.rounding(self.accumulator) for one in self.statistics]
        if self.dtype is not None or self.factors or None in found:
            return ()
        return tuple(one for one in found if one is not None)

    def of_rounded(self, tile: int, shape: tuple[int, ...], found: Rounded) -> FinishedTile:
        """Return a tile whose results a device has rounded."""
        nan = {
            one.name: since_rounded_are(one, found, grouped=self.grouped) for one in self.statistics
        }
        return FinishedTile(tile, (Level(found.values, shape),), nan, 0)

    def _level(self, partial: Partial, shape: tuple[int, ...]) -> Level:
        values = {
            one.name: one.finish(partial, self.shape, self.reduced, self.dtype)
            for one in self.statistics
        }
        return Level(values, shape)

    def of_levels(self, tile: int, levels: Sequence[np.ndarray]) -> FinishedTile:
        """Return a tile whose levels were made otherwise, of the one statistic that there is."""
        (name,) = (one.name for one in self.statistics)
        made = tuple(Level({name: one.reshape(-1)}, one.shape) for one in levels)
        return FinishedTile(tile, made, {name: False}, 0)


def are_rounded(request: Request, terms: Terms, layout: Layout, accumulator: Accumulator) -> bool:
    """Tell whether blocks finish tiles that are whole there, so that devices can round results."""
    statistics = request.bound(fp64=terms.fp64).statistics
    return (
        not terms.kinds <= _SHARING
        and request.groups * layout.most_outputs >= LEAST_OUTPUTS
        and layout.elements > 0
        and not request.streams
        and not request.questions
        and all(one.rounding(accumulator) is not None for one in statistics)
    )


def finishing_of(plan: Plan) -> TileFinishing | None:
    """Return how blocks finish tiles that are whole there; None if they leave partials."""
    rounded = are_rounded(plan.request, plan.terms, plan.layout, plan.accumulator)
    return TileFinishing.of(plan) if plan.request.streams or rounded else None


def coarser(
    accumulator: Accumulator,
    combine: Combine,
    partial: Partial,
    shape: Sequence[int],
    factors: Sequence[int],
) -> tuple[Partial, tuple[int, ...]]:
    """Combine windows of outputs, the last ones of fewer; return what comes of it, and its extents.

    As exact as the elements themselves: nothing was rounded.
    """
    made = tuple(-(-n // factor) for n, factor in zip(shape, factors, strict=True))
    padded = tuple(n * factor for n, factor in zip(made, factors, strict=True))
    if padded == tuple(shape) and not partial.wide and isinstance(partial.count, int):
        grids = {
            name: array.reshape((*shape, *array.shape[1:]))
            for name, array in partial.arrays.items()
        }
        parts = [
            Partial(
                {n: _flat(grid[window], len(shape)) for n, grid in grids.items()}, {}, partial.count
            )
            for window in _strided(factors)
        ]
        return combine(accumulator, parts), made
    # Behind the last output stands what changes nothing.
    numbers = np.full(padded, partial.outputs)
    numbers[tuple(map(slice, shape))] = np.arange(partial.outputs).reshape(shape)
    parts = [
        taken(accumulator, partial, numbers[window].reshape(-1)) for window in _strided(factors)
    ]
    return combine(accumulator, parts), made


def _strided(factors: Sequence[int]) -> Iterator[tuple[slice, ...]]:
    for firsts in itertools.product(*map(range, factors)):
        yield tuple(slice(n, None, factor) for n, factor in zip(firsts, factors, strict=True))


def _flat(grid: np.ndarray, axes: int) -> np.ndarray:
    return grid.reshape(-1, *grid.shape[axes:])

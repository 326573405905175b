"""Finish tiles one by one: their results, their levels, and why results are NaN."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from chunkfold.kernels import Accumulator, Partial
from chunkfold.kernels.accumulator.partial import taken
from chunkfold.kernels.accumulator.sums import Rounded, Rounding, exact_sums
from chunkfold.kernels.binding.statistic import Statistic
from chunkfold.kernels.catalogue.catalogue import CATALOGUE
from chunkfold.kernels.catalogue.window_modes import window_modes
from chunkfold.kernels.dtypes import COUNT
from chunkfold.kernels.exact.limbs import SPECIALS
from chunkfold.kernels.fold.levels import OPS, Levels
from chunkfold.planning.rules import PlanRule, applies

if TYPE_CHECKING:
    from chunkfold.planning.layout import Layout
    from chunkfold.planning.request import Request, Streamed
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
    """The results of a tile when all of it is folded."""

    tile: int
    levels: tuple[Level, ...]
    nan: Mapping[str, bool | None]
    """By name, whether some results are NaN since elements are: see `since_elements_are`."""
    nothing: int
    """Outputs that have no element."""


@dataclass(frozen=True)
class TileFinishing:
    """The way in which a run's results are read off partials."""

    accumulator: Accumulator
    statistics: tuple[Statistic, ...]
    """Statistics: each output has a result of each."""
    shape: tuple[int, ...]
    reduced: tuple[int, ...]
    """The axes that were reduced, as `Statistic.finish` takes them."""
    grouped: bool = False
    dtype: np.dtype | None = None
    """Integers that results are rounded to as they are written, if they are."""
    factors: tuple[tuple[int, ...], ...] = ()
    """For each coarser level how many outputs of the one before are one, along the kept axes."""
    modes: bool = False
    """True if levels have the most frequent results of windows, and results are no level."""
    by_kernels: Levels | None = None
    """The levels that kernels make of tiles that are one leaf, if they can."""

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
        applies(PlanRule.DEVICE_ROUNDING)
        and not terms.kinds <= _SHARING
        and request.groups * layout.most_outputs >= LEAST_OUTPUTS
        and layout.elements > 0
        and request.streamed is None
        and not request.questions
        and all(one.rounding(accumulator) is not None for one in statistics)
    )


def finishing_of(
    request: Request, terms: Terms, layout: Layout, accumulator: Accumulator
) -> TileFinishing | None:
    """Return how blocks finish tiles that are whole there; None if they return partials."""
    finishing = TileFinishing(
        accumulator,
        request.bound(fp64=terms.fp64).statistics,
        layout.by_window,
        layout.reduced_by_window,
        request.keys is not None,
    )
    streamed = request.streamed
    if streamed is None:
        return finishing if are_rounded(request, terms, layout, accumulator) else None
    return replace(
        finishing,
        dtype=streamed.rounded_to,
        factors=streamed.factors(request.chosen, layout.kept),
        modes=bool(streamed.modes),
        by_kernels=kernel_levels(request, streamed, terms, layout, accumulator),
    )


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
    firsts = itertools.product(*map(range, factors))
    windows = [
        tuple(slice(n, None, factor) for n, factor in zip(first, factors, strict=True))
        for first in firsts
    ]
    made = tuple(-(-n // factor) for n, factor in zip(shape, factors, strict=True))
    padded = tuple(n * factor for n, factor in zip(made, factors, strict=True))
    if padded == tuple(shape) and not partial.wide and isinstance(partial.count, int):
        grids = {
            name: array.reshape((*shape, *array.shape[1:]))
            for name, array in partial.arrays.items()
        }
        parts = [
            Partial(
                {
                    n: grid[window].reshape(-1, *grid.shape[len(shape) :])
                    for n, grid in grids.items()
                },
                {},
                partial.count,
            )
            for window in windows
        ]
        return combine(accumulator, parts), made
    # Behind the last output stands what changes nothing.
    numbers = np.full(padded, partial.outputs)
    numbers[tuple(map(slice, shape))] = np.arange(partial.outputs).reshape(shape)
    parts = [taken(accumulator, partial, numbers[window].reshape(-1)) for window in windows]
    return combine(accumulator, parts), made


_OF_NAN_ALONE = ("min", "max", "minmax", "norminf", "norm1", "norm2", "sumsq")
"""Reductions that are NaN only if elements are: else they are numbers, or infinite."""


def since_elements_are(
    statistic: Statistic, whole: Partial, done: np.ndarray, *, grouped: bool = False
) -> bool | None:
    """Tell if results are NaN or NaT since elements or weights are; `skipna` leaves elements out.

    None if that may be, but infinities may have done it too, such as those of both signs in a sum.
    Outputs of nothing, of no more elements than `ddof`, or of too few are NaN anyway. If elements
    are `grouped`, a partial does not know how many each result has; a statistic may.
    """
    if _no_nan_counts(statistic) or done.dtype.kind not in "fcmM" or not done.size:
        return False
    counts = _counted(statistic, whole) if grouped else np.asarray(whole.count)
    odd = np.isnan(done.reshape(whole.outputs, -1)).any(axis=1)
    if counts is not None:
        least = max(statistic.ddof, statistic.monoid.min_count - 1)
        odd &= np.broadcast_to(counts, whole.outputs) > least
    if not odd.any():
        return False
    monoid = statistic.monoid
    if monoid.where is not None or monoid.masked or counts is None:  # there may have been nothing
        return None
    if done.dtype.kind in "mM" or statistic.name in _OF_NAN_ALONE:
        return True
    sums = [
        exact_sums(whole, slot, statistic.limbs[name])
        for name, slot in statistic.slots.items()
        if name in statistic.limbs
    ]
    plain = [one for one in sums if not one.terms]
    if any(bool((one.wide.tables[odd, -SPECIALS] > 0).any()) for one in plain):
        return True
    return False if sums and len(plain) == len(sums) else None


def since_rounded_are(
    statistic: Statistic, found: Rounded, *, grouped: bool = False
) -> bool | None:
    """Tell the same of results that a device has rounded."""
    monoid, enough = statistic.monoid, grouped or np.all(np.asarray(found.count) > statistic.ddof)
    if _no_nan_counts(statistic) or not found.nan[statistic.name] or not enough:
        return False
    known = not grouped and monoid.where is None and not monoid.masked
    return True if known and statistic.name in _OF_NAN_ALONE else None


def _no_nan_counts(statistic: Statistic) -> bool:
    """Return whether neither NaN among elements nor among weights makes a result NaN."""
    return statistic.monoid.skipna and not statistic.monoid.weights


def why_nan(statistic: Statistic, request: Request) -> str:
    """Say what makes results NaN: the statistic's weights or elements; '' if neither does."""
    if statistic.monoid.weights and request.has_nan_weights:
        return "weights contain NaN"
    return "" if statistic.monoid.skipna else "the data contain NaN"


def _counted(statistic: Statistic, whole: Partial) -> np.ndarray | None:
    """Return of how many elements each result is, if the statistic has counted them."""
    rules = statistic.monoid.fields
    slots = [slot for name, slot in statistic.slots.items() if rules[name] == COUNT]
    return whole.arrays[slots[0]] if slots else None


def kernel_levels(
    request: Request, streamed: Streamed, terms: Terms, layout: Layout, accumulator: Accumulator
) -> Levels | None:
    """Return what kernels make of elements where a tile is one leaf; None if they cannot.

    They make what partials are finished to, bit by bit, or say that they may not have.
    """
    options, (source, *others) = request.options, request.sources
    if not applies(PlanRule.DEVICE_LEVELS) or streamed.modes:  # of elements as they are
        return None
    if others or request.broadcast or request.keys is not None or layout.reduced or layout.gathers:
        return None
    if len(options.monoids) > 1 or not terms.fp64 or options.skips:
        return None
    (monoid,), (name,) = options.monoids, options.names
    plain = options.cast is None and options.initial is None and not any(request.packings)
    if not plain or name not in OPS or monoid != CATALOGUE[name]:
        return None
    dtype = source.dtype
    if any(accumulator.swapped) or (dtype.kind == "f" and not options.exact):
        return None
    if name == "mean" and dtype.kind != "f" and streamed.rounded_to != dtype:
        return None
    factors = tuple(axis.window or 1 for axis in request.chosen)
    made = Levels(name, np.dtype(dtype).name, factors, streamed.levels)
    return made if made.able else None

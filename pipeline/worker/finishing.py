"""From roots to results: partials are put together, finished, and given their axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from chunkfold.kernels import Accumulator, Partial
from chunkfold.kernels.accumulator.partial import assembled
from chunkfold.kernels.binding.statistic import Statistic
from chunkfold.planning.layout import Layout
from chunkfold.planning.plan import Plan

T = TypeVar("T")
Place = tuple[slice, ...]
"""Where outputs are among all, along each kept axis."""


@dataclass(frozen=True)
class Finishing:
    """How results are made of the accumulators of outputs: of all of them, or of a box."""

    accumulator: Accumulator
    layout: Layout
    keepdims: bool
    groups: int | None
    """Results of each output; None if there are no groups."""
    labelled: int
    """The source's first axis that has labels: groups stand in its place."""

    @classmethod
    def of(cls, plan: Plan) -> Finishing:
        """Return how the results of a plan are made."""
        grouping = plan.grouping
        return cls(
            plan.accumulator,
            plan.layout,
            plan.options.keepdims,
            None if grouping is None else grouping.count,
            0 if grouping is None else grouping.keys.axes[0],
        )

    @property
    def all_outputs(self) -> Place:
        """Where all of them are."""
        return tuple(slice(0, self.layout.shape[n]) for n in self.layout.kept)

    def whole(self, box: Place, tiles: Iterable[tuple[int, Partial]]) -> Partial:
        """Put the partials of tiles, by their numbers, where they belong in a box of outputs."""
        groups = () if self.groups is None else (slice(0, self.groups),)
        parts = [
            ((*groups, *_within(self.layout.tile_place(tile), box)), part) for tile, part in tiles
        ]
        return assembled(self.accumulator, _extents((*groups, *box)), parts)

    def finished(self, statistic: Statistic, whole: Partial) -> np.ndarray:
        """Finish what was put together: one result for each output, group by group."""
        return statistic.finish(whole, self.layout.shape, self.layout.reduced)

    def shaped(self, done: np.ndarray, box: Place) -> np.ndarray:
        """Give results of a box their axes; those that each has of its own stand behind them."""
        extents = _extents(box)
        if self.groups is None:
            return done.reshape((*self.by_axis(extents, 1, 1), *done.shape[1:]))
        at = self.by_axis([0] * len(extents), 1, 0).index(1)
        shape = self.by_axis(extents, self.groups, 1)
        alone = (*shape[:at], *shape[at + 1 :])
        return np.moveaxis(done.reshape((self.groups, *alone, *done.shape[1:])), 0, at)

    def by_axis(self, kept: Sequence[T], groups: T, reduced: T) -> tuple[T, ...]:
        """Return what belongs to each axis of results, of what belongs to kept axes, and others."""
        layout, found = self.layout, dict(zip(self.layout.kept, kept, strict=True))
        if self.keepdims:
            alive = [n for n in layout.reduced if not layout.axes[n].dropped]
            found |= dict.fromkeys(alive, reduced)
        if self.groups is not None:
            found[self.labelled] = groups
        return tuple(found[n] for n in sorted(found))


def _within(place: Place, box: Place) -> Place:
    return tuple(
        slice(own.start - along.start, own.stop - along.start)
        for own, along in zip(place, box, strict=True)
    )


def _extents(place: Place) -> tuple[int, ...]:
    return tuple(along.stop - along.start for along in place)

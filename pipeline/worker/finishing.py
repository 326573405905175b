"""Make results from roots: assemble partials, finish them, and order their axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from chunkfold.boxes import Slices, extents_of
from chunkfold.kernels import Accumulator, Partial
from chunkfold.kernels.accumulator.partial import assembled
from chunkfold.kernels.binding.statistic import Statistic
from chunkfold.planning.layout import Layout
from chunkfold.planning.plan import Plan

T = TypeVar("T")


@dataclass(frozen=True)
class Finishing:
    """Makes results from accumulators of outputs: of all, or of a box of them."""

    accumulator: Accumulator
    layout: Layout
    keepdims: bool
    groups: tuple[int, ...] | None
    """Lengths of the axes of groups; None: no groups."""
    labelled: int
    """The source's first axis with labels: axes of groups stand in its place."""

    @classmethod
    def of(cls, plan: Plan) -> Finishing:
        """Return the finishing of a plan."""
        grouping = plan.grouping
        return cls(
            plan.accumulator,
            plan.layout,
            plan.options.keepdims,
            None if grouping is None else grouping.shape,
            0 if grouping is None else grouping.first,
        )

    @property
    def all_outputs(self) -> Slices:
        """The box of all outputs."""
        return tuple(slice(0, outputs) for outputs in self.layout.outputs_shape)

    def whole(self, box: Slices, tiles: Iterable[tuple[int, Partial]]) -> Partial:
        """Assemble the partials of tiles, given with their numbers, in a box of outputs."""
        groups = () if self.groups is None else (slice(0, math.prod(self.groups)),)
        parts = (
            ((*groups, *_within(self.layout.tile_region(tile), box)), part) for tile, part in tiles
        )
        return assembled(self.accumulator, extents_of((*groups, *box)), parts)

    def finished(self, statistic: Statistic, whole: Partial) -> np.ndarray:
        """Finish an assembled partial: one result for each output, group by group."""
        layout = self.layout
        return statistic.finish(whole, layout.by_window, layout.reduced_by_window)

    def shaped(self, done: np.ndarray, box: Slices) -> np.ndarray:
        """Return results of a box with their axes; the axes of one result stand behind them."""
        groups = self.groups or ()
        shape, at = self.by_axis(extents_of(box), groups, 1), self._before_groups
        alone = (*shape[:at], *shape[at + len(groups) :])
        apart = done.reshape((*groups, *alone, *done.shape[1:]))
        return np.moveaxis(apart, range(len(groups)), range(at, at + len(groups)))

    def by_axis(self, kept: Sequence[T], groups: Sequence[T], reduced: T) -> tuple[T, ...]:
        """Return a value for each axis of results: those of kept axes, of groups, and `reduced`."""
        own = dict(zip(self.layout.kept, kept, strict=True))
        alone, at = [own.get(n, reduced) for n in self._alive], self._before_groups
        return (*alone[:at], *groups, *alone[at:])

    @property
    def _alive(self) -> list[int]:
        """The source's axes that results have, without the one that groups replace."""
        layout = self.layout
        reduced = [n for n in layout.reduced if self.keepdims and not layout.axes[n].dropped]
        gone = {self.labelled} if self.groups is not None else set()
        return sorted({*layout.kept, *reduced} - gone)

    @property
    def _before_groups(self) -> int:
        return sum(n < self.labelled for n in self._alive)


def _within(place: Slices, box: Slices) -> Slices:
    return tuple(
        slice(own.start - along.start, own.stop - along.start)
        for own, along in zip(place, box, strict=True)
    )

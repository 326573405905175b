"""Fold rows of elements, each alone, and join them in the end: see `chunkfold.planning.rows`."""

from __future__ import annotations

from collections.abc import Sequence

import pyopencl as cl

from chunkfold.boxes import Slices, place_key
from chunkfold.kernels import Accumulator, Box, Fold, Partial, Tuning
from chunkfold.kernels.fold.launch import Input
from chunkfold.kernels.fold.profile import Profile, merged
from chunkfold.planning.preaggregation import Preaggregation
from chunkfold.planning.rows import MOST_OPEN, RowsRead
from chunkfold.planning.tiles import Combine
from chunkfold.worker.worker_device import WorkerDevice


class RowsFold:
    """Folds into some outputs of which rows are joined: see `Fold`.

    Each box of rows has a fold of its own. When they are too many, all are ended and joined.
    """

    def __init__(
        self,
        owned: WorkerDevice,
        way: Preaggregation,
        tuning: Tuning,
        outputs: int,
        queue: cl.CommandQueue,
        combine: Combine,
    ) -> None:
        self._owned, self._way, self._tuning = owned, way, tuning
        self._outputs, self._queue, self._combine = outputs, queue, combine
        self._folds: dict[tuple[tuple[int, int], ...], tuple[Fold, Slices]] = {}
        self._joined: Partial | None = None
        """Of folds that were ended before."""
        self._profiles: list[Profile] = []

    @property
    def accumulator(self) -> Accumulator:
        """What comes of it."""
        return self._way.whole

    @property
    def nbytes(self) -> int:
        """Bytes of the accumulators on the device."""
        folds = (fold for fold, _ in self._folds.values())
        return sum(one.splits * one.outputs * one.accumulator.nbytes for one in folds)

    def add(
        self, inputs: Sequence[Input], rows: RowsRead, wait_for: Sequence[cl.Event] = ()
    ) -> cl.Event | None:
        """Enqueue the fold of a box; parameters, result and what is raised as of `Fold.add`."""
        key = place_key(rows.place)
        if key not in self._folds:
            if len(self._folds) == MOST_OPEN:
                self._joined = self._ended()
            self._folds[key] = self._begun(rows.box), rows.place
        given = [one for n, one in enumerate(inputs) if n != self._way.left_out]
        return self._folds[key][0].add(given, rows.box, wait_for)

    def finish(self) -> Partial:
        """Read the partial back, and start anew from zero; raises as `Fold.finish`."""
        partial, self._joined = self._ended(), None
        return partial

    def profile(self) -> Profile:
        """Return the times of every launch that `finish` has proved done."""
        profiles, self._profiles = self._profiles, []
        return merged(profiles)

    def _begun(self, box: Box) -> Fold:
        folded = self._way.folded
        return Fold(self._owned.opened, folded, self._tuning, box.outputs, self._queue)

    def _ended(self) -> Partial:
        """End all folds, and join what comes of them with what was joined before."""
        done = [(place, fold.finish()) for fold, place in self._folds.values()]
        self._profiles += [fold.profile() for fold, _ in self._folds.values()]
        self._folds.clear()
        found = self._way.joined(done, self._outputs, self._combine)
        if self._joined is None:
            return found
        return self._combine(self.accumulator, [self._joined, found])

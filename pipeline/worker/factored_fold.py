"""Fold rows of elements that share a weight, and weigh each row's sum in the end."""

from __future__ import annotations

from collections.abc import Sequence

import pyopencl as cl

from chunkfold.boxes import place_key
from chunkfold.kernels import Accumulator, Box, Fold, Partial
from chunkfold.kernels.accumulator.factoring import RowSums
from chunkfold.kernels.fold.launch import Input
from chunkfold.kernels.fold.profile import Profile, merged
from chunkfold.planning.factored_weights import FactoredWeights, RowsRead
from chunkfold.planning.work import Work
from chunkfold.worker.worker_device import WorkerDevice


class FactoredFold:
    """Folds into some outputs of which elements are weighed row by row: see `Fold`.

    Rows that are read together have accumulators of their own.
    """

    def __init__(
        self, owned: WorkerDevice, work: Work, factored: FactoredWeights, outputs: int,
        queue: cl.CommandQueue,
    ) -> None:  # fmt: skip
        self._owned, self._work, self._factored = owned, work, factored
        self._outputs, self._queue = outputs, queue
        self._folds: dict[tuple[tuple[int, int], ...], tuple[Fold, RowsRead]] = {}

    @property
    def accumulator(self) -> Accumulator:
        """What comes of it."""
        return self._factored.factoring.whole

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
            self._folds[key] = self._begun(rows.box), rows
        number = self._factored.factoring.number
        others = [one for n, one in enumerate(inputs) if n != number]
        return self._folds[key][0].add(others, rows.box, wait_for)

    def finish(self) -> Partial:
        """Read the partial back, and start anew from zero; raises as `Fold.finish`."""
        done = [
            RowSums(
                fold.finish(),
                self._factored.weights_at(rows.place),
                self._factored.outputs_at(rows.place),
            )
            for fold, rows in self._folds.values()
        ]
        return self._factored.factoring.joined(done, self._outputs)

    def profile(self) -> Profile:
        """Return the times of every launch that `finish` has proved done."""
        return merged([fold.profile() for fold, _ in self._folds.values()])

    def _begun(self, box: Box) -> Fold:
        rows = self._factored.factoring.rows
        tuning = self._owned.tuning(rows, self._work.variant, {box.kernel})
        return Fold(self._owned.opened, rows, tuning, box.outputs, self._queue)

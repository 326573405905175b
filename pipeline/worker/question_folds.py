"""The folds of one question: how they begin, and how they take in what is read."""

from __future__ import annotations

from collections.abc import Sequence

import pyopencl as cl

from chunkfold.boxes import Slices
from chunkfold.kernels import Accumulator, Fold, KeyedFold, Tuning
from chunkfold.kernels.fold.launch import Input
from chunkfold.kernels.fold.numbering import KERNELS, Numbering
from chunkfold.planning.group_keys import Keys
from chunkfold.planning.tiles import Combine
from chunkfold.planning.work import Work
from chunkfold.reading.reads import FoldInput
from chunkfold.worker.device_inputs import DeviceKeys, HeldKeys, uploaded
from chunkfold.worker.rows_fold import RowsFold
from chunkfold.worker.worker_device import WorkerDevice

QuestionFold = Fold | KeyedFold | RowsFold
"""Folds into some outputs: elements as they are, by the keys of their groups, or row by row."""


class QuestionFolds:
    """Begins folds, and gives them what they need beside elements: keys, weights, masks."""

    def __init__(
        self, owned: WorkerDevice, work: Work, queue: cl.CommandQueue, combine: Combine
    ) -> None:
        self._owned, self._work, self._queue, self._combine = owned, work, queue, combine
        self._held = [uploaded(one, owned.opened) for one in work.held]
        self._of_labels: DeviceKeys | None = None
        self._numbering: Numbering | None = None
        if isinstance(work.keys, Keys):
            self._of_labels = DeviceKeys(owned.opened, work.keys)
        elif work.numbering is not None:
            tuning = owned.tuning(work.numbering, work.variant, KERNELS)
            self._numbering = Numbering(owned.opened, work.numbering, tuning, queue)

    def begin(self, accumulator: Accumulator, tuning: Tuning, outputs: int) -> QuestionFold:
        """Return what folds into so many outputs, of each group if there are groups."""
        work, opened = self._work, self._owned.opened
        if work.rowwise is not None and accumulator == work.accumulator:
            return RowsFold(self._owned, work.rowwise, tuning, outputs, self._queue, self._combine)
        if work.keys is None:
            return Fold(opened, accumulator, tuning, outputs, self._queue)
        return KeyedFold(opened, accumulator, tuning, work.groups, outputs, self._queue)

    def inputs(self, staged: Sequence[Input]) -> list[Input]:
        """Return all inputs of a fold: those that are read, then those that each worker holds."""
        return [*staged, *self._held]

    def add(
        self,
        fold: KeyedFold | RowsFold,
        inputs: Sequence[Input],
        told: FoldInput,
        wait_for: Sequence[cl.Event],
    ) -> cl.Event | None:
        """Enqueue the fold of a box that takes more than where its elements are.

        Result and what is raised are those of `Fold.add`.
        """
        if isinstance(fold, RowsFold):
            assert told.rows is not None
            return fold.add(inputs, told.rows, wait_for)
        assert told.keyed is not None
        layout, place = told.keyed
        keys = self._keys_of(inputs[0], told.shape, place, wait_for)
        return fold.add(inputs, keys.buffer, layout, wait_for, codes=keys.codes)

    def _keys_of(
        self, elements: Input, shape: Sequence[int], place: Slices, wait_for: Sequence[cl.Event]
    ) -> HeldKeys:
        if self._numbering is not None:
            return HeldKeys(self._numbering.of(elements, shape, wait_for), None)
        assert self._of_labels is not None
        return self._of_labels.at(place)

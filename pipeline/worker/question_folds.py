"""Folds of what is read: by keys of groups, of labels or of the elements themselves, or plain."""

from __future__ import annotations

from collections.abc import Sequence

import pyopencl as cl

from chunkfold.boxes import Slices
from chunkfold.kernels import Accumulator, Fold, KeyedBox, KeyedFold, Tuning
from chunkfold.kernels.fold.launch import Input
from chunkfold.kernels.fold.numbering import KERNELS, Numbering
from chunkfold.planning.group_keys import Keys
from chunkfold.planning.work import Work
from chunkfold.worker.device_inputs import DeviceKeys, HeldKeys
from chunkfold.worker.factored_fold import FactoredFold
from chunkfold.worker.worker_device import WorkerDevice


def begin_fold(
    owned: WorkerDevice,
    work: Work,
    accumulator: Accumulator,
    tuning: Tuning,
    outputs: int,
    queue: cl.CommandQueue,
) -> Fold | KeyedFold | FactoredFold:
    """Return what folds into so many outputs, of each group if there are groups.

    Rows are weighed together where the work does so, and what they are folded into is its own.
    """
    if work.factored is not None and accumulator == work.accumulator:
        return FactoredFold(owned, work, work.factored, outputs, queue)
    if work.keys is None:
        return Fold(owned.opened, accumulator, tuning, outputs, queue)
    return KeyedFold(owned.opened, accumulator, tuning, work.groups, outputs, queue)


class GroupKeys:
    """Gives folds the keys of boxes that are read."""

    def __init__(self, owned: WorkerDevice, work: Work, queue: cl.CommandQueue) -> None:
        self._of_labels: DeviceKeys | None = None
        self._numbering: Numbering | None = None
        if isinstance(work.keys, Keys):
            self._of_labels = DeviceKeys(owned.opened, work.keys)
        elif work.numbering is not None:
            tuning = owned.tuning(work.numbering, work.variant, KERNELS)
            self._numbering = Numbering(owned.opened, work.numbering, tuning, queue)

    def add(
        self,
        fold: KeyedFold,
        inputs: Sequence[Input],
        shape: Sequence[int],
        keyed: tuple[KeyedBox, Slices],
        wait_for: Sequence[cl.Event],
    ) -> cl.Event | None:
        """Enqueue the fold of a box of a shape by its keys; raises as `KeyedFold.add`.

        `keyed` is where keys are: to the kernels, and among all of them.
        """
        layout, place = keyed
        keys = self._of(inputs[0], shape, place, wait_for)
        return fold.add(inputs, keys.buffer, layout, wait_for, codes=keys.codes)

    def _of(
        self, elements: Input, shape: Sequence[int], place: Slices, wait_for: Sequence[cl.Event]
    ) -> HeldKeys:
        if self._numbering is not None:
            return HeldKeys(self._numbering.of(elements, shape, wait_for), None)
        assert self._of_labels is not None
        return self._of_labels.at(place)

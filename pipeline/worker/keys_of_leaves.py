"""The keys of what is read, on the device: of labels, or made there of the elements themselves."""

from __future__ import annotations

from collections.abc import Sequence

import pyopencl as cl

from chunkfold.kernels.fold.launch import Input
from chunkfold.kernels.fold.numbering import KERNELS, Numbering
from chunkfold.planning.group_keys import Keys, Place
from chunkfold.planning.work import Work
from chunkfold.worker.device_inputs import DeviceKeys, HeldKeys
from chunkfold.worker.worker_device import WorkerDevice


class GroupKeys:
    """Gives the keys of boxes that are read."""

    def __init__(self, owned: WorkerDevice, work: Work, queue: cl.CommandQueue) -> None:
        self._of_labels: DeviceKeys | None = None
        self._numbering: Numbering | None = None
        if isinstance(work.keys, Keys):
            self._of_labels = DeviceKeys(owned.opened, work.keys)
        elif work.numbering is not None:
            tuning = owned.tuning(work.numbering, work.variant, KERNELS)
            self._numbering = Numbering(owned.opened, work.numbering, tuning, queue)

    def of(
        self, elements: Input, shape: Sequence[int], place: Place, wait_for: Sequence[cl.Event]
    ) -> HeldKeys:
        """Return the keys of a box of a shape, which holds elements, at a place among all keys.

        Raises
        ------
        DeviceError
            If the device has no room for them.
        """
        if self._numbering is not None:
            return HeldKeys(self._numbering.of(elements, shape, wait_for), None)
        assert self._of_labels is not None
        return self._of_labels.at(place)

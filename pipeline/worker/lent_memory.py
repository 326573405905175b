"""Buffers, folds and decoders of a device that blocks borrow: idle ones stay for the next block."""

from __future__ import annotations

import threading
from collections import deque

from chunkfold.kernels import Accumulator, DeviceContext, Fold, Tuning
from chunkfold.kernels.decode.device_decoder import DeviceDecoders
from chunkfold.kernels.feed.fed_buffer import FedBuffer
from chunkfold.kernels.feed.feeder import Feeder
from chunkfold.kernels.fold.staging import StagingBuffer

_FOLDS = 8
"""Idle folds that are kept."""
_SMALLEST = 64
"""Reads are at most so many times smaller than planned, where memory is short."""


class LentMemory:
    """The buffers and folds of a device, for any number of threads."""

    def __init__(self, opened: DeviceContext, readers: int) -> None:
        self._opened, self._readers = opened, readers
        self._lock = threading.Lock()
        self._buffers: list[StagingBuffer | FedBuffer] = []
        self._folds = deque[Fold](maxlen=_FOLDS)
        """Folds whose kernels are made."""
        self._feeder: Feeder | None = None
        """Feeds the device from files; made when it is first needed."""
        self._decoders = DeviceDecoders(opened)
        self._smaller = "", 1
        """The latest run whose reads are smaller than planned, and how many times."""

    def feeder(self) -> Feeder:
        """Return the feeder from files; it leaves some cores to threads that decode."""
        with self._lock:
            if self._feeder is None:
                self._feeder = Feeder(self._opened, max(1, 3 * self._readers // 4))
            return self._feeder

    def borrow(self, nbytes: int) -> StagingBuffer | FedBuffer:
        """Return a buffer of a size, if possible a used one, whose pages are warm.

        Idle buffers of another size are dropped, so that memory stays within the plan's bound.
        """
        with self._lock:
            kept = [buffer for buffer in self._buffers if buffer.nbytes == nbytes]
            if len(kept) < len(self._buffers):
                self._folds.clear()  # their kernels hold the buffers that they last read
            self._buffers = kept
            if self._buffers:
                return self._buffers.pop()
        if self._opened.device.unified_memory:
            return StagingBuffer(self._opened, self._opened.queue(), nbytes)
        return FedBuffer(self._opened, nbytes, self.feeder, self._decoders)

    def give_back(self, buffer: StagingBuffer | FedBuffer) -> None:
        """Take back a buffer whose last fold is done."""
        with self._lock:
            self._buffers.append(buffer)

    def borrow_fold(self, accumulator: Accumulator, tuning: Tuning) -> Fold:
        """Return a fold of one output for a reading thread, if possible a used one.

        It has one work-group, so that it waits for no core on which another thread reads.
        """
        with self._lock:
            for fold in self._folds:
                if fold.accumulator == accumulator and fold.tuning == tuning:
                    self._folds.remove(fold)
                    return fold
        queue = self._opened.queue(here=True)
        return Fold(self._opened, accumulator, tuning, queue=queue, splits=1)

    def give_back_fold(self, fold: Fold) -> None:
        """Take back a fold that is finished."""
        with self._lock:
            self._folds.append(fold)

    def smaller(self, run: str) -> int:
        """Return by how much reads of a run are smaller than planned, since memory is short."""
        latest, smaller = self._smaller
        return smaller if latest == run else 1

    def make_room(self, run: str, smaller: int) -> bool:
        """Drop idle memory, and make reads of a run smaller than they were with `smaller`.

        False if they cannot be smaller.
        """
        if smaller >= _SMALLEST:
            return False
        with self._lock:
            self._buffers.clear()
            self._folds.clear()
            self._opened.places.clear()
            self._decoders.drop_idle()
            if self.smaller(run) == smaller:  # else another block of the run was here before
                self._smaller = run, 4 * smaller
        return True

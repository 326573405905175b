"""Fold leaves as they come: readers fill a ring of staging buffers while the device folds others.

The way of devices with memory of their own, and of arrays that threads wait for.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as FutureTimeoutError

from chunkfold import staged
from chunkfold.errors import ChunkError
from chunkfold.kernels import Accumulator, Fold, Partial, Tuning
from chunkfold.kernels.staging import StagingBuffer
from chunkfold.memory import ring_slots
from chunkfold.reads import Read, Window, reads_of
from chunkfold.staged import ReadTimes, read_staged
from chunkfold.tally import Tally
from chunkfold.work import Work
from chunkfold.worker import WorkerDevice

Slot = tuple[StagingBuffer, ...]
"""A place in the ring: one staging buffer per input."""
_kept_for_good: list[Slot] = []
"""Slots that a reader which never came back may still write to."""


class Ring:
    """The ring of staging buffers of one block."""

    def __init__(self, owned: WorkerDevice, work: Work, tally: Tally, buffer_bytes: int) -> None:
        self._owned, self._work, self._tally = owned, work, tally
        self._buffer_bytes = buffer_bytes
        self._queue = owned.opened.queue()
        self._free: deque[Slot] = deque()
        self._readers = work.readers_of(owned)
        self._made, self._most = 0, ring_slots(self._readers)

    def fold(self, accumulator: Accumulator, tuning: Tuning, window: Window) -> Partial:
        """Read a window and fold it; raises as `Stream.fold`."""
        fold = Fold(self._owned.opened, accumulator, tuning, window.outputs, self._queue)
        reads = deque[tuple[Read, Slot, Future[ReadTimes]]]()
        try:
            for read in reads_of(self._work, window, self._buffer_bytes):
                if len(reads) == self._most - 2:
                    self._consume(fold, window, *reads[0])
                    reads.popleft()
                slot = self._slot()
                memory = [buffer.begin() for buffer in slot]
                future = self._owned.read(
                    self._readers, read_staged, self._work.sources, read, memory
                )
                reads.append((read, slot, future))
            while reads:
                self._consume(fold, window, *reads[0])
                reads.popleft()
            partial = fold.finish()
        finally:
            self._settle([(slot, future) for _, slot, future in reads])
        self._tally.launched(fold.profile())
        return partial

    def close(self) -> None:
        """Wait for the device to let go of the buffers."""
        for buffer in itertools.chain.from_iterable(self._free):
            buffer.drain()
            self._tally.upload_s += buffer.uploaded_s()
            self._owned.give_back(buffer)

    def _settle(self, unread: Sequence[tuple[Slot, Future[ReadTimes]]]) -> None:
        """Wait for readers that nobody waits for any more: no buffer is used while one fills it."""
        for _, future in unread:
            future.cancel()
        deadline = 0.0 if self._tally.stuck else staged.READ_DEADLINE_S
        running = wait([future for _, future in unread], deadline).not_done
        self._tally.stuck |= bool(running)
        for slot, future in unread:
            (_kept_for_good if future in running else self._free).append(slot)

    def _slot(self) -> Slot:
        """Return a slot that is free, or will be when its last fold is done."""
        if self._made < self._most:
            self._made += 1
            return tuple(self._owned.borrow(self._buffer_bytes) for _ in self._work.sources)
        return self._free.popleft()

    def _consume(
        self, fold: Fold, window: Window, read: Read, slot: Slot, future: Future[ReadTimes]
    ) -> None:
        """Fold what a reader has brought, and free its slot."""
        self._tally.tell()
        counts = fold.accumulator == self._work.accumulator  # else they were counted before
        try:
            times = future.result(staged.READ_DEADLINE_S)
        except FutureTimeoutError:
            self._tally.stuck = True
            raise ChunkError(
                f"{self._work.sources[0].name}: reading {read.region} took longer than "
                f"{staged.READ_DEADLINE_S:.0f} s"
            ) from None
        except ChunkError as error:
            if not window.by_cell:
                raise
            if counts:
                skipped, reason = self._tally.skipped, str(error)
                skipped[reason] = skipped.get(reason, 0) + read.box.elements
            self._free.append(slot)
            return
        self._tally.read_s += times.seconds
        self._tally.decode_s += times.decoding
        sizes = [read.box.elements * source.dtype.itemsize for source in self._work.sources]
        ready = [buffer.commit(nbytes) for buffer, nbytes in zip(slot, sizes, strict=True)]
        uploads = [event for one in ready for event in one.events]
        event = fold.add([one.buffer for one in ready], read.box, wait_for=uploads)
        for buffer in slot:
            buffer.busy_until(event)
        self._free.append(slot)
        if counts:
            self._tally.elements += read.box.elements
            self._tally.nbytes += read.nbytes

"""Stream leaves through a device: readers fill a ring of staging buffers while it folds others."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import NamedTuple

import numpy as np

from chunkfold.blocks import Block
from chunkfold.errors import CancelledError, ChunkError
from chunkfold.kernels import Accumulator, Combiner, Fold, Partial, Tuning
from chunkfold.kernels.power import Powers
from chunkfold.kernels.profile import Profile, merged
from chunkfold.kernels.staging import StagingBuffer
from chunkfold.memory import ring
from chunkfold.objects import decode_clock
from chunkfold.reads import Read, Window, kernels_of, reads_of
from chunkfold.work import Watch, Work
from chunkfold.worker import WorkerDevice

READ_DEADLINE_S = 600.0
"""Longest wait for one leaf to be read and decoded, in seconds."""
PROGRESS_EVERY_S = 0.25
Slot = tuple[StagingBuffer, ...]
"""A place in the ring: one staging buffer per input."""
_kept_for_good: list[Slot] = []
"""Slots that a reader which never came back may still write to."""


class ReadTimes(NamedTuple):
    """What a thread took for one leaf, in seconds."""

    seconds: float
    decoding: float
    """Of these, as far as it is known."""


class Stream:
    """The ring of staging buffers of one block, its readers, and what they have counted."""

    def __init__(self, owned: WorkerDevice, work: Work, block: Block, watch: Watch) -> None:
        self.owned, self.work, self.block = owned, work, block
        self.elements = 0
        self.nbytes = 0
        self.read_s = self.decode_s = 0.0
        self.upload_s = 0.0
        """Copying to the device, by its clock; known once the stream is closed."""
        self.skipped: dict[str, int] = {}
        """Elements left out, by what was wrong with their chunks."""
        self.stuck = False
        """Whether a reader never came back."""
        self.fills = Powers(
            owned.opened,
            [np.full(1, source.fill, source.dtype) for source in work.sources],
            lambda accumulator: work.tuning(owned, accumulator, {"flat"}),
        )
        """Folds of the fill value."""
        self._watch = watch
        self._queue = owned.opened.queue()
        self._profiles: list[Profile] = []
        self._free: deque[Slot] = deque()
        self._readers = work.readers_of(owned)
        self._made, self._most = 0, ring(self._readers)
        self.buffer_bytes = min(work.leaf_bytes, owned.device.max_alloc_bytes)
        """Of a staging buffer."""
        self._told = time.monotonic()

    def fold(self, accumulator: Accumulator, window: Window) -> Partial:
        """Read a window and fold it into an accumulator: the work's, or another form of it.

        Raises
        ------
        ChunkError
            If a chunk cannot be read, and the window is not to be read cell by cell.
        CancelledError
            If the run was cancelled meanwhile.
        """
        tuning = self.tuning(accumulator, window)
        fold = Fold(self.owned.opened, accumulator, tuning, window.outputs, self._queue)
        reads = deque[tuple[Read, Slot, Future[ReadTimes]]]()
        try:
            for read in reads_of(self.work, window, self.buffer_bytes):
                if len(reads) == self._most - 2:
                    self._consume(fold, window, *reads[0])
                    reads.popleft()
                slot = self._slot()
                memory = [buffer.begin() for buffer in slot]
                future = self.owned.read(self._readers, self._read, read, memory)
                reads.append((read, slot, future))
            while reads:
                self._consume(fold, window, *reads[0])
                reads.popleft()
            partial = fold.finish()
        finally:
            self._settle([(slot, future) for _, slot, future in reads])
        self._profiles.append(fold.profile())
        return partial

    def tuning(self, accumulator: Accumulator, window: Window) -> Tuning:
        """Return how a window is folded into an accumulator."""
        kernels = kernels_of(self.work, window, self.buffer_bytes)
        return self.work.tuning(self.owned, accumulator, kernels)

    def combine(self, partials: Sequence[Partial]) -> Partial:
        """Combine partials of the same outputs."""
        tuning = self.work.tuning(self.owned, self.work.accumulator)
        combiner = Combiner(self.owned.opened, self.work.accumulator, tuning)
        combined = combiner.combine(partials)
        self._profiles.append(combiner.profile())
        return combined

    def close(self) -> None:
        """Wait for the device to let go of the buffers."""
        if self.stuck:
            self.owned.leave_readers()
        for buffer in itertools.chain.from_iterable(self._free):
            buffer.drain()
            self.upload_s += buffer.uploaded_s()
            self.owned.give_back(buffer)

    def profile(self) -> Profile:
        """Return the times of all launches so far."""
        return merged(self._profiles)

    def _settle(self, unread: Sequence[tuple[Slot, Future[ReadTimes]]]) -> None:
        """Wait for readers that nobody waits for any more: no buffer is used while one fills it."""
        for _, future in unread:
            future.cancel()
        deadline = 0.0 if self.stuck else READ_DEADLINE_S
        running = wait([future for _, future in unread], deadline).not_done
        self.stuck |= bool(running)
        for slot, future in unread:
            (_kept_for_good if future in running else self._free).append(slot)

    def _slot(self) -> Slot:
        """Return a slot that is free, or will be when its last fold is done."""
        if self._made < self._most:
            self._made += 1
            return tuple(self.owned.borrow(self.buffer_bytes) for _ in self.work.sources)
        return self._free.popleft()

    def _read(self, read: Read, memory: Sequence[np.ndarray]) -> ReadTimes:
        """Decode a region of each input into staging memory."""
        began, decoded = time.monotonic(), decode_clock.seconds
        for source, staged, known in zip(self.work.sources, memory, read.known, strict=True):
            nbytes = read.box.elements * source.dtype.itemsize
            elements = staged[:nbytes].view(source.dtype).reshape(read.shape)
            if read.absent:
                elements[...] = source.fill
            else:
                source.read(read.region, elements, known)
        return ReadTimes(time.monotonic() - began, decode_clock.seconds - decoded)

    def _consume(
        self, fold: Fold, window: Window, read: Read, slot: Slot, future: Future[ReadTimes]
    ) -> None:
        """Fold what a reader has brought, and free its slot."""
        if self._watch.cancelled():
            raise CancelledError(f"run {self.work.run} was cancelled")
        counts = fold.accumulator == self.work.accumulator  # else they were counted before
        try:
            times = future.result(READ_DEADLINE_S)
        except FutureTimeoutError:
            self.stuck = True
            raise ChunkError(
                f"{self.work.sources[0].name}: reading {read.region} took longer than "
                f"{READ_DEADLINE_S:.0f} s"
            ) from None
        except ChunkError as error:
            if not window.by_cell:
                raise
            if counts:
                reason = str(error)
                self.skipped[reason] = self.skipped.get(reason, 0) + read.box.elements
            self._free.append(slot)
            return
        self.read_s += times.seconds
        self.decode_s += times.decoding
        sizes = [read.box.elements * source.dtype.itemsize for source in self.work.sources]
        ready = [buffer.commit(nbytes) for buffer, nbytes in zip(slot, sizes, strict=True)]
        uploads = [event for one in ready for event in one.events]
        event = fold.add([one.buffer for one in ready], read.box, wait_for=uploads)
        for buffer in slot:
            buffer.busy_until(event)
        self._free.append(slot)
        if counts:
            self.elements += read.box.elements
            self.nbytes += read.nbytes
        if time.monotonic() - self._told > PROGRESS_EVERY_S:
            self._told = time.monotonic()
            self._watch.progress(self.nbytes, False)

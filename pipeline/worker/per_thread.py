"""Fold on the threads that read: what they decoded, while it is still in the cache.

The way of few threads and a device that shares their memory. Handing over to another thread, and
memory that no cache holds any more, cost a tenth of the time that chunks of 1 MB take, and half of
what those without codecs do. Small chunks are decoded one behind another, a few to a fold; of large
ones without codecs pieces are read. Large ones with codecs go through the ring: they have left the
cache before they are whole.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from functools import lru_cache, partial
from typing import cast

from chunkfold.decoding.decode_units import InTurn, ahead
from chunkfold.decoding.direct import Region
from chunkfold.errors import ChunkError, ChunkfoldError, DeviceError
from chunkfold.grid import Taken
from chunkfold.kernels import Accumulator, Fold, Partial, Tuning
from chunkfold.kernels.fold.launch import wait_watched
from chunkfold.kernels.fold.profile import Profile
from chunkfold.kernels.geometry import Box, Dim
from chunkfold.planning.work import Work
from chunkfold.reading import staging
from chunkfold.reading.reads import Read, Window, all_in_turn, reads_of
from chunkfold.reading.staging import Slot, committed, overdue, read_staged
from chunkfold.reading.work_shares import WorkShare, work_shares_of
from chunkfold.stores.objects import decode_clock
from chunkfold.worker.totals import TELL_EVERY_S, Totals
from chunkfold.worker.worker_device import WorkerDevice

PIECE_BYTES = 8 << 20
"""Of a large chunk, read and folded at a time: a cache holds some of them, and what Python does
between two of them, at a cache's misses, is little beside them."""
FOLD_BYTES = 4 << 20
"""Of small chunks, folded at a time; no chunk is larger than such a piece."""
MOST_THREADS = 4
"""Beyond, Python's lock, which each holds for some 0.2 ms with every piece, makes them wait: with
PoCL on 16 cores 2 had 1.5 of the ring's speed, 4 had 1.1, 6 had 0.96, 8 had 0.85, 16 had 0.5."""
_ACCUMULATOR_BYTES = 64 << 10
"""Largest accumulator of which every thread has its own."""
_LEAST_PIECES = 2
"""Each thread has so many, at least: less is not worth the combine."""
_END = object()
"""What `next` returns behind the last stop."""


class PerThread:
    """The reading threads of a block, where they fold too."""

    def __init__(
        self, owned: WorkerDevice, work: Work, totals: Totals, buffer_bytes: int, turn: int
    ) -> None:
        self._owned, self._work, self._totals = owned, work, totals
        self._readers, self._turn = owned.readers_for(work), turn
        self._itemsize = max(source.dtype.itemsize for source in work.sources)
        fold_bytes = min(FOLD_BYTES, buffer_bytes)
        small = all_in_turn(work) and _chunk_elements(work) * self._itemsize <= fold_bytes
        self._kind = FoldInTurn if small else FoldPieces
        self._piece_bytes = fold_bytes if small else min(PIECE_BYTES, buffer_bytes)
        self._able = (
            self._readers <= MOST_THREADS
            and work.keys is None
            and work.of_all is None
            and not work.held
            and not work.choosers
            and owned.device.unified_memory
            and not any(source.remote for source in work.sources)
            and (small or all(source.as_it_is for source in work.sources))
        )

    def suit(self, accumulator: Accumulator, window: Window) -> bool:
        """Whether a window is folded so."""
        least = self._readers * _LEAST_PIECES * self._piece_bytes
        return (
            self._able
            and window.outputs == 1
            and not window.by_cell
            and not accumulator.uses_index
            and accumulator.nbytes <= _ACCUMULATOR_BYTES
            and sum(part.elements for part in window.parts) * self._itemsize >= least
        )

    def fold(self, accumulator: Accumulator, tuning: Tuning, window: Window) -> list[Partial]:
        """Read a window and fold it into a partial for each thread; raises as `Stream.fold`."""
        ended = threading.Event()
        opened = self._owned.opened
        first, rest = work_shares_of(window, self._readers)
        left = iter(enumerate(rest, len(first)))
        threads = [
            self._kind(
                self._owned,
                self._work,
                # One work-group each, which waits for no core that reads for another.
                Fold(opened, accumulator, tuning, queue=opened.queue(here=True), splits=1),
                itertools.chain([own], left),
                self._piece_bytes,
                ended,
            )
            for own in enumerate(first)
        ]
        read = partial(self._owned.read, self._readers, self._turn)
        futures = [read(thread.run) for thread in threads]
        try:
            self._attend(threads, futures)
        finally:
            ended.set()
            self._totals.settle(futures)
        for thread in threads:
            self._totals.read_s += thread.read_s
            self._totals.decode_s += thread.decode_s
            self._totals.launched(thread.profile, len(threads))
            if accumulator == self._work.accumulator:  # else they were counted before
                self._totals.elements += thread.elements
                self._totals.nbytes += thread.nbytes
        found = {number: done for one in futures for number, done in one.result().items()}
        return [found[number] for number in sorted(found)]

    def _attend(self, threads: Sequence[ThreadFold], futures: Sequence[Future[Numbered]]) -> None:
        """Wait until all are done; see that each goes on."""
        running, folded = set(futures), 0
        while running:
            done, running = wait(running, TELL_EVERY_S, FIRST_EXCEPTION)
            for future in done:
                future.result()
            for late in filter(None, (thread.late() for thread in threads)):
                self._totals.stuck = True
                raise late
            self._totals.check()
            before, folded = folded, sum(thread.elements for thread in threads)
            # Nor is it silence to wait for threads that read for another run.
            waits = not any(one.running() for one in running) and self._owned.shared(self._work.run)
            if folded > before or waits:
                self._totals.tell(sum(thread.nbytes for thread in threads))


Numbered = Mapping[int, Partial]
"""Partials of shares, by their numbers."""


class ThreadFold(ABC):
    """One thread that reads and folds shares, and how far it is."""

    def __init__(
        self,
        owned: WorkerDevice,
        work: Work,
        fold: Fold,
        shares: Iterator[tuple[int, WorkShare]],
        piece_bytes: int,
        ended: threading.Event,
    ) -> None:
        self.elements = self.nbytes = 0
        self.read_s = self.decode_s = 0.0
        self.profile: Profile = {}
        self._doing, self._since = "reading", math.inf
        """What it does, and when it began to."""
        self._begun: deque[Read] = deque()
        """What was begun to be read, and is not folded whole."""
        self._folded = 0
        """Elements that are folded of the first of them."""
        self._owned, self._fold = owned, fold
        self._work, self._sources = work, work.sources
        self._shares, self._piece_bytes = shares, piece_bytes
        self._ended = ended

    def late(self) -> ChunkfoldError | None:
        """Return what to raise if it takes too long for what it does."""
        begun = self._begun.copy()
        if time.monotonic() - self._since <= staging.READ_DEADLINE_S or not begun:
            return None
        kind = ChunkError if self._doing == "reading" else DeviceError
        return kind(overdue(self._sources[0], self._doing, begun[0]))

    def run(self) -> Numbered:
        """Read and fold, share by share, unless it is ended."""
        slot = [self._owned.borrow(self._piece_bytes) for _ in self._sources]
        partials = {}
        for number, share in self._shares:
            if self._ended.is_set():
                break
            self._fold_reads(self._reads(share), slot)
            partials[number] = self._fold.finish()
        self.profile = self._fold.profile()
        self._since = math.inf
        for buffer in slot:
            self._owned.give_back(buffer)
        return partials

    def _reads(self, share: WorkShare) -> Iterator[Read]:
        """Yield what is read of a share, and note that it is begun."""
        for read in reads_of(self._work, share.window, self._read_bytes(share), *share.every):
            self._begun.append(read)
            yield read

    @abstractmethod
    def _read_bytes(self, share: WorkShare) -> int:
        """Return how much of a share is one read, at most."""

    @abstractmethod
    def _fold_reads(self, reads: Iterator[Read], slot: Slot) -> None:
        """Read all that into staging buffers, and fold it, unless it is ended."""

    def _add(self, slot: Slot, box: Box) -> None:
        """Fold what stands in staging memory."""
        self._now("folding")
        ready = committed(self._sources, box.elements, slot)
        event = self._fold.add([one.buffer for one in ready], box)
        if event is not None:
            wait_watched(self._owned.device, event, "folding a piece")
        self.elements += box.elements
        self._folded += box.elements
        while self._begun and self._folded >= self._begun[0].box.elements:
            read = self._begun.popleft()
            self._folded -= read.box.elements
            self.nbytes += read.nbytes

    def _now(self, doing: str) -> None:
        self._doing, self._since = doing, time.monotonic()


class FoldPieces(ThreadFold):
    """Reads pieces of chunks that are stored as they are."""

    def _read_bytes(self, share: WorkShare) -> int:  # noqa: ARG002 # of all alike
        return self._piece_bytes

    def _fold_reads(self, reads: Iterator[Read], slot: Slot) -> None:
        for read in ahead(reads):
            if self._ended.is_set():
                break
            memory = [buffer.begin() for buffer in slot]
            self._now("reading")
            self.read_s += read_staged(self._sources, read, memory).seconds
            self._add(slot, read.box)


class FoldInTurn(ThreadFold):
    """Decodes small chunks in turn, and folds them whenever there is no room for another."""

    def _read_bytes(self, share: WorkShare) -> int:
        # Leaves are read whole, unless they are shared.
        return self._work.leaf_bytes if share.every[1] == 1 else self._piece_bytes

    def _fold_reads(self, reads: Iterator[Read], slot: Slot) -> None:
        # Of as many elements for each input, so that they stop at the same chunks.
        most = self._piece_bytes // max(source.dtype.itemsize for source in self._sources)
        turns = [
            InTurn(buffer.begin()[: most * source.dtype.itemsize].view(source.dtype))
            for source, buffer in zip(self._sources, slot, strict=True)
        ]
        own = itertools.tee(reads, len(turns))
        chunks = [
            source.each(_regions(own[n], n), turn)
            for n, (source, turn) in enumerate(zip(self._sources, turns, strict=True))
        ]
        more = True
        while more and not self._ended.is_set():
            self._now("reading")
            began, decoded = self._since, decode_clock.seconds
            # Each goes on until there is no room, or to the end: all alike.
            more = _END not in [next(decoding, _END) for decoding in chunks]
            self.read_s += time.monotonic() - began
            self.decode_s += decode_clock.seconds - decoded
            if turns[0].used:
                self._add(slot, _run_of(turns[0].used))
            for turn, buffer in zip(turns, slot, strict=True):
                buffer.begin()
                turn.used = 0


def _regions(reads: Iterator[Read], number: int) -> Iterator[Region]:
    """Yield what is read of an input."""
    return ((_slices(read.region), read.known[number]) for read in reads)


def _slices(region: Sequence[Taken]) -> Sequence[slice]:
    """Return a region as it is: what is read in turn has no places."""
    return cast("Sequence[slice]", region)


@lru_cache(maxsize=64)
def _run_of(elements: int) -> Box:
    """Describe so many elements in one run: few of a job's differ."""
    return Box((), (Dim(elements, 1, 1),))


def _chunk_elements(work: Work) -> int:
    """Return the elements of the largest chunk of any input."""
    return max(math.prod(max(1, n) for n in source.chunks) for source in work.sources)

"""Fold on the threads that read: pieces of chunks while they are still in the cache.

The way of few threads and a device that shares their memory, for chunks without codecs: two plain
threads that read pieces of 8 MiB and add them up are nearly twice as fast as two that do so with
chunks of 33 MB, and handing pieces over to another thread would cost what that gains. Of chunks
with codecs, which take three times as long and more, it gained nothing.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from functools import partial

from chunkfold import staged
from chunkfold.errors import ChunkError, ChunkfoldError, DeviceError
from chunkfold.kernels import Accumulator, Fold, Partial, Tuning
from chunkfold.kernels.launch import wait_watched
from chunkfold.kernels.profile import Profile
from chunkfold.reads import Read, Window, reads_of
from chunkfold.staged import committed, overdue, read_staged
from chunkfold.totals import TELL_EVERY_S, Totals
from chunkfold.work import Work
from chunkfold.worker import WorkerDevice

PIECE_BYTES = 8 << 20
"""Read and folded at a time: a cache holds some of them, and what Python does between two of them,
at a cache's misses, is little beside them."""
MOST_STRANDS = 4
"""Beyond, Python's lock, which each holds for some 0.2 ms with every piece, makes them wait: with
PoCL on 16 cores 2 had 1.5 of the ring's speed, 4 had 1.1, 6 had 0.96, 8 had 0.85, 16 had 0.5."""
_ACCUMULATOR_BYTES = 64 << 10
"""Largest accumulator of which every thread has its own."""
_AHEAD = 64
"""Pieces that are found at a time: by itself, between two folds, each took 0.1 ms, not 0.02."""
_LEAST_PIECES = 2
"""Each thread has so many, at least: less is not worth the combine."""


class Strands:
    """The reading threads of a block, where they fold too: each a share that is always the same."""

    def __init__(
        self, owned: WorkerDevice, work: Work, totals: Totals, buffer_bytes: int, turn: int
    ) -> None:
        self._owned, self._work, self._totals = owned, work, totals
        self._readers, self._turn = work.readers_of(owned), turn
        self._itemsize = max(source.dtype.itemsize for source in work.sources)
        self._piece_bytes = min(PIECE_BYTES, buffer_bytes)
        self._able = (
            self._readers <= MOST_STRANDS
            and owned.device.unified_memory
            and all(source.as_it_is and not source.remote for source in work.sources)
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
        """Read a window and fold it into a partial for each strand; raises as `Stream.fold`."""
        ended = threading.Event()
        opened = self._owned.opened
        strands = [
            Strand(
                self._owned,
                self._work,
                # One work-group each, which waits for no core that reads for another.
                Fold(opened, accumulator, tuning, queue=opened.queue(here=True), splits=1),
                window,
                self._piece_bytes,
                (number, self._readers),
                ended,
            )
            for number in range(self._readers)
        ]
        read = partial(self._owned.read, self._readers, self._turn)
        futures = [read(strand.run) for strand in strands]
        try:
            self._attend(strands, futures)
        finally:
            ended.set()
            self._totals.settle(futures)
        for strand in strands:
            self._totals.read_s += strand.read_s
            self._totals.launched(strand.profile, len(strands))
            if accumulator == self._work.accumulator:  # else they were counted before
                self._totals.elements += strand.elements
                self._totals.nbytes += strand.nbytes
        return [future.result() for future in futures]

    def _attend(self, strands: Sequence[Strand], futures: Sequence[Future[Partial]]) -> None:
        """Wait until all are done; see that each goes on."""
        running, folded = set(futures), 0
        while running:
            done, running = wait(running, TELL_EVERY_S, FIRST_EXCEPTION)
            for future in done:
                future.result()
            for late in filter(None, (strand.late() for strand in strands)):
                self._totals.stuck = True
                raise late
            self._totals.check()
            before, folded = folded, sum(strand.elements for strand in strands)
            if folded > before:
                self._totals.tell(sum(strand.nbytes for strand in strands))


class Strand:
    """One thread's share of a window, and how far it is."""

    def __init__(
        self,
        owned: WorkerDevice,
        work: Work,
        fold: Fold,
        window: Window,
        piece_bytes: int,
        share: tuple[int, int],
        ended: threading.Event,
    ) -> None:
        self.elements = self.nbytes = 0
        self.read_s = 0.0
        self.profile: Profile = {}
        self._doing: tuple[str, Read] | None = None
        self._since = math.inf
        """When it began to do that."""
        self._owned, self._work, self._fold = owned, work, fold
        self._window, self._piece_bytes, self._share = window, piece_bytes, share
        self._ended = ended

    def late(self) -> ChunkfoldError | None:
        """Return what to raise if it takes too long for what it does."""
        if time.monotonic() - self._since <= staged.READ_DEADLINE_S or self._doing is None:
            return None
        doing, read = self._doing
        kind = ChunkError if doing == "reading" else DeviceError
        return kind(overdue(self._work.sources[0], doing, read))

    def run(self) -> Partial:
        """Read and fold, piece by piece, unless it is ended."""
        device, sources = self._owned.device, self._work.sources
        slot = [self._owned.borrow(self._piece_bytes) for _ in sources]
        for read in _ahead(reads_of(self._work, self._window, self._piece_bytes, *self._share)):
            if self._ended.is_set():
                break
            memory = [buffer.begin() for buffer in slot]
            self._now("reading", read)
            times = read_staged(sources, read, memory)
            self._now("folding", read)
            ready = committed(sources, read, slot)
            event = self._fold.add([one.buffer for one in ready], read.box)
            if event is not None:
                wait_watched(device, event, "folding a piece")
            self.elements += read.box.elements
            self.nbytes += read.nbytes
            self.read_s += times.seconds
        partial = self._fold.finish()
        self.profile = self._fold.profile()
        self._since = math.inf
        for buffer in slot:
            self._owned.give_back(buffer)
        return partial

    def _now(self, doing: str, read: Read) -> None:
        self._doing, self._since = (doing, read), time.monotonic()


def _ahead(reads: Iterator[Read]) -> Iterator[Read]:
    while found := list(itertools.islice(reads, _AHEAD)):
        yield from found

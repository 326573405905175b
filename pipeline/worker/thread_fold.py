"""One of the threads that share an output box, each reading and folding its shares."""

from __future__ import annotations

import itertools
import math
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple, cast

from chunkfold.decoding.decode_units import InTurn, ahead
from chunkfold.decoding.wanted_chunks import DirectRegion
from chunkfold.errors import ChunkError, ChunkfoldError, DeviceError
from chunkfold.grid import Taken
from chunkfold.kernels import Fold, Partial
from chunkfold.kernels.fold.profile import Profile
from chunkfold.kernels.fold.waiting import wait_watched
from chunkfold.kernels.geometry import Box, Dim
from chunkfold.planning.work import Work
from chunkfold.reading import readers
from chunkfold.reading.readers import StagingSlot, committed, overdue, read_staged
from chunkfold.reading.reads import OutputBox, Read, reads_of
from chunkfold.stores.objects import decode_clock
from chunkfold.worker.worker_device import WorkerDevice

_END = object()
"""Returned by `next` at the end."""
Numbered = Mapping[int, Partial]
"""Partials of shares by number."""
_MANY_LEAVES = 8
"""Least leaves for each thread that are shared whole; fewer are cut, to share evenly."""
_LAST_LEAVES = 2
"""Last leaves for each thread that are not assigned: the next free thread takes the next one."""
_LAST_SHARES = 2
"""Shares of each of the very last leaves, so that threads end at the same time."""


class WorkShare(NamedTuple):
    """The reads of one partial. They do not depend on the thread: results have fixed bits."""

    output_box: OutputBox
    every: tuple[int, int] = (0, 1)
    """The numbers of its reads, as (first, step)."""


def work_shares_of(output_box: OutputBox, threads: int) -> tuple[list[WorkShare], list[WorkShare]]:
    """Return the first share of each thread, and the shares that free threads take then."""
    leaves = output_box.leaves
    if len(leaves) < threads * _MANY_LEAVES:
        return [WorkShare(output_box, (number, threads)) for number in range(threads)], []
    last = len(leaves) - threads * _LAST_LEAVES
    first = [WorkShare(replace(output_box, leaves=leaves[n:last:threads])) for n in range(threads)]
    alone = [replace(output_box, leaves=[leaf]) for leaf in leaves[last:]]
    cut = [
        WorkShare(leaf, (n, _LAST_SHARES)) for leaf in alone[-threads:] for n in range(_LAST_SHARES)
    ]
    return first, [*map(WorkShare, alone[:-threads]), *cut]


class ThreadFold(ABC):
    """One thread that reads and folds shares, and its progress."""

    def __init__(
        self,
        worker_device: WorkerDevice,
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
        """The current step, and its start."""
        self._begun: deque[Read] = deque()
        """Reads that have begun, and are not folded whole."""
        self._folded = 0
        """Number of folded elements of the first of them."""
        self._worker_device, self._fold = worker_device, fold
        self._work, self._sources = work, work.scan.sources
        self._shares, self._piece_bytes = shares, piece_bytes
        self._ended = ended

    def late(self) -> ChunkfoldError | None:
        """Return the error to raise if the current step takes too long."""
        begun = self._begun.copy()
        if time.monotonic() - self._since <= readers.READ_DEADLINE_S or not begun:
            return None
        kind = ChunkError if self._doing == "reading" else DeviceError
        return kind(overdue(self._sources[0], self._doing, begun[0]))

    def run(self) -> Numbered:
        """Read and fold share by share, until `ended` is set."""
        slot = [self._worker_device.memory.borrow(self._piece_bytes) for _ in self._sources]
        partials = {}
        for number, share in self._shares:
            if self._ended.is_set():
                break
            self._fold_reads(self._reads(share), slot)
            partials[number] = self._fold.read_back()
        self.profile = self._fold.profile()
        self._since = math.inf
        if not self._ended.is_set():  # else it may hold what was never finished
            self._worker_device.memory.give_back_fold(self._fold)
        for buffer in slot:
            self._worker_device.memory.give_back(buffer)
        return partials

    def _reads(self, share: WorkShare) -> Iterator[Read]:
        """Yield the reads of a share, and note that they have begun."""
        for read in reads_of(self._work, share.output_box, self._read_bytes(share), *share.every):
            self._begun.append(read)
            yield read

    @abstractmethod
    def _read_bytes(self, share: WorkShare) -> int:
        """Return the most bytes of one read of a share."""

    @abstractmethod
    def _fold_reads(self, reads: Iterator[Read], slot: StagingSlot) -> None:
        """Read into staging buffers and fold, until `ended` is set."""

    def _add(self, slot: StagingSlot, box: Box) -> None:
        """Fold the elements in staging memory."""
        self._now("folding")
        ready = committed(self._sources, box.elements, slot)
        event = self._fold.add([one.buffer for one in ready], box)
        if event is not None:
            wait_watched(self._worker_device.device, event, "folding a piece")
        self.elements += box.elements
        self._folded += box.elements
        while self._begun and self._folded >= self._begun[0].box.elements:
            read = self._begun.popleft()
            self._folded -= read.box.elements
            self.nbytes += read.nbytes

    def _now(self, doing: str) -> None:
        self._doing, self._since = doing, time.monotonic()


class FoldPieces(ThreadFold):
    """Reads and folds pieces of chunks without codecs."""

    def _read_bytes(self, share: WorkShare) -> int:  # noqa: ARG002 # the same for all
        return self._piece_bytes

    def _fold_reads(self, reads: Iterator[Read], slot: StagingSlot) -> None:
        for read in ahead(reads):
            if self._ended.is_set():
                break
            for buffer in slot:
                buffer.ready()
            self._now("reading")
            self.read_s += read_staged(self._sources, read, slot).seconds
            self._add(slot, read.box)


class FoldInTurn(ThreadFold):
    """Decodes small chunks one behind another, and folds them when the memory is full."""

    def _read_bytes(self, share: WorkShare) -> int:
        # Leaves are read whole, unless threads share them.
        return self._work.scan.leaf_bytes if share.every[1] == 1 else self._piece_bytes

    def _fold_reads(self, reads: Iterator[Read], slot: StagingSlot) -> None:
        # The same number of elements for each input: all stop at the same chunks.
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
            # Each goes on until its memory is full, or to the end: all at the same chunk.
            more = _END not in [next(decoding, _END) for decoding in chunks]
            self.read_s += time.monotonic() - began
            self.decode_s += decode_clock.seconds - decoded
            if turns[0].used:
                self._add(slot, _run_of(turns[0].used))
            for turn, buffer in zip(turns, slot, strict=True):
                buffer.begin()
                turn.used = 0


def _regions(reads: Iterator[Read], number: int) -> Iterator[DirectRegion]:
    """Yield the regions of an input, with their listings."""
    return ((_slices(read.region), read.known[number]) for read in reads)


def _slices(region: Sequence[Taken]) -> Sequence[slice]:
    """Return a region as slices: reads in turn have no lists of places."""
    return cast("Sequence[slice]", region)


@lru_cache(maxsize=64)
def _run_of(elements: int) -> Box:
    """Return the box of `elements` elements in one run."""
    return Box((), (Dim(elements, 1, 1),))

"""One thread that reads and folds shares of an output box: small chunks in turn, or pieces."""

from __future__ import annotations

import itertools
import math
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import cast

from chunkfold.decoding.decode_units import InTurn, ahead
from chunkfold.decoding.direct import DirectRegion
from chunkfold.errors import ChunkError, ChunkfoldError, DeviceError
from chunkfold.grid import Taken
from chunkfold.kernels import Fold, Partial
from chunkfold.kernels.fold.profile import Profile
from chunkfold.kernels.fold.waiting import wait_watched
from chunkfold.kernels.geometry import Box, Dim
from chunkfold.planning.work import Work
from chunkfold.reading import staging
from chunkfold.reading.reads import Read, reads_of
from chunkfold.reading.staging import StagingSlot, committed, overdue, read_staged
from chunkfold.reading.work_shares import WorkShare
from chunkfold.stores.objects import decode_clock
from chunkfold.worker.worker_device import WorkerDevice

_END = object()
"""What `next` returns behind the last stop."""
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
        for read in reads_of(self._work, share.output_box, self._read_bytes(share), *share.every):
            self._begun.append(read)
            yield read

    @abstractmethod
    def _read_bytes(self, share: WorkShare) -> int:
        """Return how much of a share is one read, at most."""

    @abstractmethod
    def _fold_reads(self, reads: Iterator[Read], slot: StagingSlot) -> None:
        """Read all that into staging buffers, and fold it, unless it is ended."""

    def _add(self, slot: StagingSlot, box: Box) -> None:
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
    """Decodes small chunks in turn, and folds them whenever there is no room for another."""

    def _read_bytes(self, share: WorkShare) -> int:
        # Leaves are read whole, unless they are shared.
        return self._work.leaf_bytes if share.every[1] == 1 else self._piece_bytes

    def _fold_reads(self, reads: Iterator[Read], slot: StagingSlot) -> None:
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


def _regions(reads: Iterator[Read], number: int) -> Iterator[DirectRegion]:
    """Yield what is read of an input."""
    return ((_slices(read.region), read.known[number]) for read in reads)


def _slices(region: Sequence[Taken]) -> Sequence[slice]:
    """Return a region as it is: what is read in turn has no places."""
    return cast("Sequence[slice]", region)


@lru_cache(maxsize=64)
def _run_of(elements: int) -> Box:
    """Describe so many elements in one run: few of a job's differ."""
    return Box((), (Dim(elements, 1, 1),))

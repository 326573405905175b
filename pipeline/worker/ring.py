"""Fold leaves as they come: readers fill a ring of staging buffers while the device folds others.

The way of devices with memory of their own, and of arrays that threads wait for.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import NamedTuple

import pyopencl as cl

from chunkfold.errors import ChunkError
from chunkfold.kernels import Accumulator, Fold, KeyedFold, Partial, Tuning
from chunkfold.kernels.accumulator.sums import Rounded, Rounding
from chunkfold.kernels.fold.launch import Input
from chunkfold.kernels.fold.levels import Levels, LevelsFold
from chunkfold.kernels.fold.selection import RankSelection
from chunkfold.planning.leaf_extremes import ExtremesFound
from chunkfold.planning.memory import OPEN_BYTES, ring_slots
from chunkfold.planning.tiles import Combine
from chunkfold.planning.work import Work
from chunkfold.reading import staging
from chunkfold.reading.reads import OutputBox, Read, reads_of
from chunkfold.reading.staging import ReadTimes, StagingSlot, committed, overdue, read_staged
from chunkfold.worker.beside import Beside
from chunkfold.worker.kept_elements import keeping, with_chosen
from chunkfold.worker.level_fold import LevelArrays, LevelFold
from chunkfold.worker.question_folds import QuestionFold, QuestionFolds
from chunkfold.worker.totals import TELL_EVERY_S, Totals
from chunkfold.worker.worker_device import WorkerDevice

_kept_for_good: list[StagingSlot] = []
"""Slots that a reader which never came back may still write to."""


class _Underway(NamedTuple):
    output_box: OutputBox
    read: Read
    slot: StagingSlot
    future: Future[ReadTimes]


class Ring:
    """The ring of staging buffers of one block.

    Parameters
    ----------
    output_boxes
        Those that `fold` will be asked for, in that order: while one ends the next are read. It may
        be asked for others in between.
    """

    def __init__(
        self,
        owned: WorkerDevice,
        work: Work,
        totals: Totals,
        buffer_bytes: int,
        priority: int,
        output_boxes: Iterable[OutputBox],
        combine: Combine,
    ) -> None:
        self._levels: LevelsFold | None = None
        self._owned, self._work, self._totals = owned, work, totals
        self._buffer_bytes = buffer_bytes
        self._queue = owned.opened.queue()
        room = OPEN_BYTES // max(1, len(work.folded_beside))
        self.beside = [
            Beside(owned, one, work.layout, self._queue, totals, combine, buffer_bytes, room)
            for one in work.folded_beside
        ]
        """What answers other questions of what is read."""
        self.extremes = ExtremesFound(work.layout) if work.extremes else None
        self._folds = QuestionFolds(owned, work, self._queue, combine)
        self._free: deque[StagingSlot] = deque()
        self._readers, self._priority = owned.readers_for(work), priority
        self._made, self._most = 0, ring_slots(self._readers)
        self._underway: deque[_Underway] = deque()
        """Reads that were given to readers."""
        self._put_off: deque[tuple[OutputBox, Read]] = deque()
        """Reads that come before those that are foreseen."""
        self._foreseen = self._all_of(output_boxes)
        self._given_up: OutputBox | None = None

    def fold(self, accumulator: Accumulator, tuning: Tuning, output_box: OutputBox) -> Partial:
        """Read a box of outputs and fold it; see `Way`."""
        fold = self._folds.begin(accumulator, tuning, output_box.outputs)
        keeps = accumulator == self._work.accumulator  # else they were chosen before
        kept = keeping(self._owned, self._work, output_box.outputs, self._queue) if keeps else {}
        partial = self._folded(fold, output_box, kept)
        assert isinstance(partial, Partial)
        return with_chosen(self._work, partial, kept)

    def fold_rounded(
        self, how: Sequence[Rounding], tuning: Tuning, output_box: OutputBox
    ) -> Rounded | Partial:
        """Read a box of outputs, fold it, and round its results on the device, if it can."""
        fold = self._folds.begin(self._work.accumulator, tuning, output_box.outputs)
        found = self._folded(fold, output_box, {}, how)
        assert isinstance(found, Rounded | Partial)
        return found

    def fold_levels(
        self, levels: Levels, tuning: Tuning, output_box: OutputBox, shape: Sequence[int]
    ) -> LevelArrays | Partial:
        """Read a box of outputs of one read, of a shape, and make levels of it, or else fold it."""
        if self._levels is None:
            self._levels = LevelsFold(self._owned.opened, levels, self._queue)
        accumulator = self._work.accumulator

        def begin() -> Fold:
            return Fold(self._owned.opened, accumulator, tuning, output_box.outputs, self._queue)

        fold = LevelFold(accumulator, self._levels, begin, shape)
        found = self._folded(fold, output_box, {})
        assert not isinstance(found, Rounded)
        return found

    def _folded(
        self,
        fold: QuestionFold | LevelFold,
        output_box: OutputBox,
        kept: Mapping[int, RankSelection],
        how: Sequence[Rounding] = (),
    ) -> LevelArrays | Partial | Rounded:
        unforeseen: Iterator[tuple[OutputBox, Read]] = iter(())
        if not self._comes_next(output_box):
            self._withdraw()
            unforeseen = self._all_of([output_box])
        try:
            while True:
                self._read_on(unforeseen)
                if not self._underway or self._underway[0].output_box is not output_box:
                    break
                self._consume(fold, kept.values(), *self._underway[0])
                self._underway.popleft()
            if how and isinstance(fold, Fold | KeyedFold):
                done: LevelArrays | Partial | Rounded = fold.rounded(how)
            else:
                done = fold.finish()
        except BaseException:
            self._withdraw()
            self._put_off = deque(one for one in self._put_off if one[0] is not output_box)
            self._given_up = output_box
            raise
        self._totals.launched(fold.profile())
        return done

    def close(self) -> None:
        """Wait for readers, and for the device to let go of the buffers."""
        self._withdraw()
        for buffer in itertools.chain.from_iterable(self._free):
            buffer.drain()
            self._totals.upload_s += buffer.uploaded_s()
            self._owned.give_back(buffer)

    def _all_of(self, output_boxes: Iterable[OutputBox]) -> Iterator[tuple[OutputBox, Read]]:
        for output_box in output_boxes:
            for read in reads_of(self._work, output_box, self._buffer_bytes):
                if output_box is self._given_up:
                    break
                yield output_box, read

    def _comes_next(self, output_box: OutputBox) -> bool:
        """Whether a box of outputs is the one that is read now, or would be."""
        if self._underway:
            return self._underway[0].output_box is output_box
        if not self._put_off:
            self._put_off.extend(itertools.islice(self._foreseen, 1))
        return bool(self._put_off) and self._put_off[0][0] is output_box

    def _read_on(self, unforeseen: Iterator[tuple[OutputBox, Read]]) -> None:
        """Give readers as much to do as there are buffers for."""
        while len(self._underway) < self._most - 2:
            found = next(unforeseen, None)
            if found is None:
                found = self._put_off.popleft() if self._put_off else next(self._foreseen, None)
            if found is None:
                return
            output_box, read = found
            slot = self._slot()
            for buffer in slot:
                buffer.ready()
            task = partial(
                read_staged,
                self._work.sources,
                read,
                slot,
                ranged=self.extremes is not None and self.extremes.wanted,
                on_device=self._work.decodes_on_device,
            )
            future = self._owned.read(self._readers, self._priority, task)
            self._underway.append(_Underway(output_box, read, slot, future))

    def _withdraw(self) -> None:
        """Put reads off that are under way: no buffer is used while a reader fills it."""
        running = self._totals.settle([one.future for one in self._underway])
        for one in self._underway:
            (_kept_for_good if one.future in running else self._free).append(one.slot)
        self._put_off.extendleft((one.output_box, one.read) for one in reversed(self._underway))
        self._underway.clear()

    def _slot(self) -> StagingSlot:
        """Return a slot that is free, or will be when its last fold is done."""
        if self._made < self._most:
            self._made += 1
            return tuple(self._owned.borrow(self._buffer_bytes) for _ in self._work.sources)
        return self._free.popleft()

    def _consume(
        self,
        fold: QuestionFold | LevelFold,
        kept: Iterable[RankSelection],
        output_box: OutputBox,
        read: Read,
        slot: StagingSlot,
        future: Future[ReadTimes],
    ) -> None:
        """Fold what a reader has brought, and free its slot."""
        self._totals.check()
        self._totals.tell()
        counts = fold.accumulator == self._work.accumulator  # else they were counted before
        try:
            times = self._read(read, future)
        except ChunkError as error:
            if self._totals.stuck or error.chunk is None or not output_box.by_cell:
                raise
            if counts:
                skipped, chunk = self._totals.skipped, error.chunk
                skipped[chunk] = skipped.get(chunk, 0) + read.box.elements
            self._free.append(slot)
            return
        self._totals.read_s += times.seconds
        self._totals.decode_s += times.decoding
        ready = committed(self._work.sources, read.box.elements, slot)
        uploads = [event for one in ready for event in one.events]
        inputs = self._folds.inputs([one.buffer for one in ready])
        if isinstance(fold, Fold | LevelFold):
            event = fold.add(inputs, read.box, uploads)
        else:
            event = self._folds.add(fold, inputs, read.told, uploads)
        for one in kept:
            assert read.kept is not None
            event = one.add(inputs, *read.kept, wait_for=uploads)
        if counts:
            event = self._added_beside(inputs, read, uploads) or event
        for buffer in slot:
            buffer.busy_until(event)
        self._free.append(slot)
        if counts:
            if self.extremes is not None and times.extremes is not None:
                self.extremes.add(read.leaf, *times.extremes, read.box.elements)
            self._totals.elements += read.box.elements
            self._totals.nbytes += read.nbytes

    def _added_beside(
        self, inputs: Sequence[Input], read: Read, uploads: Sequence[cl.Event]
    ) -> cl.Event | None:
        """Enqueue the folds for other questions; return the last."""
        event = None
        for other in self.beside:
            event = other.add(inputs[: len(self._work.sources)], read, uploads) or event
        return event

    def _read(self, read: Read, future: Future[ReadTimes]) -> ReadTimes:
        """Wait for a reader: as long as it takes to begin, and then until its deadline."""
        begun: float | None = None
        while not future.done():
            wait([future], TELL_EVERY_S)
            self._totals.check()
            if begun is None and future.running():
                begun = time.monotonic()
            elif begun is None and self._owned.shared(self._work.run):
                self._totals.tell()  # to wait for threads that read for another run is no silence
            if begun is not None and time.monotonic() - begun > staging.READ_DEADLINE_S:
                self._totals.stuck = True
                raise ChunkError(overdue(self._work.sources[0], "reading", read))
        return future.result()

"""Readers fill a ring of staging buffers while the device folds other ones.

Devices with their own memory, several outputs, keys, and arrays behind a network fold so; see
`per_thread` for the other way.
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
from chunkfold.planning.tile_finishing import Combine
from chunkfold.planning.work import Work
from chunkfold.reading import readers
from chunkfold.reading.readers import ReadTimes, StagingSlot, committed, overdue, read_staged
from chunkfold.reading.reads import OutputBox, Read, reads_of
from chunkfold.worker.level_fold import LevelArrays, LevelFold
from chunkfold.worker.question_folds import QuestionFold, QuestionFolds
from chunkfold.worker.secondary import SecondaryFolds
from chunkfold.worker.totals import REPORT_EVERY_S, Totals
from chunkfold.worker.worker_device import WorkerDevice

_kept_for_good: list[StagingSlot] = []
"""Slots that a reader which never came back may still fill: never freed."""


class _InFlight(NamedTuple):
    """A read that was given to a reader."""

    output_box: OutputBox
    read: Read
    slot: StagingSlot
    future: Future[ReadTimes]


class Ring:
    """The ring of staging buffers of one block.

    Parameters
    ----------
    output_boxes
        The boxes that `fold` will be called with, in this order: while one ends the next are read.
        `fold` may be called with others in between.
    """

    def __init__(
        self,
        worker_device: WorkerDevice,
        work: Work,
        totals: Totals,
        buffer_bytes: int,
        priority: int,
        output_boxes: Iterable[OutputBox],
        combine: Combine,
    ) -> None:
        self._levels: LevelsFold | None = None
        self._worker_device, self._work, self._totals = worker_device, work, totals
        self._scan, self._accumulator = work.scan, work.first.accumulator
        self._buffer_bytes = buffer_bytes
        self._queue = worker_device.opened.queue()
        open_bytes = OPEN_BYTES // max(1, len(work.folded_secondary))
        self.secondary = [
            SecondaryFolds(
                worker_device,
                work.alone(one),
                work.first.layout,
                self._queue,
                totals,
                combine,
                buffer_bytes,
                open_bytes,
            )
            for one in work.folded_secondary
        ]
        """Folds of the same reads for secondary questions."""
        self.extremes = ExtremesFound(work.first.layout) if work.scan.finds_extremes else None
        self._folds = QuestionFolds(
            worker_device, work.first, work.scan.variant, self._queue, combine
        )
        self._free: deque[StagingSlot] = deque()
        self._readers, self._priority = worker_device.readers_for(work.scan), priority
        self._made, self._most = 0, ring_slots(self._readers)
        self._in_flight: deque[_InFlight] = deque()
        """Reads that readers have, in the order of their folds."""
        self._deferred: deque[tuple[OutputBox, Read]] = deque()
        """Reads that come before the planned ones."""
        self._planned = self._all_of(output_boxes)
        self._given_up: OutputBox | None = None

    def fold(self, accumulator: Accumulator, tuning: Tuning, output_box: OutputBox) -> Partial:
        """Read a box of outputs and fold it; see `FoldWay`."""
        fold = self._folds.begin(accumulator, tuning, output_box.outputs)
        keeps = accumulator == self._accumulator  # else the first fold chose them
        kept = self._folds.rank_selections(output_box.outputs) if keeps else {}
        partial = self._folded(fold, output_box, kept)
        assert isinstance(partial, Partial)
        return self._folds.with_chosen(partial, kept)

    def fold_rounded(
        self, how: Sequence[Rounding], tuning: Tuning, output_box: OutputBox
    ) -> Rounded | Partial:
        """Read a box of outputs, fold it, and round its results on the device, if it can."""
        fold = self._folds.begin(self._accumulator, tuning, output_box.outputs)
        found = self._folded(fold, output_box, {}, how)
        assert isinstance(found, Rounded | Partial)
        return found

    def fold_levels(
        self, levels: Levels, tuning: Tuning, output_box: OutputBox, shape: Sequence[int]
    ) -> LevelArrays | Partial:
        """Read a box of outputs of one read, of a shape, and make its levels, or else fold it."""
        opened, accumulator = self._worker_device.opened, self._accumulator
        if self._levels is None:
            self._levels = LevelsFold(opened, levels, self._queue)

        def begin() -> Fold:
            return Fold(opened, accumulator, tuning, output_box.outputs, self._queue)

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
        unplanned: Iterator[tuple[OutputBox, Read]] = iter(())
        if not self._comes_next(output_box):
            self._withdraw()
            unplanned = self._all_of([output_box])
        try:
            while True:
                self._read_on(unplanned)
                if not self._in_flight or self._in_flight[0].output_box is not output_box:
                    break
                self._consume(fold, kept.values(), *self._in_flight[0])
                self._in_flight.popleft()
            if how and isinstance(fold, Fold | KeyedFold):
                done: LevelArrays | Partial | Rounded = fold.rounded(how)
            else:
                done = fold.read_back()
        except BaseException:
            self._withdraw()
            self._deferred = deque(one for one in self._deferred if one[0] is not output_box)
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
            self._worker_device.memory.give_back(buffer)

    def _all_of(self, output_boxes: Iterable[OutputBox]) -> Iterator[tuple[OutputBox, Read]]:
        for output_box in output_boxes:
            for read in reads_of(self._work, output_box, self._buffer_bytes):
                if output_box is self._given_up:
                    break
                yield output_box, read

    def _comes_next(self, output_box: OutputBox) -> bool:
        """Return whether a box of outputs is the one that is read now, or the next one."""
        if self._in_flight:
            return self._in_flight[0].output_box is output_box
        if not self._deferred:
            self._deferred.extend(itertools.islice(self._planned, 1))
        return bool(self._deferred) and self._deferred[0][0] is output_box

    def _read_on(self, unplanned: Iterator[tuple[OutputBox, Read]]) -> None:
        """Give readers a read for each free buffer."""
        while len(self._in_flight) < self._most - 2:
            found = next(unplanned, None)
            if found is None:
                found = self._deferred.popleft() if self._deferred else next(self._planned, None)
            if found is None:
                return
            output_box, read = found
            slot = self._slot()
            for buffer in slot:
                buffer.ready()
            task = partial(
                read_staged,
                self._scan.sources,
                read,
                slot,
                ranged=self.extremes is not None and self.extremes.wanted,
                on_device=self._scan.decodes_on_device,
            )
            future = self._worker_device.read(self._readers, self._priority, task)
            self._in_flight.append(_InFlight(output_box, read, slot, future))

    def _withdraw(self) -> None:
        """Defer reads in flight: no buffer is used while a reader fills it."""
        running = self._totals.settle([one.future for one in self._in_flight])
        for one in self._in_flight:
            (_kept_for_good if one.future in running else self._free).append(one.slot)
        self._deferred.extendleft((one.output_box, one.read) for one in reversed(self._in_flight))
        self._in_flight.clear()

    def _slot(self) -> StagingSlot:
        """Return a slot whose last fold is done or will be."""
        if self._made < self._most:
            self._made += 1
            return tuple(
                self._worker_device.memory.borrow(self._buffer_bytes) for _ in self._scan.sources
            )
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
        """Fold the read of a reader, and free its slot."""
        self._totals.check()
        self._totals.report_progress()
        counts = fold.accumulator == self._accumulator  # else the first fold counted them
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
        ready = committed(self._scan.sources, read.box.elements, slot)
        uploads = [event for one in ready for event in one.events]
        inputs = self._folds.inputs([one.buffer for one in ready])
        if isinstance(fold, Fold | LevelFold):
            event = fold.add(inputs, read.box, uploads)
        else:
            event = self._folds.add(fold, inputs, read.fold_input, uploads)
        for one in kept:
            assert read.kept is not None
            event = one.add(inputs, *read.kept, wait_for=uploads)
        if counts:
            event = self._add_secondary(inputs, read, uploads) or event
        for buffer in slot:
            buffer.busy_until(event)
        self._free.append(slot)
        if counts:
            if self.extremes is not None and times.extremes is not None:
                self.extremes.add(read.leaf, *times.extremes, read.box.elements)
            self._totals.elements += read.box.elements
            self._totals.nbytes += read.nbytes

    def _add_secondary(
        self, inputs: Sequence[Input], read: Read, uploads: Sequence[cl.Event]
    ) -> cl.Event | None:
        """Enqueue the folds of secondary questions; return the last event."""
        event = None
        for other in self.secondary:
            event = other.add(inputs[: len(self._scan.sources)], read, uploads) or event
        return event

    def _read(self, read: Read, future: Future[ReadTimes]) -> ReadTimes:
        """Wait for a reader: without a deadline until it begins, and then until its deadline."""
        begun: float | None = None
        while not future.done():
            wait([future], REPORT_EVERY_S)
            self._totals.check()
            if begun is None and future.running():
                begun = time.monotonic()
            elif begun is None and self._worker_device.shared(self._scan.run):
                self._totals.report_progress()  # readers of another run keep this one waiting
            if begun is not None and time.monotonic() - begun > readers.READ_DEADLINE_S:
                self._totals.stuck = True
                raise ChunkError(overdue(self._scan.sources[0], "reading", read))
        return future.result()

"""Fold leaves as they come: readers fill a ring of staging buffers while the device folds others.

The way of devices with memory of their own, and of arrays that threads wait for.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from dataclasses import replace
from typing import NamedTuple

from chunkfold.errors import ChunkError
from chunkfold.kernels import Accumulator, Fold, KeyedFold, Partial, Tuning
from chunkfold.kernels.fold.numbering import KERNELS, Numbering
from chunkfold.kernels.fold.selection import Selection
from chunkfold.kernels.geometry import CHOOSE
from chunkfold.kernels.program.shared_layout import with_components
from chunkfold.planning.group_keys import DeviceKeys, Keys
from chunkfold.planning.keeping import depth_of
from chunkfold.planning.memory import ring_slots
from chunkfold.planning.work import Work
from chunkfold.reading import staging
from chunkfold.reading.reads import Read, Window, reads_of
from chunkfold.reading.staging import ReadTimes, Slot, committed, overdue, read_staged
from chunkfold.worker.totals import TELL_EVERY_S, Totals
from chunkfold.worker.worker_device import WorkerDevice

_kept_for_good: list[Slot] = []
"""Slots that a reader which never came back may still write to."""


class _Underway(NamedTuple):
    window: Window
    read: Read
    slot: Slot
    future: Future[ReadTimes]


class Ring:
    """The ring of staging buffers of one block.

    Parameters
    ----------
    windows
        Those that `fold` will be asked for, in that order: while one ends the next are read. It may
        be asked for others in between.
    """

    def __init__(
        self,
        owned: WorkerDevice,
        work: Work,
        totals: Totals,
        buffer_bytes: int,
        turn: int,
        windows: Iterable[Window],
    ) -> None:
        self._owned, self._work, self._totals = owned, work, totals
        self._buffer_bytes = buffer_bytes
        self._queue = owned.opened.queue()
        self._keys = DeviceKeys(owned.opened, work.keys) if isinstance(work.keys, Keys) else None
        self._numbering: Numbering | None = None
        if work.numbering is not None:
            tuning = owned.tuning(work.numbering, work.variant, KERNELS)
            self._numbering = Numbering(owned.opened, work.numbering, tuning, self._queue)
        self._held = [one.upload(owned.opened) for one in work.held]
        self._free: deque[Slot] = deque()
        self._readers, self._turn = owned.readers_for(work), turn
        self._made, self._most = 0, ring_slots(self._readers)
        self._underway: deque[_Underway] = deque()
        """Reads that were given to readers."""
        self._put_off: deque[tuple[Window, Read]] = deque()
        """Reads that come before those that are foreseen."""
        self._foreseen = self._all_of(windows)
        self._given_up: Window | None = None

    def fold(self, accumulator: Accumulator, tuning: Tuning, window: Window) -> Partial:
        """Read a window and fold it; raises as `Stream.fold`."""
        fold = self._begun(accumulator, tuning, window.outputs)
        keeps = accumulator == self._work.accumulator  # else they were chosen before
        kept = self._kept_for(window.outputs) if keeps else {}
        unforeseen: Iterator[tuple[Window, Read]] = iter(())
        if not self._comes_next(window):
            self._withdraw()
            unforeseen = self._all_of([window])
        try:
            while True:
                self._read_on(unforeseen)
                if not self._underway or self._underway[0].window is not window:
                    break
                self._consume(fold, kept.values(), *self._underway[0])
                self._underway.popleft()
            partial = self._chosen(fold.finish(), kept)
        except BaseException:
            self._withdraw()
            self._put_off = deque(one for one in self._put_off if one[0] is not window)
            self._given_up = window
            raise
        self._totals.launched(fold.profile())
        return partial

    def _begun(self, accumulator: Accumulator, tuning: Tuning, outputs: int) -> Fold | KeyedFold:
        opened, groups = self._owned.opened, self._work.groups
        if self._work.keys is None:
            return Fold(opened, accumulator, tuning, outputs, self._queue)
        return KeyedFold(opened, accumulator, tuning, groups, outputs, self._queue)

    def _kept_for(self, outputs: int) -> dict[int, Selection]:
        """Return what keeps elements of so many outputs, by the component that folds their keys."""
        work, made = self._work, dict[int, Selection]()
        for number in {one.component for one in work.choosers}:
            keys = with_components(work.accumulator, (number,))
            tuning = self._owned.tuning(keys, work.variant, {"columns", CHOOSE})
            made[number] = Selection(
                self._owned.opened,
                keys,
                tuning,
                outputs,
                depth_of(work.layout),
                self._queue,
                work.groups_of_rows,
                work.groups,
            )
        return made

    def _chosen(self, partial: Partial, kept: Mapping[int, Selection]) -> Partial:
        """Choose elements of each output, where these were kept."""
        if not kept:
            return partial
        found = {
            one.name: kept[one.component].chosen(one.wanted(partial)) for one in self._work.choosers
        }
        return replace(partial, chosen=found)

    def close(self) -> None:
        """Wait for readers, and for the device to let go of the buffers."""
        self._withdraw()
        for buffer in itertools.chain.from_iterable(self._free):
            buffer.drain()
            self._totals.upload_s += buffer.uploaded_s()
            self._owned.give_back(buffer)

    def _all_of(self, windows: Iterable[Window]) -> Iterator[tuple[Window, Read]]:
        for window in windows:
            for read in reads_of(self._work, window, self._buffer_bytes):
                if window is self._given_up:
                    break
                yield window, read

    def _comes_next(self, window: Window) -> bool:
        """Whether a window is the one that is read now, or would be."""
        if self._underway:
            return self._underway[0].window is window
        if not self._put_off:
            self._put_off.extend(itertools.islice(self._foreseen, 1))
        return bool(self._put_off) and self._put_off[0][0] is window

    def _read_on(self, unforeseen: Iterator[tuple[Window, Read]]) -> None:
        """Give readers as much to do as there are buffers for."""
        while len(self._underway) < self._most - 2:
            found = next(unforeseen, None)
            if found is None:
                found = self._put_off.popleft() if self._put_off else next(self._foreseen, None)
            if found is None:
                return
            window, read = found
            slot = self._slot()
            memory = [buffer.begin() for buffer in slot]
            future = self._owned.read(
                self._readers, self._turn, read_staged, self._work.sources, read, memory
            )
            self._underway.append(_Underway(window, read, slot, future))

    def _withdraw(self) -> None:
        """Put reads off that are under way: no buffer is used while a reader fills it."""
        running = self._totals.settle([one.future for one in self._underway])
        for one in self._underway:
            (_kept_for_good if one.future in running else self._free).append(one.slot)
        self._put_off.extendleft((one.window, one.read) for one in reversed(self._underway))
        self._underway.clear()

    def _slot(self) -> Slot:
        """Return a slot that is free, or will be when its last fold is done."""
        if self._made < self._most:
            self._made += 1
            return tuple(self._owned.borrow(self._buffer_bytes) for _ in self._work.sources)
        return self._free.popleft()

    def _consume(
        self,
        fold: Fold | KeyedFold,
        kept: Iterable[Selection],
        window: Window,
        read: Read,
        slot: Slot,
        future: Future[ReadTimes],
    ) -> None:
        """Fold what a reader has brought, and free its slot."""
        self._totals.check()
        self._totals.tell()
        counts = fold.accumulator == self._work.accumulator  # else they were counted before
        try:
            times = self._read(read, future)
        except ChunkError as error:
            if self._totals.stuck or error.chunk is None or not window.by_cell:
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
        inputs = [*(one.buffer for one in ready), *self._held]
        if isinstance(fold, KeyedFold):
            assert read.keyed is not None
            layout, place = read.keyed
            if self._numbering is not None:
                keys = self._numbering.of(inputs[0], read.shape, uploads)
            else:
                assert self._keys is not None
                keys = self._keys.at(place)
            event = fold.add(inputs, keys, layout, wait_for=uploads)
        else:
            event = fold.add(inputs, read.box, wait_for=uploads)
        for one in kept:
            assert read.kept is not None
            event = one.add(inputs, *read.kept, wait_for=uploads)
        for buffer in slot:
            buffer.busy_until(event)
        self._free.append(slot)
        if counts:
            self._totals.elements += read.box.elements
            self._totals.nbytes += read.nbytes

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

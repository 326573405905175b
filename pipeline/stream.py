"""Stream leaves through a device: readers fill a ring of staging buffers while it folds others."""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, replace

import numpy as np

from chunkfold.blocks import Block
from chunkfold.errors import CancelledError, ChunkError
from chunkfold.grid import Piece, slabs
from chunkfold.kernels import Accumulator, Box, Fold, Partial
from chunkfold.kernels.partial import assembled
from chunkfold.kernels.power import powers
from chunkfold.kernels.profile import Profile, merged
from chunkfold.kernels.staging import StagingBuffer
from chunkfold.kernels.sums import any_lost, restored
from chunkfold.layout import Layout
from chunkfold.planning import AGAIN_BYTES, ring
from chunkfold.work import Watch, Work
from chunkfold.worker import WorkerDevice

READ_DEADLINE_S = 600.0
"""Longest wait for one leaf to be read and decoded, in seconds."""
PROGRESS_EVERY_S = 0.25
_kept_for_good: list[Slot] = []
"""Slots that a reader which never came back may still write to."""


@dataclass(frozen=True)
class _Read:
    """A box of a leaf that one reader brings into a slot."""

    region: tuple[slice, ...]
    shape: tuple[int, ...]
    box: Box
    absent: bool
    """Whether nothing of it is stored."""


Slot = tuple[StagingBuffer, ...]
"""A place in the ring: one staging buffer per input."""
Parts = Mapping[int, bool]
"""Parts of a tile, in the order they are folded, and whether nothing of them is stored."""


@dataclass(frozen=True)
class _Window:
    """A box of a tile's outputs, and what is folded into them."""

    tile: int
    parts: Parts
    place: tuple[slice, ...]
    """The box, along the kept axes."""
    by_cell: bool = False
    """Whether to read cell by cell, and leave out those that cannot be read."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(along.stop - along.start for along in self.place)

    def within(self, inner: tuple[slice, ...]) -> _Window:
        """Return a part of it."""
        return replace(self, place=_shifted(self.place, inner))


class Stream:
    """The ring of staging buffers of one block, its readers, and what they have counted."""

    def __init__(self, owned: WorkerDevice, work: Work, watch: Watch) -> None:
        self.elements = 0
        self.nbytes = 0
        self.read_s = 0.0
        self.skipped: dict[str, int] = {}
        """Elements left out, by what was wrong with their chunks."""
        self._owned, self._work, self._watch = owned, work, watch
        self._folds = owned.opened.queue()
        self._profiles: list[Profile] = []
        self._free: deque[Slot] = deque()
        self._readers = work.readers_of(owned)
        self._made, self._most = 0, ring(self._readers)
        self._buffer_bytes = min(work.leaf_bytes, owned.device.max_alloc_bytes)
        self._told = time.monotonic()
        self._stuck = False

    def fold_tile(self, tile: int, block: Block) -> Partial:
        """Fold a block's parts of a tile."""
        accumulator = self._work.accumulator
        parts = np.arange(*block.parts)
        absent = block.absent_parts(tile)
        if accumulator.uses_index or not absent.any():
            return self._fold_parts(tile, dict(zip(parts.tolist(), absent.tolist(), strict=True)))
        filled = self._fold_fill(tile, parts[absent].tolist())
        if absent.all():
            return filled
        present = self._fold_parts(tile, dict.fromkeys(parts[~absent].tolist(), False))
        fold = self._fold_of(accumulator, filled.outputs)
        combined = fold.combine([present, filled])
        self._profiles.append(fold.profile())
        return combined

    def _fold_fill(self, tile: int, parts: Sequence[int]) -> Partial:
        """Fold as many fill values as parts that are not stored would have, without any data."""
        layout, outputs = self._work.layout, self._work.layout.tile_outputs(tile)
        elements = sum(math.prod(p.length for p in layout.leaf(tile, part)) for part in parts)
        self.elements += elements
        return powers(
            self._owned.opened,
            self._work.accumulator,
            lambda accumulator: self._work.tuning(self._owned, accumulator),
            [np.full(1, source.fill, source.dtype) for source in self._work.sources],
            elements // outputs,
            outputs,
        )

    def _fold_parts(self, tile: int, parts: Parts) -> Partial:
        """Fold some parts of a tile; bad chunks are left out, if they are to be."""
        shape = self._work.layout.tile_shape(tile)
        counted = self.elements, self.nbytes
        try:
            return self._fold_window(_Window(tile, parts, tuple(slice(0, n) for n in shape)))
        except ChunkError:
            if self._stuck or not self._work.skips:
                raise
        self.elements, self.nbytes = counted
        # Once more, cell by cell: outputs are cut so that a bad cell is of all outputs or of none.
        pieces = zip(self._work.layout.kept, self._work.layout.tile_pieces(tile), strict=True)
        cuts = [piece.cut(self._work.cells_along(axis)) for axis, piece in pieces]
        windows = [_Window(tile, parts, place, by_cell=True) for place in itertools.product(*cuts)]
        done = [(window.place, self._fold_window(window)) for window in windows]
        return assembled(self._work.accumulator, shape, done)

    def _fold_window(self, window: _Window) -> Partial:
        """Fold some outputs; exact sums that expansions have lost once more, in limbs."""
        accumulator = self._work.accumulator
        partial = self._folded(accumulator, window)
        missing = any_lost(accumulator, partial).reshape(window.shape)
        if not missing.any():
            return partial
        limbs = accumulator.with_limbs()
        places = np.arange(partial.outputs).reshape(window.shape)
        for slab in slabs(window.shape, limbs.nbytes, AGAIN_BYTES):
            inner = _around(missing, slab)
            if inner is not None:
                again = self._folded(limbs, window.within(inner))
                partial = restored(accumulator, partial, places[inner].reshape(-1), again)
        return partial

    def _folded(self, accumulator: Accumulator, window: _Window) -> Partial:
        fold = self._fold_of(accumulator, math.prod(window.shape))
        reads = deque[tuple[_Read, Slot, Future[float]]]()
        try:
            for read in self._reads(window):
                if len(reads) == self._most - 2:
                    self._consume(fold, window, *reads.popleft())
                slot = self._slot()
                memory = [buffer.begin() for buffer in slot]
                future = self._owned.read(self._readers, self._read, read, memory)
                reads.append((read, slot, future))
            while reads:
                self._consume(fold, window, *reads.popleft())
            partial = fold.finish()
        finally:
            self._settle([(slot, future) for _, slot, future in reads])
        self._profiles.append(fold.profile())
        return partial

    def _fold_of(self, accumulator: Accumulator, outputs: int) -> Fold:
        tuning = self._work.tuning(self._owned, accumulator)
        return Fold(self._owned.opened, accumulator, tuning, outputs=outputs, queue=self._folds)

    def _settle(self, unread: Sequence[tuple[Slot, Future[float]]]) -> None:
        """Wait for readers that nobody waits for any more: no buffer is used while one fills it."""
        for _, future in unread:
            future.cancel()
        deadline = 0.0 if self._stuck else READ_DEADLINE_S
        running = wait([future for _, future in unread], deadline).not_done
        self._stuck |= bool(running)
        for slot, future in unread:
            (_kept_for_good if future in running else self._free).append(slot)

    def close(self) -> None:
        """Wait for the device to let go of the buffers."""
        if self._stuck:
            self._owned.leave_readers()
        for buffer in itertools.chain.from_iterable(self._free):
            buffer.drain()
            self._owned.give_back(buffer)

    def profile(self) -> Profile:
        """Return the times of all launches so far."""
        return merged(self._profiles)

    def _consume(
        self, fold: Fold, window: _Window, read: _Read, slot: Slot, future: Future[float]
    ) -> None:
        if self._watch.cancelled():
            raise CancelledError(f"run {self._work.run} was cancelled")
        try:
            self.read_s += future.result(READ_DEADLINE_S)
        except FutureTimeoutError:
            self._stuck = True
            _kept_for_good.append(slot)
            raise ChunkError(
                f"{self._work.sources[0].name}: reading {read.region} took longer than "
                f"{READ_DEADLINE_S:.0f} s"
            ) from None
        except ChunkError as error:
            self._free.append(slot)
            if not window.by_cell:
                raise
            if fold.accumulator == self._work.accumulator:  # else they were counted before
                reason = str(error)
                self.skipped[reason] = self.skipped.get(reason, 0) + read.box.elements
            return
        sizes = [read.box.elements * source.dtype.itemsize for source in self._work.sources]
        ready = [buffer.commit(nbytes) for buffer, nbytes in zip(slot, sizes, strict=True)]
        uploads = [event for one in ready for event in one.events]
        event = fold.add([one.buffer for one in ready], read.box, wait_for=uploads)
        for buffer in slot:
            buffer.busy_until(event)
        self._free.append(slot)
        if fold.accumulator == self._work.accumulator:  # else they were counted before
            self.elements += read.box.elements
            self.nbytes += sum(sizes)
        if time.monotonic() - self._told > PROGRESS_EVERY_S:
            self._told = time.monotonic()
            self._watch.progress(self.nbytes, False)

    def _read(self, read: _Read, memory: Sequence[np.ndarray]) -> float:
        """Decode a region of each input into staging memory; return the seconds it took."""
        began = time.monotonic()
        for source, staged in zip(self._work.sources, memory, strict=True):
            nbytes = read.box.elements * source.dtype.itemsize
            elements = staged[:nbytes].view(source.dtype).reshape(read.shape)
            if read.absent:
                elements[...] = source.fill
            else:
                source.read(read.region, elements)
        return time.monotonic() - began

    def _slot(self) -> Slot:
        """Return a slot that is free, or will be when its last fold is done."""
        if self._made < self._most:
            self._made += 1
            return tuple(self._owned.borrow(self._buffer_bytes) for _ in self._work.sources)
        return self._free.popleft()

    def _reads(self, window: _Window) -> Iterator[_Read]:
        layout = self._work.layout
        itemsize = max(source.dtype.itemsize for source in self._work.sources)
        kept = dict(zip(layout.kept, window.place, strict=True))
        for part, absent in window.parts.items():
            pieces = layout.leaf(window.tile, part)
            cuts = [
                [kept[n]]
                if n in kept
                else piece.cut(self._work.cells_along(n))
                if window.by_cell
                else [slice(0, piece.length)]
                for n, piece in enumerate(pieces)
            ]
            for whole in itertools.product(*cuts):
                shape = [along.stop - along.start for along in whole]
                for slab in slabs(shape, itemsize, self._buffer_bytes):
                    within = _shifted(whole, slab)
                    yield _read_of(
                        layout,
                        pieces,
                        within,
                        absent=absent,
                        indexed=self._work.accumulator.uses_index,
                    )


def _shifted(whole: Sequence[slice], part: Sequence[slice]) -> tuple[slice, ...]:
    """Return a part of a box where the box stands."""
    return tuple(
        slice(along.start + cut.start, along.start + cut.stop)
        for along, cut in zip(whole, part, strict=True)
    )


def _around(chosen: np.ndarray, slab: tuple[slice, ...]) -> tuple[slice, ...] | None:
    """Return the least box within a slab that has all that is chosen there; None if nothing is."""
    found = np.nonzero(chosen[slab])
    if not len(found[0]):
        return None
    return tuple(
        slice(along.start + int(places.min()), along.start + int(places.max()) + 1)
        for along, places in zip(slab, found, strict=True)
    )


def _read_of(
    layout: Layout,
    pieces: Sequence[Piece],
    within: tuple[slice, ...],
    *,
    absent: bool,
    indexed: bool,
) -> _Read:
    region = tuple(
        slice(
            piece.source.start + cut.start * piece.source.step,
            piece.source.start + (cut.stop - 1) * piece.source.step + 1,
            piece.source.step,
        )
        for piece, cut in zip(pieces, within, strict=True)
    )
    shape = tuple(cut.stop - cut.start for cut in within)
    return _Read(region, shape, layout.leaf_box(pieces, within, indexed=indexed), absent)

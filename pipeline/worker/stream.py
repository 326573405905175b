"""Stream a block's leaves through the device, by the way that suits them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from chunkfold.kernels import Accumulator, Combiner, Partial, Tuning
from chunkfold.kernels.fold.power import Powers
from chunkfold.planning.blocks import Block
from chunkfold.planning.leaf_ranges import LeafRanges
from chunkfold.planning.work import Work
from chunkfold.reading.reads import OutputBox, kernels_of, shares_of
from chunkfold.stores.requests import flight
from chunkfold.worker.beside import Beside
from chunkfold.worker.per_thread import PerThread
from chunkfold.worker.ring import Ring
from chunkfold.worker.totals import Totals
from chunkfold.worker.watch import Watch
from chunkfold.worker.worker_device import WorkerDevice


class Way(Protocol):
    """How boxes of outputs get to the device."""

    def fold(self, accumulator: Accumulator, tuning: Tuning, output_box: OutputBox) -> Partial:
        """Read a box of outputs and fold it into an accumulator: the work's, or another form of it.

        Raises
        ------
        ChunkError
            If a chunk cannot be read, and the box of outputs is not to be read cell by cell.
        DeviceError
            If the device fails.
        CancelledError
            If the run was cancelled meanwhile.
        """


class Stream:
    """What folds the leaves of one block, and what it has counted."""

    def __init__(self, owned: WorkerDevice, work: Work, block: Block, watch: Watch) -> None:
        self.owned, self.work, self.block = owned, work, block
        if work.fetching:
            flight().bound(work.requests, work.fetching, work.retry_s)
        self.totals = Totals(work.run, watch, missed=[set() for _ in work.sources])
        self.fills = Powers(
            owned.opened,
            [np.full(1, source.fill, source.dtype) for source in work.sources],
            lambda accumulator: owned.tuning(accumulator, work.variant, {"flat"}),
        )
        """Folds of the fill value."""
        self.buffer_bytes = min(work.leaf_bytes, owned.device.max_alloc_bytes)
        """Most that is staged at a time of one input."""
        priority = owned.priority()
        ahead, self.shares = itertools.tee(
            shares_of(work, block, self.buffer_bytes, self.totals.missed)
        )
        """What there is to do, tile by tile."""
        self._per_thread = PerThread(
            owned, work, self.totals, self.buffer_bytes, priority, self.combine
        )
        output_boxes = (
            output_box
            for share in ahead
            for output_box in share.output_boxes
            if not self._per_thread.suit(work.accumulator, output_box)
        )
        self._ring = Ring(
            owned, work, self.totals, self.buffer_bytes, priority, output_boxes, self.combine
        )

    def way(self, accumulator: Accumulator, output_box: OutputBox) -> Way:
        """Return what folds a box of outputs into an accumulator."""
        return self._per_thread if self._per_thread.suit(accumulator, output_box) else self._ring

    def tuning(self, accumulator: Accumulator, output_box: OutputBox) -> Tuning:
        """Return how a box of outputs is folded into an accumulator."""
        kernels = kernels_of(self.work, output_box, self.buffer_bytes)
        return self.owned.tuning(accumulator, self.work.variant, kernels)

    def combine(self, accumulator: Accumulator, partials: Sequence[Partial]) -> Partial:
        """Combine partials of the same outputs."""
        tuning = self.owned.tuning(accumulator, self.work.variant)
        combiner = Combiner(self.owned.opened, accumulator, tuning)
        combined = combiner.combine(partials)
        self.totals.launched(combiner.profile())
        return combined

    @property
    def beside(self) -> Sequence[Beside]:
        """What answers other questions of what is read."""
        return self._ring.beside

    @property
    def ranges(self) -> LeafRanges:
        """The ranges of leaves that were read, where another read may be spared them."""
        return self._ring.ranges.found()

    def close(self) -> None:
        """Wait for the device to let go of the buffers."""
        if self.totals.stuck:
            self.owned.leave_readers()
        self._ring.close()

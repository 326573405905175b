"""Stream a block's leaves through the device: through a ring of buffers, or on reading threads."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from chunkfold.kernels import Accumulator, Combiner, Partial, Tuning
from chunkfold.kernels.accumulator.sums import Rounded
from chunkfold.kernels.fold.levels import makes_right
from chunkfold.kernels.fold.power import Powers
from chunkfold.kernels.fold.rounding_trial import rounds_right
from chunkfold.kernels.fold.staging import PAGE
from chunkfold.planning.blocks import Block
from chunkfold.planning.leaf_extremes import LeafExtremes
from chunkfold.planning.work import Work
from chunkfold.reading.box_kernels import kernels_of
from chunkfold.reading.reads import (
    OutputBox,
    Share,
    all_outputs,
    reads_of,
    shares_of,
)
from chunkfold.stores.requests import flight
from chunkfold.worker.level_fold import LevelArrays
from chunkfold.worker.per_thread import PerThread
from chunkfold.worker.ring import Ring
from chunkfold.worker.secondary import SecondaryFolds
from chunkfold.worker.totals import Totals, Watch
from chunkfold.worker.worker_device import WorkerDevice


class FoldWay(Protocol):
    """Reads and folds boxes of outputs."""

    def fold(self, accumulator: Accumulator, tuning: Tuning, output_box: OutputBox) -> Partial:
        """Read a box of outputs and fold it into an accumulator: the work's, or another form of it.

        Raises
        ------
        ChunkError
            If a chunk cannot be read, and the box of outputs is not read cell by cell.
        DeviceError
            If the device fails.
        CancelledError
            If the run was cancelled.
        """


class LeafStream:
    """Folds the leaves of one block, and counts them."""

    def __init__(self, worker_device: WorkerDevice, work: Work, block: Block, watch: Watch) -> None:
        self.worker_device, self.work, self.block = worker_device, work, block
        scan, finishing = work.scan, work.first.finishing
        if scan.fetching:
            flight().bound(scan.requests, scan.fetching, scan.retry_s)
        self.totals = Totals(scan.run, watch, missed=[set() for _ in scan.sources])
        self.fills = Powers(
            worker_device.opened,
            [np.full(1, source.fill, source.dtype) for source in scan.sources],
            lambda accumulator: worker_device.tuning(accumulator, scan.variant, {"flat"}),
        )
        """Folds of the fill value."""
        levels = None if finishing is None else finishing.by_kernels
        able = levels is not None and makes_right(worker_device.opened, levels)
        self._levels = levels if able else None
        """Levels that kernels make from tiles; None: they do not or cannot."""
        self.smaller = worker_device.memory.smaller(scan.run)
        """By how much reads are smaller than planned, since the device has little memory."""
        leaf_bytes = scan.leaf_bytes
        if self.smaller > 1:
            pages = leaf_bytes // self.smaller // PAGE
            leaf_bytes = max(min(leaf_bytes, PAGE), pages * PAGE)
        self.buffer_bytes = min(leaf_bytes, worker_device.device.max_alloc_bytes)
        """Most bytes of one read of one input."""
        priority = worker_device.priority()
        ahead, self.shares = itertools.tee(
            shares_of(work, block, self.buffer_bytes, self.totals.missed)
        )
        """The work of the block, tile by tile."""
        self._per_thread = PerThread(
            worker_device, work, self.totals, self.buffer_bytes, priority, self.combine
        )
        output_boxes = (
            output_box
            for share in ahead
            for output_box in share.output_boxes
            if not self._per_thread.suit(work.first.accumulator, output_box)
        )
        self._ring = Ring(
            worker_device,
            work,
            self.totals,
            self.buffer_bytes,
            priority,
            output_boxes,
            self.combine,
        )

    def way(self, accumulator: Accumulator, output_box: OutputBox) -> FoldWay:
        """Return the way to fold a box of outputs into an accumulator."""
        return self._per_thread if self._per_thread.suit(accumulator, output_box) else self._ring

    def levels(self, share: Share) -> LevelArrays | Partial | None:
        """Make the levels of a share, or fold it, if it is a whole tile and one read.

        Raises as `FoldWay.fold`. None if it is not, or kernels make no levels.
        """
        work, output_box = self.work, self._whole_tile(share)
        if self._levels is None or output_box is None:
            return None
        reads = list(itertools.islice(reads_of(work, output_box, self.buffer_bytes), 2))
        if len(reads) != 1:
            return None
        tuning = self.tuning(work.first.accumulator, output_box)
        return self._ring.fold_levels(self._levels, tuning, output_box, reads[0].shape)

    def rounded(self, share: Share) -> Rounded | Partial | None:
        """Fold a share, and round its results on the device, or return its partial.

        Raises as `FoldWay.fold`. None if it is no whole tile, or devices do not round such results.
        """
        question, output_box = self.work.first, self._whole_tile(share)
        finishing, skips = question.finishing, self.work.scan.skips
        if finishing is None or skips or output_box is None or self._shares_memory:
            return None
        how, accumulator = finishing.roundings, question.accumulator
        tuning = self.tuning(accumulator, output_box)
        if not how or not rounds_right(
            self.worker_device.opened, accumulator, tuning, finishing.statistics
        ):
            return None
        return self._ring.fold_rounded(how, tuning, output_box)

    @property
    def _shares_memory(self) -> bool:
        """Tell whether the host reads the device's memory: then rounding there saves nothing."""
        return self.worker_device.device.unified_memory

    def _whole_tile(self, share: Share) -> OutputBox | None:
        """Return the box of a share if it is a whole tile that this block reads alone."""
        shared = self.block.parts != (0, self.work.first.layout.parts)
        if shared or share.implicit or len(share.output_boxes) != 1:
            return None
        (output_box,) = share.output_boxes
        whole = output_box.place == all_outputs(self.work, share.tile, ()).place
        return output_box if whole else None

    def tuning(self, accumulator: Accumulator, output_box: OutputBox) -> Tuning:
        """Return the tuning for the fold of a box of outputs into an accumulator."""
        question = self.work.first
        is_refold = accumulator != question.accumulator  # into limbs: sums lost something
        kernels = kernels_of(self.work, output_box, self.buffer_bytes, preaggregates=not is_refold)
        folded = accumulator if is_refold else question.folded
        return self.worker_device.tuning(folded, self.work.scan.variant, kernels)

    def combine(self, accumulator: Accumulator, partials: Sequence[Partial]) -> Partial:
        """Combine partials of the same outputs."""
        tuning = self.worker_device.tuning(accumulator, self.work.scan.variant)
        combiner = Combiner(self.worker_device.opened, accumulator, tuning)
        combined = combiner.combine(partials)
        self.totals.launched(combiner.profile())
        return combined

    @property
    def secondary(self) -> Sequence[SecondaryFolds]:
        """Folds of the same reads for secondary questions."""
        return self._ring.secondary

    @property
    def extremes(self) -> LeafExtremes | None:
        """Least and greatest elements of leaves, by which another read may skip leaves."""
        found = self._ring.extremes
        return None if found is None else found.found()

    def close(self) -> None:
        """Wait for the device to let go of the buffers."""
        if self.totals.stuck:
            self.worker_device.leave_readers()
        self._ring.close()

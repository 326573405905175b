"""Reading threads fold their own chunks, while these are still in the cache.

Few threads, one output, and a device that shares the host's memory fold so: no other thread takes
over, and no memory is read again. Small chunks are decoded one behind another, a few to a fold.
Large ones without codecs are read in pieces; those with codecs go through the ring: they leave the
cache before they are whole.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from functools import partial

from chunkfold.kernels import Accumulator, Partial, Tuning
from chunkfold.planning.rules import PlanRule, applies
from chunkfold.planning.work import Work
from chunkfold.reading.reads import OutputBox, all_in_turn
from chunkfold.worker.thread_fold import (
    FoldInTurn,
    FoldPieces,
    Numbered,
    ThreadFold,
    work_shares_of,
)
from chunkfold.worker.totals import REPORT_EVERY_S, Totals
from chunkfold.worker.worker_device import WorkerDevice

PIECE_BYTES = 8 << 20
"""Bytes of a large chunk that are read and folded at a time: a cache holds some of them, and they
take long next to the Python between two of them."""
FOLD_BYTES = 4 << 20
"""Bytes of small chunks that are folded at a time; no chunk is larger."""
MOST_THREADS = 4
"""Most threads: each holds Python's lock for a while with every piece, so that more wait for it."""
_ACCUMULATOR_BYTES = 64 << 10
"""Largest accumulator that each thread may have, in bytes."""
_LEAST_PIECES = 2
"""Least pieces of each thread: fewer are not worth the combine."""


class PerThread:
    """The reading threads of a block that also fold."""

    def __init__(
        self,
        worker_device: WorkerDevice,
        work: Work,
        totals: Totals,
        buffer_bytes: int,
        priority: int,
        combine: Callable[[Accumulator, Sequence[Partial]], Partial],
    ) -> None:
        self._combine, first, sources = combine, work.first, work.scan.sources
        self._worker_device, self._work, self._totals = worker_device, work, totals
        self._readers, self._priority = worker_device.readers_for(work.scan), priority
        self._itemsize = max(source.dtype.itemsize for source in sources)
        fold_bytes = min(FOLD_BYTES, buffer_bytes)
        small = all_in_turn(work) and _chunk_elements(work) * self._itemsize <= fold_bytes
        self._kind = FoldInTurn if small else FoldPieces
        self._piece_bytes = fold_bytes if small else min(PIECE_BYTES, buffer_bytes)
        self._able = (
            self._readers <= MOST_THREADS
            and first.keys is None
            and not first.broadcast
            and not first.choosers
            and not work.folded_secondary
            and worker_device.device.unified_memory
            and not any(source.remote for source in sources)
            and (small or all(source.as_it_is for source in sources))
        )

    def suit(self, accumulator: Accumulator, output_box: OutputBox) -> bool:
        """Return whether reading threads fold a box of outputs into an accumulator."""
        least = self._readers * _LEAST_PIECES * self._piece_bytes
        return (
            self._able
            and applies(PlanRule.FOLD_WHERE_READ)
            and output_box.outputs == 1
            and not output_box.by_cell
            and not accumulator.uses_index
            and accumulator.nbytes <= _ACCUMULATOR_BYTES
            and sum(leaf.elements for leaf in output_box.leaves) * self._itemsize >= least
        )

    def fold(self, accumulator: Accumulator, tuning: Tuning, output_box: OutputBox) -> Partial:
        """Read a box of outputs and fold it, each thread for itself; see `FoldWay`."""
        ended = threading.Event()
        first, rest = work_shares_of(output_box, self._readers)
        left = iter(enumerate(rest, len(first)))
        threads = [
            self._kind(
                self._worker_device,
                self._work,
                self._worker_device.memory.borrow_fold(accumulator, tuning),
                itertools.chain([own], left),
                self._piece_bytes,
                ended,
            )
            for own in enumerate(first)
        ]
        read = partial(self._worker_device.read, self._readers, self._priority)
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
            if accumulator == self._work.first.accumulator:  # else the first fold counted them
                self._totals.elements += thread.elements
                self._totals.nbytes += thread.nbytes
        found = {number: done for one in futures for number, done in one.result().items()}
        return self._combine(accumulator, [found[number] for number in sorted(found)])

    def _attend(self, threads: Sequence[ThreadFold], futures: Sequence[Future[Numbered]]) -> None:
        """Wait until all threads are done; raise if one is late or the run was cancelled."""
        running, folded = set(futures), 0
        while running:
            done, running = wait(running, REPORT_EVERY_S, FIRST_EXCEPTION)
            for future in done:
                future.result()
            for late in filter(None, (thread.late() for thread in threads)):
                self._totals.stuck = True
                raise late
            self._totals.check()
            before, folded = folded, sum(thread.elements for thread in threads)
            # Readers of another run may keep this one waiting.
            begun = any(one.running() for one in running)
            if folded > before or (not begun and self._worker_device.shared(self._work.scan.run)):
                self._totals.report_progress(sum(thread.nbytes for thread in threads))


def _chunk_elements(work: Work) -> int:
    """Return the elements of the largest chunk of any input."""
    return max(math.prod(max(1, n) for n in source.chunks) for source in work.scan.sources)

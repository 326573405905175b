"""Results that leave as they come: each tile is written when it is finished, and kept by nobody."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, cast

import numpy as np

from chunkfold.boxes import Slices
from chunkfold.errors import BusyError, LedgerError, OutputError
from chunkfold.ledger.upkeep import drop
from chunkfold.planning.plan import Plan
from chunkfold.planning.tile_finishing import FinishedTile, finishing_of
from chunkfold.planning.work import Work
from chunkfold.results.results import in_order
from chunkfold.running.kept_blocks import KeptBlocks
from chunkfold.worker.finishing import Finishing
from chunkfold.worker.fold_block import Folded

AHEAD = 2
"""Roots whose results may wait to be written."""
_COPYING, _COPY_BYTES = 8, 4 << 20
"""Threads that copy results at most, and bytes for each of them at least."""


class Sink(Protocol):
    """Receives results tile by tile. Its methods are called by one thread at a time."""

    def begin(self, plan: Plan) -> None:
        """Get ready for what a plan makes."""

    def write(self, level: int, op: str, region: Slices, values: np.ndarray) -> None:
        """Take some results: of a level, where they stand among all of it."""

    def end(self) -> Mapping[str, Any]:
        """Write the last of it; return what stands for the results of the first level, by op."""

    def stop(self) -> None:
        """Write nothing more, and wait for what is being written; at the end of every run."""


class StagedSink(Sink, Protocol):
    """Writes to an output that outlives the run, of which a ledger notes what is written."""

    def has(self, level: int, op: str, region: Slices) -> None:
        """Leave some results as they are: an earlier run wrote them."""

    def settle(self) -> Callable[[], None]:
        """Write all that was taken; return what waits until it outlives this process."""


class Arrays:
    """A sink that keeps the results."""

    def __init__(self) -> None:
        self._found: dict[str, np.ndarray] = {}

    def begin(self, plan: Plan) -> None:
        """Learn what results are of."""
        finishing = Finishing.of(plan)
        self._plan = plan
        self._shape = finishing.by_axis(plan.layout.outputs_shape, finishing.groups or (), 1)

    def write(self, level: int, op: str, region: Slices, values: np.ndarray) -> None:
        """Keep some results."""
        assert not level
        if op not in self._found:
            self._found[op] = np.empty(self._shape, values.dtype)
        _copy(self._found[op][region], values)

    def end(self) -> Mapping[str, np.ndarray]:
        """Return all results, by op."""
        return {op: in_order(self._plan, array) for op, array in self._found.items()}

    def stop(self) -> None:
        """Do nothing: nothing is being written."""


def _copy(target: np.ndarray, values: np.ndarray) -> None:
    """Copy results to where they are kept, by several threads where they are many.

    One thread is slower than a device: most of its time goes to the first use of new pages.
    """
    threads = min(_COPYING, len(os.sched_getaffinity(0)), values.nbytes // _COPY_BYTES)
    if threads <= 1:
        target[...] = values
        return
    axis = max(range(values.ndim), key=values.shape.__getitem__)
    pairs = zip(*(np.array_split(one, threads, axis) for one in (target, values)), strict=True)
    with ThreadPoolExecutor(threads, "chunkfold-copy") as pool:
        list(pool.map(lambda pair: np.copyto(*pair), pairs))


class Streaming:
    """Passes the results of roots on to a sink, in a thread of its own."""

    def __init__(self, plan: Plan, work: Work, sink: Sink, kept: KeptBlocks | None = None) -> None:
        self._work, self._sink, self._finishing = work, sink, Finishing.of(plan)
        self._plan, self._kept = plan, kept if plan.request.staged else None
        self._blocks = {block.tiles: block for block in plan.blocks}
        self._taken, self._written, self._settled = 0, 0, 0
        """Roots that came, those that the sink was given, and those that outlive the run."""
        self._broken = False
        """True from when the sink raised: nothing tells what of the roots it has written."""
        self._there = set[int]()
        """Tiles that an earlier run wrote."""
        first = plan.first  # whose blocks finish no tiles where a ledger keeps partials
        tiles = first.finishing or finishing_of(
            plan.request, plan.terms, first.layout, first.accumulator
        )
        assert tiles is not None
        self._tiles = tiles
        self._writer = ThreadPoolExecutor(1, "chunkfold-write")
        self._writing: list[Future[Any]] = []
        self.nan: dict[str, bool | None] = {}
        self.nothing = 0
        """Outputs of which every element was left out."""
        self._began = self._writer.submit(self._begin)

    def take(self, tiles: tuple[int, int], folded: Folded) -> Folded:
        """Pass a root on; return it without results.

        Raises
        ------
        Exception
            Whatever kept an earlier one from being written.
        """
        while len(self._writing) >= AHEAD:
            self._writing.pop(0).result()
        self._writing.append(self._writer.submit(self._write, tiles[0], folded))
        self._taken += 1
        if self._kept is not None:
            noted = replace(folded, tiles=tuple(replace(one, levels=()) for one in folded.tiles))
            self._kept.keep(self._blocks[tiles], partial(self._lasting, self._taken, noted))
        return replace(folded, partials=(), tiles=())

    def _lasting(self, number: int, folded: Folded) -> Folded:
        """Return a root, by its number, when the sink has settled what it was given of it."""
        if self._settled < number:
            settling = self._writer.submit(self._settle)
            self._writing.append(settling)  # what went wrong there ends the run
            written, last = settling.result()
            try:
                last()
            except BusyError as error:  # the output is another run's now
                ended = Future[Any]()
                self._writing.append(ended)
                ended.set_exception(error)
                raise
            self._settled = written
        return folded

    def end(self) -> Mapping[str, Any]:
        """Wait until all is written; return what stands for the results, by op.

        Raises
        ------
        Exception
            Whatever kept it from being written.
        """
        self._began.result()
        for one in self._writing:
            one.result()
        return self._writer.submit(self._sink.end).result()

    def stop(self) -> None:
        """Write nothing more."""
        self._writer.shutdown(cancel_futures=True)
        self._sink.stop()

    def _begin(self) -> None:
        self._sink.begin(self._plan)
        if self._kept is not None and self._plan.ledger is not None:
            known = (block for block in self._plan.blocks if block.known)
            there = [one for one in known if self._kept.written_tiles(one) is not None]
            self._there.update(*(range(*one.tiles) for one in there))
            # What was noted of chunks that were replaced since is about to be overwritten: should
            # these chunks come back, it must not be taken for theirs.
            kept = {one.entries[0] for one in there}
            try:
                drop(self._plan.ledger, self._plan.request.staged, kept)
            except OSError as error:
                name = self._plan.ledger.name
                raise LedgerError(f"the ledger {name} cannot be written: {error}") from error
        for tile in self._there:
            for (number, box), op in itertools.product(self._levels(tile), self._plan.ops):
                cast("StagedSink", self._sink).has(number, op, self._region(box))

    def _settle(self) -> tuple[int, Callable[[], None]]:
        if self._broken:
            raise OutputError("something of it was not written")
        self._broken = True
        last = cast("StagedSink", self._sink).settle()
        self._broken = False
        return self._written, last

    def _write(self, first: int, folded: Folded) -> None:
        self._began.result()
        broken, self._broken = self._broken, True
        for one in folded.tiles or self._finished(first, folded):
            self._pass_on(one)
        self._broken = broken
        self._written += 1

    def _finished(self, first: int, folded: Folded) -> Sequence[FinishedTile]:
        """Finish tiles that several blocks made, or blocks that leave partials for a ledger."""
        question, finishing = self._work.first, self._tiles
        layout = question.layout
        partials = folded.partials_of_all(finishing.accumulator, question.groups)
        numbered = enumerate(partials, first)
        return [finishing.finished(n, layout.tile_shape(n), one) for n, one in numbered]

    def _pass_on(self, tile: FinishedTile) -> None:
        self.nothing += tile.nothing
        for op, odd in tile.nan.items():
            before = self.nan.get(op, False)
            self.nan[op] = (
                True if True in (odd, before) else None if None in (odd, before) else False
            )
        if tile.tile in self._there:  # though it was read once more for another question
            return
        for (number, box), level in zip(self._levels(tile.tile), tile.levels, strict=False):
            for op, values in level.values.items():
                extra = [slice(0, size) for size in values.shape[1:]]
                region = (*self._region(box), *extra)
                self._sink.write(number, op, region, self._finishing.shaped(values, box))

    def _levels(self, tile: int) -> Iterator[tuple[int, Slices]]:
        """Yield the levels of a tile: their numbers, and their boxes of outputs."""
        layout, finishing = self._work.first.layout, self._tiles
        firsts = [along.start for along in layout.tile_region(tile)]
        shape: Sequence[int] = layout.tile_shape(tile)
        steps = [()] * (not finishing.modes) + [*finishing.factors]
        for number, by in enumerate(steps):
            if by:
                firsts = [n // factor for n, factor in zip(firsts, by, strict=True)]
                shape = [-(-n // factor) for n, factor in zip(shape, by, strict=True)]
            ends = zip(firsts, shape, strict=True)
            yield number, tuple(slice(at, at + size) for at, size in ends)

    def _region(self, box: Slices) -> Slices:
        """Return where results of a box stand among all, but along axes of their own."""
        groups = [slice(0, size) for size in self._finishing.groups or ()]
        return self._finishing.by_axis(box, groups, slice(0, 1))

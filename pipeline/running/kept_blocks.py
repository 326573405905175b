"""A run's blocks in its ledger: which it has, and those that are kept there as they end.

A thread of its own writes, so that no fold waits for it. It writes all that has come since its last
segment, so that a slow store has few segments, and a fast one loses little.
"""

from __future__ import annotations

import queue
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import cast

import numpy as np

from chunkfold.errors import LedgerWarning, PlanError
from chunkfold.kernels import Partial
from chunkfold.kernels.accumulator.grouped_partials import picked, placed
from chunkfold.ledger.ledger import Ledger
from chunkfold.ledger.segments import DamagedError, NewEntry
from chunkfold.ledger.stored_partials import partials_in, stored_arrays
from chunkfold.planning.aligned_runs import LeafGrids
from chunkfold.planning.blocks import Block
from chunkfold.planning.group_keys import Keys
from chunkfold.planning.ledger_block_elements import elements_text
from chunkfold.planning.ledger_block_outputs import BlockOutputs, reached_tiles
from chunkfold.planning.ledger_found_partials import PartialFinder
from chunkfold.planning.ledger_span_keys import QuestionKeys, question_keys
from chunkfold.planning.plan import Plan
from chunkfold.planning.request import Request
from chunkfold.planning.tile_finishing import FinishedTile
from chunkfold.printable import printable
from chunkfold.running.written_tiles import tile_arrays, tiles_in
from chunkfold.worker.block_report import LedgerReport, Report
from chunkfold.worker.fold_block import Folded

Fetch = Callable[[], Folded]
"""Returns a block's partials, from the worker that has them if need be."""


SEGMENT_BYTES = 64 << 20
"""Bytes of partials from which on a segment is written: more would take memory."""


def ledger_of(request: Request) -> Ledger:
    """Open the ledger that a reduction asks for.

    Raises
    ------
    LedgerError
        If it can be none.
    PlanError
        If results leave as they come, to no output that outlives the run.
    """
    options = request.options
    if request.streamed is not None and request.streamed.coarser and not request.staged:
        message = "ledger is given, but pyramids are made of results, and a ledger keeps partials"
        raise PlanError(f"{message}: omit the ledger")
    return Ledger.at(str(options.ledger), trusted=options.trust_ledger)


class KeptBlocks:
    """The blocks of one read of a plan, and its ledger."""

    def __init__(self, plan: Plan, ledger: Ledger) -> None:
        self._plan, self._ledger = plan, ledger
        self._questions = question_keys(plan.request, plan.questions, plan.scan.listings)
        self._finders = [PartialFinder(ledger, one) for one in self._questions]
        self._elements, self._grids = plan.layout.leaf_elements(), LeafGrids.of(plan.layout)
        self._written = {block.number for block in plan.blocks if block.known}
        self._coming: queue.SimpleQueue[tuple[Block, Fetch] | None] = queue.SimpleQueue()
        self._known = self._kept = 0
        self._oldest: datetime | None = None
        self._flushed, self._failed = threading.Event(), False
        threading.Thread(target=self._write_all, name="chunkfold-ledger", daemon=True).start()

    @property
    def name(self) -> str:
        """The ledger's path or URL, without secrets."""
        return self._ledger.name

    @property
    def resumes(self) -> bool:
        """Return True if another run would find partials that this one made or found."""
        return bool(self._written) and not self._failed

    @property
    def report(self) -> LedgerReport:
        """Return the counts so far; of damage all that was found since it was opened."""
        blocks, damaged = len(self._plan.blocks), len(self._ledger.damaged)
        return LedgerReport(blocks, self._known, self._kept, damaged, self._oldest)

    def load(self, block: Block) -> Folded | None:
        """Return the partials of a block that the ledger has; None if it has none that are sound.

        Those that this run has written count too: their worker may be gone.
        """
        if block.number not in self._written:
            return None
        tiles = self.written_tiles(block)
        found = [
            ()
            if finder.question.request.staged or finder.question.request.unasked
            else self._read(finder, key, block)
            for finder, key in zip(self._finders, block.entries, strict=True)
        ]
        if tiles is None or any(one is None for one in found):
            self._written.discard(block.number)
            return None
        first, *others = cast("list[tuple[Partial, ...]]", found)
        secondary = tuple(
            {} if question.request.unasked else self._by_tile(question, block, partials)
            for question, partials in zip(self._questions[1:], others, strict=True)
        )
        self._known += 1
        report = Report(int(self._elements[slice(*block.tiles), slice(*block.parts)].sum()), {})
        return Folded(first, report, tiles, self._groups(self._questions[0], block), secondary)

    def written_tiles(self, block: Block) -> tuple[FinishedTile, ...] | None:
        """Return a block's tiles that an output has; None if it lacks them, none without one."""
        key, first = block.entries[0], self._questions[0]
        stored = self._ledger.read(key, first.components) if first.request.staged else ()
        try:
            return None if stored is None else tiles_in(stored, block, self._plan)
        except DamagedError as error:
            self._ledger.refuse(key, str(error))
            return None

    def _read(self, finder: PartialFinder, key: str, block: Block) -> tuple[Partial, ...] | None:
        question, found = finder.question, finder.read(key)
        if found is None:
            return None
        names, stored = found
        written = self._ledger.written(key)
        self._oldest = min(self._oldest or written, written)
        each, outputs = self._shape(question, block)
        counts = [each * one for one in outputs.pieces]
        try:
            partials = partials_in(stored, question.accumulator, names, counts)
            return outputs.cut(each, partials)
        except DamagedError as error:
            self._ledger.refuse(key, str(error))
            return None

    def keep(self, block: Block, fetch: Fetch) -> None:
        """Write a block's partials when there is time, unless they are not to be kept."""
        if block.entries and block.number not in self._written and not self._failed:
            self._coming.put((block, fetch))

    def close(self, seconds: float) -> None:
        """Write what has come, and wait for that, but no longer than some seconds."""
        self._coming.put(None)
        self._flushed.wait(seconds)

    def _write_all(self) -> None:
        ended = False
        while not ended:
            some = [self._coming.get()]
            while not self._coming.empty():
                some.append(self._coming.get())
            ended = None in some
            try:
                self._write([one for one in some if one is not None])
            except Exception as error:  # noqa: BLE001 # the run is worth more than its ledger
                self._fail(str(error) or repr(error))
        self._flushed.set()

    def _write(self, some: Sequence[tuple[Block, Fetch]]) -> None:
        entries, blocks, stored = list[NewEntry](), list[int](), self._questions[0].blocks
        for number, (block, fetch) in enumerate(some, 1):
            folded = None if self._failed else _fetched(fetch)
            if folded is not None and not folded.report.skipped and stored.are_as_listed(block):
                made = self._entries(block, folded)
                entries += made
                blocks += [block.number] * bool(made)
            if entries and (number == len(some) or _nbytes(entries) >= SEGMENT_BYTES):
                self._put(entries, blocks)
                entries, blocks = [], []

    def _put(self, entries: Sequence[NewEntry], blocks: Sequence[int]) -> None:
        try:
            self._ledger.write(entries)
        except OSError as error:
            self._fail(error.strerror or str(error))
            return
        self._written.update(blocks)
        self._kept += len(blocks)

    def _fail(self, reason: str) -> None:
        self._failed = True
        message = (
            f"the ledger {self._ledger.name} cannot be written ({reason}): the run goes on, but "
            "its partials are not kept"
        )
        warnings.warn(message, LedgerWarning, stacklevel=1)

    def _entries(self, block: Block, folded: Folded) -> list[NewEntry]:
        """Return the entries of a block's partials, one for each question; none if one lacks."""
        made = []
        for number, (question, key) in enumerate(zip(self._questions, block.entries, strict=True)):
            if question.request.staged:
                arrays = tile_arrays(folded.tiles)
            elif (partials := self._partials(question, number, block, folded)) is not None:
                each, outputs = self._shape(question, block)
                joined = outputs.joined(question.accumulator, each, partials)
                arrays = stored_arrays(question.accumulator, question.components, joined)
            else:
                return []
            reach = self._plan.layout.reach(block.tiles, block.parts)
            tiles, parts = (slice(*one) for one in (block.tiles, block.parts))
            itemsize = sum(source.dtype.itemsize for source in self._plan.sources)
            statistics = question.request.bound(fp64=self._plan.terms.fp64).statistics
            place = ", ".join(f"{one.start}:{one.stop}" for one in reach)
            entry = NewEntry(
                key,
                tuple(dict.fromkeys(question.components)),
                arrays,
                self._grids.span(tiles.stop - tiles.start, parts.stop - parts.start),
                printable(self._plan.name),
                f"{', '.join(one.name for one in statistics)} of [{place}]",
                int(self._elements[tiles, parts].sum()) * itemsize,
                elements_text(question.blocks, block),
            )
            made.append(entry)
        return made

    def _partials(
        self, question: QuestionKeys, number: int, block: Block, folded: Folded
    ) -> list[Partial] | None:
        """Return the partials of a question by tile, of the groups that the block has."""
        groups = self._groups(question, block)
        if number:
            by_tile, tiles = folded.secondary[number - 1], self._tiles(question, block)
            if any(tile not in by_tile for tile in tiles):
                return None
            partials = [by_tile[tile] for tile in tiles]
        else:
            partials = list(folded.partials)
        if groups is None:
            return partials
        own = np.arange(question.request.groups)
        if not number and folded.groups is not None:
            own = folded.groups
        return [picked(one, len(own), np.searchsorted(own, groups)) for one in partials]

    def _by_tile(
        self, question: QuestionKeys, block: Block, partials: Sequence[Partial]
    ) -> Mapping[int, Partial]:
        groups = self._groups(question, block)
        every = partials
        if groups is not None:
            count = question.request.groups
            every = [placed(question.accumulator, count, [(groups, one)]) for one in partials]
        return dict(zip(self._tiles(question, block), every, strict=True))

    def _groups(self, question: QuestionKeys, block: Block) -> np.ndarray | None:
        """Return the groups that a block has elements of; None if it has all, or there are none."""
        if not isinstance(question.request.keys, Keys):
            return None
        found, _ = question.groups(block)
        return None if len(found) == question.request.groups else found

    def _tiles(self, question: QuestionKeys, block: Block) -> list[int]:
        return reached_tiles(self._plan.layout, question.layout, block)

    def _shape(self, question: QuestionKeys, block: Block) -> tuple[int, BlockOutputs]:
        """Return the number of groups, and the outputs, that are kept of a block."""
        groups = self._groups(question, block)
        each = question.request.groups if groups is None else len(groups)
        return each, BlockOutputs.of(self._plan.layout, question.layout, block)


def _nbytes(entries: Sequence[NewEntry]) -> int:
    return sum(array.nbytes for one in entries for array in one.arrays.values())


def _fetched(fetch: Fetch) -> Folded | None:
    """Return a block's partials; None if they are gone with their worker."""
    try:
        return fetch()
    except Exception:  # noqa: BLE001 # whatever it is, the block is run again if it is needed
        return None

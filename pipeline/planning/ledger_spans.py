"""Cut leaves into blocks whose partials a ledger keeps: by the array's grid, whoever works.

Blocks are aligned runs of tiles, and of parts of these. So another run finds them, however large
its own leaves and blocks would be, and an array that grows has new ones at its end alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from chunkfold.errors import LedgerError
from chunkfold.ledger.ledger import Ledger
from chunkfold.planning.aligned_runs import LeafGrids, RunGrid
from chunkfold.planning.blocks import (
    BLOCK_BYTES,
    BLOCK_PER_PARTIAL,
    MOST_BLOCK_BYTES,
    RESULT_BYTES,
    Block,
    Range,
    packed_leaves,
)
from chunkfold.planning.folding import Folding, RolledUp
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaves import leaf_elements
from chunkfold.planning.ledger_found_partials import PartialFinder
from chunkfold.planning.ledger_span_keys import QuestionKeys, question_keys
from chunkfold.planning.request import Request
from chunkfold.planning.workers import Terms
from chunkfold.sources.chunk_index import Listing
from chunkfold.sources.stored_identity import stored_identity

BLOCKS_PER_WORKER = 4
"""Blocks for each worker, at least: what is under way is lost with it."""
SETTLED_NS = (2_000_000_000, 60_000_000_000)
"""Age of a chunk from which on it is trusted to be what it was, on this host's disks and behind a
network: within a tick of a clock it could be written again, and look the same."""
_UNTIMED = ", or give ledger_verify='content', which reads chunks to tell them apart"


class UnfitForLedgerError(LedgerError):
    """A ledger cannot have partials of this array or reduction, whatever its state."""


@dataclass(frozen=True)
class LedgerCut:
    """Cuts the leaves of a plan for a ledger."""

    ledger: Ledger
    questions: Sequence[QuestionKeys]
    """Of all questions of the read, the one first that leaves are cut for."""
    remote: bool
    """True if chunks are behind a network."""

    @classmethod
    def of(
        cls,
        ledger: Ledger,
        request: Request,
        questions: Sequence[Folding | RolledUp],
        listings: Sequence[Listing | None],
        terms: Terms,
    ) -> LedgerCut:
        """Return the cut of a read, by how its questions are answered.

        Raises
        ------
        LedgerError
            If a ledger keeps no partials of it.
        """
        _refuse_unkept(request, listings, terms)
        keys = question_keys(request, questions, listings)
        return cls(ledger, keys, any(source.remote for source in request.sources))

    @property
    def _layout(self) -> Layout:
        return self.questions[0].layout

    def blocks(
        self,
        costs: np.ndarray,
        unstored: np.ndarray,
        workers: int,
        partial_bytes: int,
        *,
        results: float,
        whole: bool,
        unneeded: np.ndarray | None = None,
    ) -> tuple[Block, ...]:
        """Cut leaves into blocks; parameters as `cut_blocks`.

        Partials of blocks are not kept of which some leaves are not read.
        """
        grids = LeafGrids.of(self._layout)
        tiles, parts = _sizes(costs, grids, workers, partial_bytes, whole=whole)
        if self.questions[0].request.staged:  # blocks return results, and no partials of these
            most = int(RESULT_BYTES / results)
            tiles, parts = _sizes(costs, grids, workers, 0, whole=whole, largest=most)
        runs, made = self._known_runs(grids, whole=whole), list[Block]()
        for run in grids.tiles.filled(runs, tiles):
            known = runs.get(run, set())
            cut = [(0, parts)] if whole else grids.parts.filled(known, parts)
            made += (replace(_block(run, one), known=one in known) for one in cut)
        blocks = []
        for number, one in enumerate(made):
            at = slice(*one.tiles), slice(*one.parts)
            named = self.questions if self._is_settled(one) else ()
            entries = tuple(each.key(one) for each in named)
            bits, has = packed_leaves(unstored[at]), one.known and bool(entries)
            not_read = b"" if has or unneeded is None else packed_leaves(unneeded[at])
            blocks.append(
                Block(
                    number,
                    one.tiles,
                    one.parts,
                    bits,
                    unneeded=not_read,
                    entries=() if not_read else entries,
                    known=has,
                )
            )
        return tuple(blocks)

    def known_blocks(self) -> Iterator[Block]:
        """Yield blocks of the whole read whose partials the ledger has, the largest first."""
        for run, parts in self._known_runs(LeafGrids.of(self._layout), whole=False).items():
            yield from filter(self._is_settled, map(partial(_block, run), parts))

    def _is_settled(self, block: Block) -> bool:
        """Tell if all chunks of a block are old enough to be trusted."""
        newest = self.questions[0].blocks.newest(block)
        return newest <= time.time_ns() - SETTLED_NS[self.remote]

    def _known(self, block: Block) -> bool:
        return all(one.has(one.question.key(block)) for one in self._finders)

    @cached_property
    def _finders(self) -> list[PartialFinder]:
        asked = (one for one in self.questions if not one.request.unasked)
        return [PartialFinder(self.ledger, one) for one in asked]

    def _known_runs(self, grids: LeafGrids, *, whole: bool) -> dict[Range, set[Range]]:
        """Return runs of tiles, and those parts of them that the ledger has; the largest first."""
        runs, shapes = dict[Range, set[Range]](), self._shapes(grids, whole=whole)
        taken = np.zeros(self._layout.tiles, bool)
        for tiles, lengths in shapes.items():
            for run in grids.tiles.runs(tiles):
                if taken[slice(*run)].any():
                    continue
                if known := self._known_parts(run, grids.parts, lengths, whole=whole):
                    runs[run] = known
                    taken[slice(*run)] = True
        return runs

    def _shapes(self, grids: LeafGrids, *, whole: bool) -> dict[int, list[int]]:
        """Return lengths of runs of tiles, and of parts of these, that entries may be of.

        The largest first.
        """
        lengths = [grids.parts.count] if whole else list(grids.parts.lengths)
        found, spans = dict[int, list[int]](), self.ledger.spans
        for length in reversed(grids.tiles.lengths):
            own = [n for n in reversed(lengths) if grids.span(length, n) in spans]
            if own:
                found[length] = own
        return found

    def _known_parts(
        self, run: Range, grid: RunGrid, lengths: Sequence[int], *, whole: bool
    ) -> set[Range]:
        found, taken = set[Range](), np.zeros(self._layout.parts, bool)
        for length in lengths:
            for one in [(0, grid.count)] if whole else grid.runs(length):
                if not taken[slice(*one)].any() and self._known(_block(run, one)):
                    found.add(one)
                    taken[slice(*one)] = True
        return found


def _refuse_unkept(request: Request, listings: Sequence[Listing | None], terms: Terms) -> None:
    """Refuse a reduction whose partials no ledger keeps.

    Raises
    ------
    UnfitForLedgerError
        If it rounds in every operation, or nothing tells whether chunks are those that they were.
    """
    rounding = [
        one.name
        for question in request.all_requests
        for one in question.bound(fp64=terms.fp64).statistics
        if one.rounds
    ]
    if rounding:
        raise UnfitForLedgerError(
            f"{', '.join(rounding)}: rounded in every operation, so that its last bits depend on "
            "the content of a ledger: omit the ledger, or compute it in a separate run"
        )
    untimed = _UNTIMED if request.options.ledger_verify == "listing" else ""
    for source, listing in zip(request.sources, listings, strict=True):
        region = [slice(0, size) for size in source.shape]
        web = any(one.startswith(("http://", "https://")) for one in source.addresses)
        if web and untimed and listing is None:
            raise UnfitForLedgerError(
                f"{source.name}: a plain web server does not say when chunks were written: omit "
                f"the ledger{untimed}"
            )
        if listing is None or listing.modified is None or not stored_identity(source, region):
            raise UnfitForLedgerError(
                f"{source.name}: a ledger needs chunks that can be listed with their modification "
                "times: Zarr arrays in folders or object stores (several as one if their chunks "
                f"form one grid). This source is {source.kind} and has no such times: omit the "
                f"ledger{untimed if source.remote else ''}"
            )
        if listing.contents is None and (listing.sizes > 0)[listing.modified <= 0].any():
            raise UnfitForLedgerError(
                f"{source.name}: its store does not say when chunks were written: omit the "
                f"ledger{untimed}"
            )


def known_leaves(layout: Layout, blocks: Sequence[Block]) -> np.ndarray:
    """Return which leaves are in blocks that a ledger has: bool, (tiles, parts)."""
    known = np.zeros((layout.tiles, layout.parts), bool)
    for one in blocks:
        known[slice(*one.tiles), slice(*one.parts)] |= one.known
    return known


def has_less_than(ledger: Ledger, layout: Layout) -> bool:
    """Return True if a ledger has partials of fewer elements than a leaf: that leaf misses them."""
    elements = leaf_elements(layout)
    return any(math.prod(span) < elements for span in ledger.spans)


def _block(tiles: Range, parts: Range) -> Block:
    return Block(0, tiles, parts)


def _sizes(
    costs: np.ndarray,
    grids: LeafGrids,
    workers: int,
    partial_bytes: int,
    *,
    whole: bool,
    largest: int = MOST_BLOCK_BYTES,
) -> tuple[int, int]:
    """Return how many tiles, and parts of each, a block has.

    Parts come first, until partials are small beside what they are made of.
    """
    least, most = BLOCK_BYTES
    most = min(max(most, BLOCK_PER_PARTIAL * partial_bytes), largest)
    total = max(1.0, float(costs.sum()))
    least = max(least, BLOCK_PER_PARTIAL * partial_bytes)
    wanted = min(max(total / (BLOCKS_PER_WORKER * workers), least), most)
    leaves = max(1, round(wanted / total * costs.size))
    along = grids.parts.count if whole else grids.parts.longest(leaves)
    return grids.tiles.longest(leaves // along), along

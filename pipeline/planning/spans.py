"""Cut leaves into blocks whose partials a ledger keeps: by the array's grid, whoever works.

Blocks are runs of 1, 2, 4, ... tiles, and of as many parts of these, that begin at multiples of
their length, counted from the start of the array. So another run finds them, however large its own
blocks would be, and an array that grows has new ones at its end alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from chunkfold.errors import LedgerError
from chunkfold.ledger.ledger import Ledger
from chunkfold.planning.blocks import (
    BLOCK_BYTES,
    LARGEST_BYTES,
    TO_PARTIAL,
    Block,
    TileRange,
    packed_leaves,
)
from chunkfold.planning.folding import Folding, RolledUp
from chunkfold.planning.layout import Layout
from chunkfold.planning.request import Request
from chunkfold.planning.span_keys import QuestionKeys, question_keys
from chunkfold.planning.workers import Terms
from chunkfold.sources.chunk_index import Listing
from chunkfold.sources.stored_identity import stored_identity

BLOCKS_PER_WORKER = 4
"""Blocks for each worker, at least: what is under way is lost with it."""
SETTLED_NS = (2_000_000_000, 60_000_000_000)
"""Age of a chunk from which on it is trusted to be what it was, on this host's disks and behind a
network: within a tick of a clock it could be written again, and look the same."""


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
        whole: bool,
    ) -> tuple[Block, ...]:
        """Cut leaves into blocks; parameters as `cut_blocks`."""
        layout = self._layout
        first = (0, layout.parts) if whole else None
        tiles, parts = _sizes(costs, workers, partial_bytes, whole=whole)
        tile_offset, part_offset = _offsets(layout)
        runs = self._known_runs(tile_offset, part_offset, first)
        made = list[Block]()
        for run in _filled(runs, layout.tiles, tiles, tile_offset):
            known = runs.get(run, set())
            cut = [first] if first else _filled(known, layout.parts, parts, part_offset)
            made += (replace(_block(run, one), known=one in known) for one in cut)
        settled = time.time_ns() - SETTLED_NS[self.remote]
        newest = self.questions[0].leaves.newest
        blocks = []
        for number, one in enumerate(made):
            at = slice(*one.tiles), slice(*one.parts)
            entries = self._keys(one) if newest[at].max(initial=0) <= settled else ()
            bits, has = packed_leaves(unstored[at]), one.known and bool(entries)
            blocks.append(Block(number, one.tiles, one.parts, bits, entries=entries, known=has))
        return tuple(blocks)

    def _keys(self, block: Block) -> tuple[str, ...]:
        return tuple(one.key(block) for one in self.questions)

    def _known(self, block: Block) -> bool:
        return all(
            self.ledger.has(key, one.components)
            for key, one in zip(self._keys(block), self.questions, strict=True)
        )

    def _known_runs(
        self, tile_offset: int, part_offset: int, first: TileRange | None
    ) -> dict[TileRange, set[TileRange]]:
        """Return runs of tiles, and those parts of them that the ledger has; the largest first."""
        layout, runs = self._layout, dict[TileRange, set[TileRange]]()
        taken = np.zeros(layout.tiles, bool)
        shapes = sorted(self.ledger.spans, reverse=True)
        for tiles in dict.fromkeys(tiles for tiles, _ in shapes):
            lengths = [parts for own, parts in shapes if own == tiles]
            for run in _aligned(layout.tiles, tiles, tile_offset):
                if taken[slice(*run)].any():
                    continue
                if known := self._known_parts(run, lengths, part_offset, first):
                    runs[run] = known
                    taken[slice(*run)] = True
        return runs

    def _known_parts(
        self, run: TileRange, lengths: Sequence[int], offset: int, first: TileRange | None
    ) -> set[TileRange]:
        found, taken = set[TileRange](), np.zeros(self._layout.parts, bool)
        for length in lengths:
            each = [first] if first else _aligned(self._layout.parts, length, offset)
            for one in each:
                if not taken[slice(*one)].any() and self._known(_block(run, one)):
                    found.add(one)
                    taken[slice(*one)] = True
        return found


def _refuse_unkept(request: Request, listings: Sequence[Listing | None], terms: Terms) -> None:
    """Refuse a reduction whose partials no ledger keeps.

    Raises
    ------
    LedgerError
        If it rounds in every operation, or nothing tells whether chunks are those that they were.
    """
    rounding = [
        one.name
        for question in request.together
        for one in question.bound(fp64=terms.fp64).statistics
        if one.rounds
    ]
    if rounding:
        raise LedgerError(
            f"{', '.join(rounding)}: rounded in every operation, so that its last bits depend on "
            "what a ledger has: leave the ledger out, or ask it in a run of its own"
        )
    for source, listing in zip(request.sources, listings, strict=True):
        region = [slice(0, size) for size in source.shape]
        if listing is None or listing.modified is None or not stored_identity(source, region):
            raise LedgerError(
                f"{source.name}: a ledger takes Zarr arrays in folders and object stores, whose "
                "chunks can be listed with the times when they were written; several as one if "
                f"their chunks make one grid. This one is {source.kind}, and tells none: leave "
                "the ledger out"
            )
        if (listing.sizes > 0)[listing.modified <= 0].any():
            raise LedgerError(f"{source.name}: its store does not tell when chunks were written")


def known_leaves(layout: Layout, blocks: Sequence[Block]) -> np.ndarray:
    """Return which leaves are in blocks that a ledger has: bool, (tiles, parts)."""
    known = np.zeros((layout.tiles, layout.parts), bool)
    for one in blocks:
        known[slice(*one.tiles), slice(*one.parts)] |= one.known
    return known


def _block(tiles: TileRange, parts: TileRange) -> Block:
    return Block(0, tiles, parts)


def _sizes(costs: np.ndarray, workers: int, partial_bytes: int, *, whole: bool) -> tuple[int, int]:
    """Return how many tiles, and parts of each, a block has: powers of two.

    Parts come first, until partials are small beside what they are made of.
    """
    least, most = BLOCK_BYTES
    most = max(most, min(TO_PARTIAL * partial_bytes, LARGEST_BYTES))
    total = max(1.0, float(costs.sum()))
    least = max(least, TO_PARTIAL * partial_bytes)
    wanted = min(max(total / (BLOCKS_PER_WORKER * workers), least), most)
    leaves = max(1, round(wanted / total * costs.size))
    tiles, parts = costs.shape
    along = parts if whole else min(_power(leaves), 1 << max(0, parts - 1).bit_length())
    return max(1, min(_power(max(1, leaves // along)), 1 << max(0, tiles - 1).bit_length())), along


def _power(number: int) -> int:
    """Return the largest power of two up to a number."""
    return 1 << (number.bit_length() - 1)


def _offsets(layout: Layout) -> tuple[int, int]:
    """Return how many tiles, and parts of a tile, come before the first ones in the array.

    Of those along the outermost axis: along others, a selection begins anew for each.
    """
    tile, part = 0, 0
    tiles, parts = layout.tiles, layout.parts
    for kept in (True, False):
        axes = [n for n in range(len(layout.axes)) if (n not in layout.reduced) == kept]
        if not axes:
            continue
        axis = layout.axes[axes[0]]
        if axis.window or not axis.pieces or axis.picked is not None or axis.step < 0:
            continue
        before = int(axis.cells.holding(np.array([axis.start]))[0])
        if kept:
            tile = before * (tiles // axis.pieces)
        else:
            part = before * (parts // axis.pieces)
    return tile, part


def _aligned(count: int, length: int, offset: int) -> Iterator[TileRange]:
    """Yield runs of a length that begin at its multiples, counted from `offset` before the first.

    >>> list(_aligned(10, 4, 2))
    [(2, 6), (6, 10)]
    """
    for begin in range(-offset % length, count - length + 1, length):
        yield begin, begin + length


def _filled(
    known: Sequence[TileRange] | set[TileRange] | dict[TileRange, set[TileRange]],
    count: int,
    longest: int,
    offset: int,
) -> list[TileRange]:
    """Return known runs, and between them others of lengths that are powers of two.

    >>> _filled([(4, 8)], 11, 4, 0)
    [(0, 4), (4, 8), (8, 10), (10, 11)]
    """
    made, at = list[TileRange](), 0
    for begin, end in [*sorted(known), (count, count)]:
        while at < begin:
            length = longest
            while (at + offset) % length or at + length > begin:
                length //= 2
            made.append((at, at + length))
            at += length
        if end > begin:
            made.append((begin, end))
        at = end
    return made

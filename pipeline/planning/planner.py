"""Decide what a reduction will do, before it starts: leaves, blocks, tree, memory."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from chunkfold.errors import PlanError
from chunkfold.ledger.ledger import Ledger
from chunkfold.planning.blocks import Block, Tree, cut_blocks, fan_in
from chunkfold.planning.feeding import block_bytes, max_leaf_bytes, readers_per_worker
from chunkfold.planning.folding import Folding, RolledUp, foldings_with, ways_to_answer
from chunkfold.planning.in_memory import keepable, refuse_much_between_reads
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaf_extremes import SkippedLeaves
from chunkfold.planning.leaf_objects import StoredLeaves
from chunkfold.planning.leaves import (
    LeavesRead,
    larger_leaves,
    layouts_of,
    leaf_bytes,
    leaf_elements,
)
from chunkfold.planning.ledger_spans import LedgerCut, has_less_than, known_leaves
from chunkfold.planning.memory import most_at_once, result_bytes, ring_slots
from chunkfold.planning.missing_chunks import refuse_missing
from chunkfold.planning.plan import Plan
from chunkfold.planning.plan_text import memory_hint
from chunkfold.planning.questions import first_of
from chunkfold.planning.request import Request
from chunkfold.planning.tile_finishing import are_rounded
from chunkfold.planning.unmet_conditions import unmet_leaves
from chunkfold.planning.workers import READERS, Terms
from chunkfold.sources.chunk_index import Listing
from chunkfold.sources.source import Source
from chunkfold.units import size_text

LEAF_BYTES = 16 << 20
"""Small cells are joined to leaves of at most this many decoded bytes."""
_SMALLER = (4, 16, 64)
"""By how much leaves are smaller, where memory is short: first by the least."""
MOST_LEAVES = 1 << 25
"""Leaves beyond which planning would take gigabytes: half a petabyte of small chunks."""
MEMORY_SHARE = 0.6
"""Share of a worker's memory limit beyond which distributed may pause it for good."""
MOST_CHUNKS = 1 << 27
"""Chunks of a source that are selected, at most: a plan has something of each."""
_ANY = Terms()


def make_plan(
    request: Request,
    listings: Sequence[Listing | None] | None = None,
    terms: Terms = _ANY,
    *,
    once: bool = False,
    skipped: SkippedLeaves | None = None,
    ledger: Ledger | None = None,
) -> Plan:
    """Plan a reduction for workers.

    If they have little memory, fewer blocks run at once, fewer threads read, or leaves are smaller.

    Parameters
    ----------
    listings
        For each input what is stored of it, or None if that is not known.
    terms
        What is known of the workers.
    once
        True to read the data once: elements are kept for quantiles wherever memory allows it.
    skipped
        Leaves that an earlier read found to have no element that matters: they are not read.
    ledger
        Where partials are looked for, and kept.

    Raises
    ------
    PlanError
        If the memory bound does not fit the limit.
    LedgerError
        If partials of the sources cannot be kept.
    MissingError
        If a chunk is not stored that is to be.
    """
    share = MEMORY_SHARE * (terms.memory_limit or math.inf)
    limits = [request.options.memory_bytes or math.inf, share]
    known, most = tuple(listings or [None] * len(request.sources)), min(limits)
    if request.options.wants_all:
        refuse_missing(request.sources, known, request.chosen)
    if request.secondary:
        request = first_of(request, terms, partial(_layouts, terms=terms))
    request = replace(request, keeping=False) if request.keeping else request
    if request.reads_again(fp64=terms.fp64):
        keeping = replace(request, keeping=True)
        if plan := _fitting(keeping, known, terms, most, skipped, ledger, once=once):
            return plan
    for one in request.all_requests:
        if one.reads_again():
            refuse_much_between_reads(one)
    if plan := _fitting(request, known, terms, most, skipped, ledger):
        return plan
    least = min(_layouts(request, terms), key=leaf_elements)
    answered = ways_to_answer(request, terms)(least)
    plan = _planned(request, answered, known, terms, most, skipped, None)
    allowed = size_text(int(min(limits)))
    if limits[1] < limits[0]:
        allowed += f" ({MEMORY_SHARE:.0%} of its limit of {size_text(terms.memory_limit or 0)})"
    raise PlanError(
        f"{plan.name}: a worker needs {size_text(plan.memory.total)}, but may use only "
        f"{allowed}, even with leaves of {size_text(plan.scan.leaf_bytes)}: use "
        + "fewer workers, " * (terms.workers > 1)
        + "more memory, or smaller chunks or selections"
        + memory_hint(plan)
    )


def _fitting(
    request: Request,
    listings: tuple[Listing | None, ...],
    terms: Terms,
    most: float,
    skipped: SkippedLeaves | None,
    ledger: Ledger | None,
    *,
    once: bool = False,
) -> Plan | None:
    """Return the best plan that takes no more than so many bytes of a worker; None if none does."""
    answers = ways_to_answer(request, terms)
    ways, staged = partial(_layouts, request, terms), partial(_staged, request.sources)

    def folded(layout: Layout) -> list[Folding]:
        return [one for one in answers(layout) if isinstance(one, Folding)]

    larger = larger_leaves(request, terms, partial(_cut, request), folded, LEAF_BYTES)
    likely = itertools.chain(
        [] if larger is None else [larger],
        # First layouts whose staging takes at most half of the memory.
        (one for one in ways() if 2 * staged(one) <= most),
        (one for one in ways() if staged(one) <= most < 2 * staged(one)),
    )
    for layout in likely:
        if request.keeping and not keepable(request, layout, terms, once=once):
            continue
        plan = _planned(request, answers(layout), listings, terms, most, skipped, ledger)
        # Memory that is short is better spent on readers than on larger leaves.
        spared = layout is larger and (plan.threads, plan.readers) < (terms.threads, terms.readers)
        if plan.memory.total > most or spared:
            continue
        if ledger is not None and plan.scan.nbytes and has_less_than(ledger, layout):
            usual = _cut(request, LEAF_BYTES)[0]
            other = _planned(request, answers(usual), listings, terms, most, skipped, ledger)
            if other.memory.total <= most and 2 * other.scan.nbytes < plan.scan.nbytes:
                return other
        return plan
    return None


def fitted(plan: Plan, terms: Terms) -> Plan:
    """Return a plan for workers that are there: the same one, if it was made for their terms.

    Else a new plan is made of its listings; also if it has a ledger, which may know more by now.
    """
    if plan.terms == terms and plan.ledger is None:
        return plan
    return make_plan(plan.request, plan.scan.listings, terms, ledger=plan.ledger)


def refuse_many_leaves(request: Request) -> None:
    """Refuse a selection that no plan has room for, whoever works.

    Raises
    ------
    PlanError
        If it has too many leaves.
    """
    _refuse_many(request, next(_layouts(request, _ANY)))


def _refuse_many(request: Request, layout: Layout) -> None:
    """Refuse leaves and chunks that are too many: plans know something of each, however small."""
    if layout.leaves > MOST_LEAVES:
        most = leaf_bytes(request.sources, layout)
        raise PlanError(
            f"{request.sources[0].name}: its selection has {layout.leaves:,} leaves of at most "
            f"{size_text(most)}, but a plan can have at most {MOST_LEAVES:,}: select less, or use "
            "larger chunks"
        )
    for source in request.sources:
        touched = (axis.touched(unit) for axis, unit in zip(layout.axes, source.unit, strict=True))
        chunks = math.prod(int((behind - first).sum()) for first, behind in touched)
        if chunks > MOST_CHUNKS:
            raise PlanError(
                f"{source.name}: {chunks:,} chunks of {source.unit} are selected, but a plan can "
                f"have at most {MOST_CHUNKS:,}: select less, or write it with larger chunks"
            )


def _layouts(request: Request, terms: Terms) -> Iterator[Layout]:
    """Yield ways to cut a selection in leaves: the best first, then into smaller ones."""
    usual_bytes = max_leaf_bytes(request, terms, LEAF_BYTES)
    found = _cut(request, usual_bytes)
    yield from found
    for divisor in _SMALLER:
        for layout in _cut(request, usual_bytes // divisor):
            if layout not in found and layout.leaves <= MOST_LEAVES:
                found.append(layout)
                yield layout


def _cut(request: Request, most_bytes: int) -> list[Layout]:
    """Return ways to cut a selection in leaves of at most so many bytes, where cells are small."""
    return layouts_of(request.sources, request.chosen, request.reduced, most_bytes, request.groups)


def _staged(sources: tuple[Source, ...], layout: Layout) -> int:
    """Return the bytes of one reader's staging buffers."""
    return ring_slots(1) * leaf_bytes(sources, layout) * len(sources)


def _planned(
    request: Request,
    questions: tuple[Folding | RolledUp, ...],
    listings: tuple[Listing | None, ...],
    terms: Terms,
    most: float,
    skipped: SkippedLeaves | None,
    ledger: Ledger | None,
) -> Plan:
    """Plan a reduction whose leaves are given, with as much at once as `most` bytes allow."""
    sources, groups = request.sources, request.groups
    layout, accumulator = questions[0].layout, questions[0].accumulator
    _refuse_many(request, layout)
    stored, most_of_leaf = StoredLeaves.of(layout, sources, listings), leaf_bytes(sources, layout)
    readers = READERS[1] if any(s.remote for s in sources) else readers_per_worker(request, terms)
    partial_bytes = accumulator.nbytes * groups * layout.most_outputs
    costs, decoded = stored.costs(accumulator, groups), stored.decoded
    unneeded = None if skipped is None else skipped.of(layout)
    if ledger is not None:
        unneeded = unmet_leaves(request, layout, listings, terms, ledger)
    if unneeded is not None:
        costs, decoded = costs * ~unneeded, decoded * ~unneeded
    streamed_bytes, streamed = result_bytes(request, layout), request.streamed
    whole = request.keeping or (streamed is not None and streamed.coarser > 0)
    results = streamed_bytes / max(1.0, float(costs.sum()))
    blocks: tuple[Block, ...] = ()
    if layout.elements and ledger is not None:
        cut = LedgerCut.of(ledger, request, questions, listings, terms)
        blocks = cut.blocks(
            costs,
            stored.unstored,
            terms.workers,
            partial_bytes,
            results=results,
            whole=whole,
            unneeded=unneeded,
        )
        known = known_leaves(layout, blocks)
        decoded, unneeded = decoded * ~known, None if unneeded is None else unneeded & ~known
    elif layout.elements:
        blocks = cut_blocks(
            costs,
            stored.unstored,
            terms.workers,
            partial_bytes,
            with_data=not all(source.travels for source in sources),
            results=results,
            whole=whole,
            unneeded=unneeded,
            fed=block_bytes(request, terms, most_of_leaf),
            rounded=are_rounded(request, terms, layout, accumulator),
        )
    blocks_of_tiles = Counter(block.tiles for block in blocks)
    tree = Tree(max(blocks_of_tiles.values(), default=1), fan_in(partial_bytes))
    count = len(blocks_of_tiles)
    at_once = most_at_once(request, questions, terms, tree, count, readers, streamed_bytes, most)
    if not at_once.preaggregates:
        questions = foldings_with(questions, preaggregates=False)
    if ledger is not None and not request.staged:  # it keeps partials, not results
        questions = foldings_with(questions, finishing=None)
    return Plan(
        request=request,
        terms=terms,
        questions=questions,
        blocks=blocks,
        scan=LeavesRead(
            most_of_leaf,
            round(decoded.sum()),
            unstored=int((stored.unstored & (layout.leaf_elements() > 0)).sum()),
            unneeded=0 if unneeded is None else int(layout.leaf_elements()[unneeded].sum()),
            listings=listings,
        ),
        at_once=at_once,
        largest_tree=tree,
        ledger=ledger,
    )

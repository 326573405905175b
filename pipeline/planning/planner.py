"""Decide what a reduction will do, before it starts: leaves, blocks, tree, memory."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.grid import Axis, Selection, normalized_axes, select
from chunkfold.kernels import Accumulator, Bound
from chunkfold.planning.blocks import cut_blocks
from chunkfold.planning.combine_tree import Tree, fan_in
from chunkfold.planning.grouping import Grouping
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaves import layouts_of, leaf_elements
from chunkfold.planning.memory import projected, ring_slots
from chunkfold.planning.missing_chunks import Holdings
from chunkfold.planning.plan import Plan
from chunkfold.planning.staffing import READERS
from chunkfold.sources.chunk_index import Listing
from chunkfold.sources.source import Source
from chunkfold.stores.requests import FLIGHT_BYTES
from chunkfold.units import size_text

LEAF_BYTES = 16 << 20
"""Small cells are joined to leaves of at most this many decoded bytes."""
_SMALLER = (4, 16, 64)
"""By how much leaves are smaller, where memory is short: first by the least."""
MOST_LEAVES = 1 << 25
"""Leaves beyond which planning would take gigabytes: half a petabyte of small chunks."""
VIRTUAL_COST = 16
"""How much sooner fill values are made than chunks are read and decoded."""
MEMORY_SHARE = 0.6
"""Share of a worker's memory limit beyond which distributed may pause it for good."""


def make_plan(
    sources: tuple[Source, ...],
    bound: Bound,
    *,
    axis: int | Sequence[int] | None = None,
    selection: Selection = None,
    listings: Sequence[Listing | None] | None = None,
    workers: int = 1,
    threads: int = 1,
    readers: int = READERS[0],
    requests: int = 1,
    memory_limit: int | None = None,
    memory: int | None = None,
    grouping: Grouping | None = None,
) -> Plan:
    """Plan a reduction.

    Parameters
    ----------
    axis
        Axes of the selection to reduce, as NumPy counts them; None for all.
    listings
        For each input what is stored of it, or None if that is not known.
    workers, threads, readers
        Workers, and of each the blocks that it runs at once and the threads that read for them, at
        most.
    requests
        That each worker may have in flight for one host, at most.
    memory_limit
        Bytes that distributed allows each worker, if it has a limit.
    memory
        Bytes that the caller allows each worker above an idle one. Where they are few, fewer blocks
        run at once, or else fewer threads read, or else leaves are smaller.
    grouping
        The groups of elements, where there are some.

    Raises
    ------
    PlanError
        If axis or selection do not fit the array, or the memory bound the limit.
    """
    chosen = select(sources[0].grid, selection)
    alive = [n for n, entry in enumerate(chosen) if not entry.dropped]
    named = {alive[n] for n in normalized_axes(axis, len(alive))}
    # An axis selected by an integer has one element: reducing it changes nothing.
    reduced = tuple(n for n, entry in enumerate(chosen) if n in named or entry.dropped)
    limits = [memory or math.inf, MEMORY_SHARE * (memory_limit or math.inf)]
    planned = partial(
        _planned,
        sources=sources,
        bound=bound,
        listings=tuple(listings or [None] * len(sources)),
        workers=workers,
        threads=threads,
        readers=readers,
        requests=requests,
        most=min(limits),
        grouping=grouping,
    )
    ways = partial(_layouts, sources, chosen, reduced, grouping.count if grouping else 1)
    staged = partial(_staged, sources)
    likely = itertools.chain(
        # First those that leave as much again for what is beside it.
        (one for one in ways() if 2 * staged(one) <= min(limits)),
        (one for one in ways() if staged(one) <= min(limits) < 2 * staged(one)),
    )
    for plan in map(planned, likely):
        if plan.memory.total <= min(limits):
            return plan
    plan = planned(min(ways(), key=leaf_elements))
    allowed = size_text(int(min(limits)))
    if limits[1] < limits[0]:
        allowed += f" ({MEMORY_SHARE:.0%} of its limit of {size_text(memory_limit or 0)})"
    raise PlanError(
        f"{plan.name}: a worker needs {size_text(plan.memory.total)}, but may use only "
        f"{allowed}, even with leaves of {size_text(plan.leaf_bytes)}: use "
        + "fewer workers, " * (workers > 1)
        + "more memory, or smaller chunks or selections"
        + _hint(plan)
    )


def _layouts(
    sources: tuple[Source, ...], chosen: Sequence[Axis], reduced: tuple[int, ...], groups: int
) -> Iterator[Layout]:
    """Yield ways to cut a selection in leaves: the best first, then into smaller ones."""
    found = layouts_of(sources, chosen, reduced, LEAF_BYTES, groups)
    yield from found
    for divisor in _SMALLER:
        for layout in layouts_of(sources, chosen, reduced, LEAF_BYTES // divisor, groups):
            if layout not in found and layout.leaves <= MOST_LEAVES:
                found.append(layout)
                yield layout


def _staged(sources: tuple[Source, ...], layout: Layout) -> int:
    """Return the bytes of one reader's staging buffers."""
    return ring_slots(1) * _leaf_bytes(sources, layout) * len(sources)


def _leaf_bytes(sources: tuple[Source, ...], layout: Layout) -> int:
    return max(source.dtype.itemsize for source in sources) * leaf_elements(layout)


def _planned(
    layout: Layout,
    sources: tuple[Source, ...],
    bound: Bound,
    listings: tuple[Listing | None, ...],
    workers: int,
    threads: int,
    readers: int,
    requests: int,
    most: float,
    grouping: Grouping | None,
) -> Plan:
    """Plan a reduction whose leaves are given, with as much at once as `most` bytes allow."""
    groups, keys = (grouping.count, grouping.keys) if grouping else (1, None)
    accumulator = bound.accumulator.for_outputs(groups * layout.outputs)
    leaf_bytes = _leaf_bytes(sources, layout)
    if layout.leaves > MOST_LEAVES:
        raise PlanError(
            f"{sources[0].name}: its selection has {layout.leaves:,} leaves of at most "
            f"{size_text(leaf_bytes)}, but plans have room for {MOST_LEAVES:,}: select less, or "
            "use larger chunks"
        )
    holdings = Holdings.of(layout, sources, listings)
    if any(source.remote for source in sources):
        readers = READERS[1]
    partial_bytes = accumulator.nbytes * groups * layout.most_outputs
    costs = _costs(layout, accumulator, holdings, groups)
    carried = not all(source.travels for source in sources)
    blocks = (
        cut_blocks(costs, holdings.absent, workers, partial_bytes, carried=carried)
        if layout.elements
        else ()
    )
    shared = max(Counter(block.tiles for block in blocks).values(), default=1)
    tree = Tree(shared, fan_in(partial_bytes))
    # Readers keep the cores busy; blocks that run at once only see to it that they go on.
    ways = itertools.product(range(readers, 0, -1), range(threads, 0, -1))
    flights = _flights(sources)
    for (reading, at_once), fetching in itertools.product(ways, flights):
        needed = projected(
            layout,
            accumulator,
            sources,
            leaf_bytes,
            at_once,
            reading,
            tree,
            workers,
            fetching,
            keys,
        )
        if needed.total <= most:
            break
    return Plan(
        sources=sources,
        accumulator=accumulator,
        ops=tuple(statistic.name for statistic in bound.statistics),
        rounding=tuple(one.name for one in bound.statistics if one.rounds),
        layout=layout,
        blocks=blocks,
        leaf_bytes=leaf_bytes,
        nbytes=round(holdings.decoded.sum()),
        absent=int(holdings.absent.sum()),
        memory=needed,
        workers=workers,
        threads=at_once,
        readers=reading,
        requests=requests,
        tree=tree,
        listings=listings,
        grouping=grouping,
    )


def _flights(sources: tuple[Source, ...]) -> list[int]:
    """Return how many bytes may be in flight: best first; a chunk at least."""
    if not any(source.remote for source in sources):
        return [0]
    least = max(math.prod(source.object_shape) * source.dtype.itemsize for source in sources)
    sizes = [max(FLIGHT_BYTES >> halved, least) for halved in range(4)]
    return list(dict.fromkeys(sizes))


def _hint(plan: Plan) -> str:
    """Say what else helps where accumulators are most of it."""
    tables = any(slot.field.limbs is None for slot in plan.accumulator.tables)
    helps = ["make fewer groups"] * (plan.groups > 1)
    helps += ["keep fewer outputs"] * (plan.layout.outputs > 1) + [
        "give a histogram edges"
    ] * tables
    if 2 * plan.memory.accumulators < plan.memory.total or not helps:
        return ""
    return f"; accumulators take {size_text(plan.memory.accumulators)}: {', and '.join(helps)}"


def _costs(layout: Layout, accumulator: Accumulator, holdings: Holdings, groups: int) -> np.ndarray:
    """Return what leaves cost, in decoded bytes that take as long: float64, (tiles, parts).

    The decoded bytes of what is stored are shared out as stored bytes are. Fill values cost where
    they must be made, and the accumulators of a tile wherever they come from.
    """
    costs, held = holdings.decoded, holdings.held
    if held is not None:
        costs = held * (costs.sum() / max(1, held.sum()))
    if not accumulator.takes_first or (groups > 1 and accumulator.uses_index):
        itemsize = sum(source.dtype.itemsize for source in holdings.sources)
        costs = costs + holdings.absent * layout.leaf_elements() * itemsize / VIRTUAL_COST
    outputs = groups * layout.outputs / max(1, layout.tiles)
    return np.asarray(costs + outputs * accumulator.nbytes / max(1, layout.parts))

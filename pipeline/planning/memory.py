"""The memory that a worker takes at most: pure integer functions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from chunkfold.decoding.device_batch import MOST_TOUCHED
from chunkfold.kernels.fold.combine import SLAB_BYTES
from chunkfold.kernels.fold.keyed.keyed_plan import shares_tables
from chunkfold.kernels.fold.shapes import MOST_GROUPS, split_bytes
from chunkfold.planning.blocks import RESULT_BYTES, Tree
from chunkfold.planning.feeding import decoding_bytes, is_fed
from chunkfold.planning.folding import Folding, RolledUp
from chunkfold.planning.group_keys import RENUMBERED_BYTES
from chunkfold.planning.in_memory import kept_bytes
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaves import leaf_bytes
from chunkfold.planning.request import Request
from chunkfold.planning.workers import Terms
from chunkfold.sources.source import Source
from chunkfold.stores.requests import FLIGHT_BYTES

OPEN_BYTES = 64 << 20
"""Accumulators that a block keeps on its device for the other questions, next to one tile of each:
those used last."""
AGAIN_BYTES = 64 << 20
"""Limbs that a block keeps at a time, where expansions did not hold its sums."""


@dataclass(frozen=True)
class Memory:
    """The memory bound of a worker, above an idle one that has built its kernels; bytes.

    Memory of a driver's compiler is not counted, nor are results in the caller's own process.
    """

    staging: int
    """Buffers that chunks are decoded into, over all blocks that run at once."""
    decoding: int
    """Compressed and decoded leaves in flight, over all readers."""
    accumulators: int
    """Partials on the device and on the host."""
    fetching: int = 0
    """Stored bytes that come over a network, or wait to be decoded."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.staging + self.decoding + self.accumulators + self.fetching


def ring_slots(readers: int) -> int:
    """Return the staging buffers of a running block's ring, by the threads that fill them.

    One waits to be filled and two are the device's: handing one over between threads may take a
    time slice, where readers keep all cores busy.
    """
    return readers + 3


def _projected(
    sources: Sequence[Source],
    question: Folding,
    terms: Terms,
    tree: Tree,
    threads: int,
    readers: int,
    leaf_size: int,
    *,
    preaggregates: bool,
    fetching: int = 0,
    streamed_bytes: int = 0,
    kept: int = 0,
    fed: bool = False,
) -> Memory:
    """Project a worker's memory for one question; every term in bytes.

    A reader has stored cells, compressed and decoded: whole ones, also where the selection takes
    little of them. It reads them cell by cell, small files a few at a time; zarr decodes all cells
    of a leaf at once. Places that no slice selects are read with all between them, into memory of
    their own. A reader reads one input at a time. Partials of `tree`, over the blocks of a tile,
    may wait on one worker for their siblings. Roots wait where they are; if results are
    written as they come, a few blocks' results wait instead, of `streamed_bytes` in all.

    Each group of an output has an accumulator. A worker has all keys of groups and all inputs that
    lack axes, and each block has some of them on its device, next to exact sums in limbs.

    Parameters
    ----------
    leaf_size
        Most decoded bytes of a leaf of one input.
    preaggregates
        True if rows may be folded first.
    fetching
        Bytes of objects that come over a network.
    kept
        Bytes that a block keeps of elements, to choose some.
    fed
        True where devices are fed from files, and decode.
    """
    layout, accumulator, keys = question.layout, question.accumulator, question.keys
    touches = [(source, _touched(layout, source)) for source in sources]
    in_flight = max(
        source.reading_bytes(leaf_size, touched) + layout.gathers * touched
        for source, touched in touches
    )
    decoders = max(
        decoding_bytes(source, min(touched, MOST_TOUCHED * leaf_size)) if fed else 0
        for source, touched in touches
    )
    groups = question.groups
    outputs = groups * max(layout.most_outputs, 1)
    partial = outputs * accumulator.nbytes
    limbs = accumulator.with_limbs().nbytes
    again = min(max(AGAIN_BYTES, groups * limbs), outputs * limbs)
    splits = split_bytes(outputs, accumulator.nbytes)
    tables = splits if accumulator.tables else 3 * again if accumulator.exact else 0
    waiting = (tree.fan_in - 1) * tree.height * partial
    # They are copied to the device slab by slab, and what comes of it is put together.
    slabs = 2 * min(SLAB_BYTES, tree.fan_in * partial) + partial if tree.height else 0
    roots = groups * layout.outputs * accumulator.nbytes // terms.workers
    if streamed_bytes:  # beside what windows of outputs are combined from
        roots = min(2 * threads * RESULT_BYTES, streamed_bytes) + 2 * threads * partial
    constants = (1 + threads) * sum(one.values.nbytes for one in question.broadcast)
    if preaggregates and question.preaggregation is not None:
        tables += question.preaggregation.nbytes
    if keys is not None:
        leaf = leaf_size // max(one.dtype.itemsize for one in sources)
        constants += keys.nbytes + threads * keys.device_bytes(leaf)
        constants += threads * min(keys.nbytes, RENUMBERED_BYTES)
        if shares_tables(layout.most_outputs):  # tables of all, on the device and read back
            tables += 3 * outputs * limbs
    return Memory(
        staging=threads * ring_slots(readers) * leaf_size * len(sources),
        decoding=readers * (2 * in_flight + decoders),
        accumulators=threads * (3 * partial + tables + slabs + kept) + waiting + roots + constants,
        fetching=fetching,
    )


def _touched(layout: Layout, source: Source) -> int:
    """Return the decoded bytes of the cells of a source that a leaf may touch."""
    extents = []
    for axis, cell in zip(layout.axes, source.unit, strict=True):
        if axis.window:
            first, behind = axis.touched(cell)
            most = int((behind - first).max(initial=0)) * cell
            extents.append(min(axis.cells.size, most))
            continue
        leaf = axis.cells.cell
        # The grid of another input may lie across the leaf's: one cell more.
        cells = -(-leaf // cell) + (leaf % cell != 0)
        extents.append(min(axis.cells.size, cells * cell))
    return math.prod(extents) * source.dtype.itemsize


def result_bytes(request: Request, layout: Layout) -> int:
    """Return the most bytes of all results that are written as they come; 0 if none are.

    Axes that results add are not counted.

    Coarser levels have no more bytes together than the first one.
    """
    if request.streamed is None:
        return 0
    finer = 1 if request.streamed.levels == 1 else 2
    return 8 * len(request.options.names) * request.groups * layout.outputs * finer


def _flights(sources: tuple[Source, ...]) -> list[int]:
    """Return how many bytes may be in flight: best first; a chunk at least."""
    if not any(source.remote for source in sources):
        return [0]
    least = max(math.prod(source.object_shape) * source.dtype.itemsize for source in sources)
    sizes = [max(FLIGHT_BYTES >> halved, least) for halved in range(4)]
    return list(dict.fromkeys(sizes))


def _secondary_bytes(
    request: Request,
    questions: Sequence[Folding | RolledUp],
    terms: Terms,
    tree: Tree,
    threads: int,
    readers: int,
    roots: int,
    leaf_size: int,
    *,
    preaggregates: bool,
) -> int:
    """Return the bytes that a worker takes for accumulators of the other questions, at most.

    A block may meet all tiles of theirs, and so may each of so many `roots` of the first one's.
    If bad chunks are left out, a block has a copy of its state before each of its tiles, too.
    """
    total = outputs = 0
    copies = threads * (1 + request.options.skips) + -(-roots // terms.workers)
    for one in questions:
        everything = one.groups * one.layout.outputs * one.accumulator.nbytes
        total += copies * everything
        if isinstance(one, RolledUp):
            total += threads * one.roll_up.nbytes
            continue
        own = _projected(
            request.sources,
            one,
            terms,
            tree,
            threads,
            readers,
            leaf_size,
            preaggregates=preaggregates,
        )
        total += own.accumulators
        # Else one tile's splits are counted.
        if one.layout.outputs > 1 or not one.accumulator.tables:
            outputs += everything
    return total + threads * min(OPEN_BYTES, MOST_GROUPS * outputs)


class AtOnce(NamedTuple):
    """The work that a worker does at once, and the memory that it takes."""

    memory: Memory
    threads: int
    """Blocks that run at once."""
    readers: int
    """Threads that read for all of these."""
    preaggregates: bool
    """True if rows of elements may be folded first."""


def most_at_once(
    request: Request,
    questions: Sequence[Folding | RolledUp],
    terms: Terms,
    tree: Tree,
    roots: int,
    readers: int,
    streamed_bytes: int,
    most_bytes: float,
) -> AtOnce:
    """Return the most work at once that fits in so many bytes; the least, if none fits.

    There are `roots` of partials, `readers` at most, and `streamed_bytes` of results that are
    written as they come.
    """
    first, *others = questions
    assert isinstance(first, Folding)
    layout, leaf_size = first.layout, leaf_bytes(request.sources, first.layout)
    kept = kept_bytes(request, layout, terms) if request.keeping or request.streamed else 0
    fed = is_fed(request, terms)
    # Readers keep the cores busy; blocks that run at once only see to it that they go on.
    ways = itertools.product(range(readers, 0, -1), range(terms.threads, 0, -1), (True, False))
    for (reading, threads, preaggregates), fetching in itertools.product(
        ways, _flights(request.sources)
    ):
        memory = _projected(
            request.sources,
            first,
            terms,
            tree,
            threads,
            reading,
            leaf_size,
            preaggregates=preaggregates,
            fetching=fetching,
            streamed_bytes=streamed_bytes,
            kept=kept,
            fed=fed,
        )
        if others:
            secondary = _secondary_bytes(
                request,
                others,
                terms,
                tree,
                threads,
                reading,
                roots,
                leaf_size,
                preaggregates=preaggregates,
            )
            memory = replace(memory, accumulators=memory.accumulators + secondary)
        found = AtOnce(memory, threads, reading, preaggregates)
        if memory.total <= most_bytes:
            break
    return found

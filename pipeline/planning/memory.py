"""The memory that a worker takes at most: pure integer functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from chunkfold.decoding.device_chunks import MOST_TOUCHED
from chunkfold.kernels import Accumulator
from chunkfold.kernels.fold.combine import SLAB_BYTES
from chunkfold.kernels.fold.keyed.plan import shares_tables
from chunkfold.kernels.fold.shapes import split_bytes
from chunkfold.planning.blocks import RESULT_BYTES
from chunkfold.planning.broadcast_inputs import BroadcastInput, broadcast_bytes
from chunkfold.planning.combine_tree import Tree
from chunkfold.planning.feeding import decoding_bytes
from chunkfold.planning.group_keys import RENUMBERED_BYTES
from chunkfold.planning.grouping import AnyKeys
from chunkfold.planning.layout import Layout
from chunkfold.planning.rows import WayOfRows
from chunkfold.sources.source import Source

AGAIN_BYTES = 64 << 20
"""Limbs that a block keeps at a time, where expansions did not hold its sums."""


@dataclass(frozen=True)
class Memory:
    """The memory bound of a worker, above an idle one that has built its kernels; bytes.

    What a driver's compiler keeps is not in it, nor are results in the caller's own process.
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


def projected(
    layout: Layout,
    accumulator: Accumulator,
    sources: tuple[Source, ...],
    leaf_bytes: int,
    threads: int,
    readers: int,
    tree: Tree,
    workers: int,
    fetching: int,
    keys: AnyKeys | None = None,
    lacking: Sequence[BroadcastInput] = (),
    rows: WayOfRows | None = None,
    leaving: int = 0,
    kept: int = 0,
    *,
    fed: bool = False,
) -> Memory:
    """Project a worker's memory; every term in bytes.

    A reader holds stored cells, compressed and decoded: whole ones, also where the selection takes
    little of them. They are read cell by cell, small files a few at a time; what is decoded by zarr
    all at once that a leaf has. Places that no slice selects are read with what is between them,
    into memory of their own. It reads one input at a time. `fetching` is what a worker has of
    objects that come over a network. Of the partials of `tree`, over the blocks of a tile, so many
    may wait on one worker for their siblings; roots wait where they are, but where results leave as
    they come: of all those, `leaving` bytes, a few blocks' wait then.

    `kept` is what a block keeps of elements, to choose some. Of each output there is one for each
    group of `keys`, which a worker holds whole, and of which each block has some on its device,
    beside exact sums in limbs. Inputs that are `lacking` axes a worker holds whole, too. Outputs
    are made of `rows`, if that is given. `fed`: devices are fed from files, and decode.
    """
    touches = [(source, _touched(layout, source)) for source in sources]
    in_flight = max(
        source.reading_bytes(leaf_bytes, touched) + layout.gathers * touched
        for source, touched in touches
    )
    decoders = max(
        decoding_bytes(source, min(touched, MOST_TOUCHED * leaf_bytes)) if fed else 0
        for source, touched in touches
    )
    groups = 1 if keys is None else keys.count
    outputs = groups * max(layout.most_outputs, 1)
    partial = outputs * accumulator.nbytes
    limbs = accumulator.with_limbs().nbytes
    again = min(max(AGAIN_BYTES, groups * limbs), outputs * limbs)
    splits = split_bytes(outputs, accumulator.nbytes)
    tables = splits if accumulator.tables else 3 * again if accumulator.exact else 0
    waiting = (tree.fan_in - 1) * tree.levels * partial
    # They are copied to the device slab by slab, and what comes of it is put together.
    slabs = 2 * min(SLAB_BYTES, tree.fan_in * partial) + partial if tree.levels else 0
    roots = groups * layout.outputs * accumulator.nbytes // workers
    if leaving:  # beside what windows of outputs are combined from
        roots = min(2 * threads * RESULT_BYTES, leaving) + 2 * threads * partial
    held = broadcast_bytes(lacking, threads)
    if rows is not None:
        tables += rows.nbytes
    if keys is not None:
        leaf = leaf_bytes // max(one.dtype.itemsize for one in sources)
        held += keys.nbytes + threads * keys.device_bytes(leaf)
        held += threads * min(keys.nbytes, RENUMBERED_BYTES)
        if shares_tables(layout.most_outputs):  # tables of all, on the device and read back
            tables += 3 * outputs * limbs
    return Memory(
        staging=threads * ring_slots(readers) * leaf_bytes * len(sources),
        decoding=readers * (2 * in_flight + decoders),
        accumulators=threads * (3 * partial + tables + slabs + kept) + waiting + roots + held,
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

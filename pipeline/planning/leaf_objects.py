"""The stored objects that leaves touch, and the objects that tasks are given."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from chunkfold.boxes import extents_of
from chunkfold.grid import Axis
from chunkfold.kernels import Accumulator
from chunkfold.planning.blocks import Block
from chunkfold.planning.layout import Layout
from chunkfold.planning.missing_chunks import Missing
from chunkfold.sources.chunk_index import Listing
from chunkfold.sources.source import Source
from chunkfold.stores.expected import Expected, Listed, Unlisted

SPARSE = 0.5
"""Share of a leaf's files up to which only those are read that are stored: a missing file costs
little, but the fill values that stand for it must be folded. All gaps of remote leaves are left
out."""
VIRTUAL_COST = 16
"""Bytes of fill values that are made while one byte of chunks is read and decoded."""
_SUMMED = 1 << 20
"""Cells that are added up at a time."""


def leaf_sums(
    layout: Layout,
    values: np.ndarray,
    cell: Sequence[int],
    of: Callable[[np.ndarray], np.ndarray] = np.asarray,
    weights: Sequence[np.ndarray] | None = None,
) -> np.ndarray:
    """Add up for every leaf a number of each cell of a grid that it touches.

    Parameters
    ----------
    values
        A number for each cell of the grid.
    cell
        Shape of a cell.
    of
        Function of these numbers, element by element, whose values are added up.
    weights
        Factors along each axis, by which these values are multiplied.

    Returns
    -------
    int64, (tiles, parts).
    """
    if not layout.axes:
        return np.array(of(values), np.int64).reshape(1, 1)
    touched = [axis.touched(size) for axis, size in zip(layout.axes, cell, strict=True)]
    along = max(range(len(layout.axes)), key=lambda n: values.shape[n])
    first, behind = touched[along]
    # Some leaves at a time along the longest axis: sums take more memory than what is summed.
    each = max(1, int(_SUMMED * len(first) / max(1, values.size)))
    sums = []
    for n in range(0, len(first), each):
        begin, end = int(first[n : n + each].min()), int(behind[n : n + each].max())
        rows: list[slice] = [slice(None)] * values.ndim
        rows[along] = slice(begin, end)
        some = of(values[tuple(rows)]).astype(np.int64)
        for axis, factors in enumerate(weights or ()):
            across = (1,) * axis + (-1,) + (1,) * (values.ndim - axis - 1)
            some *= factors[rows[axis]].reshape(across)
        ends = touched.copy()
        ends[along] = first[n : n + each] - begin, behind[n : n + each] - begin
        for axis, (least, most) in enumerate(ends):
            reached = np.insert(np.cumsum(some, axis=axis), 0, 0, axis=axis)
            some = reached.take(most, axis=axis) - reached.take(least, axis=axis)
        sums.append(some)
    if not sums:
        return layout.in_order(np.zeros([axis.pieces for axis in layout.axes], np.int64))
    return layout.in_order(np.concatenate(sums, axis=along))


def objects_touched(layout: Layout, shape: Sequence[int], grid: Sequence[int]) -> int:
    """Return how many objects of a shape, in a grid, have selected elements."""
    return math.prod(
        int(axis.hits(*along).sum()) for axis, *along in zip(layout.axes, shape, grid, strict=True)
    )


def leaf_objects(layout: Layout, tile: int, part: int, shape: Sequence[int]) -> tuple[slice, ...]:
    """Return which objects of a grid a leaf touches."""
    return next(leaves_objects(layout, np.array([tile]), np.array([part]), shape))


def leaves_objects(
    layout: Layout, tiles: np.ndarray, parts: np.ndarray, shape: Sequence[int]
) -> Iterator[tuple[slice, ...]]:
    """Yield which objects of a grid each of some leaves touches."""
    along = []
    for axis, size, number in zip(layout.axes, shape, layout.numbers(tiles, parts), strict=True):
        first, behind = axis.touched(size)
        along.append(map(slice, first[number].tolist(), behind[number].tolist()))
    return zip(*along, strict=True) if along else iter([()] * len(tiles))


@dataclass(frozen=True, eq=False)
class StoredInput:
    """The stored objects of an input, leaf by leaf."""

    layout: Layout
    sizes: np.ndarray
    """Bytes of each object, over their grid; 0 of one that is not stored."""
    source: Source

    @cached_property
    def _hits(self) -> tuple[np.ndarray, ...]:
        """Objects along each axis in which selected elements lie; a step may skip some."""
        return tuple(map(Axis.hits, self.layout.axes, self.source.object_shape, self.sizes.shape))

    def _leaf_sums(self, of: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        return leaf_sums(self.layout, self.sizes, self.source.object_shape, of, self._hits)

    @cached_property
    def stored_bytes(self) -> np.ndarray:
        """The stored bytes of the objects that every leaf touches: int64, (tiles, parts)."""
        return self._leaf_sums(lambda sizes: sizes)

    @cached_property
    def shares(self) -> np.ndarray:
        """The share of every leaf's objects that is stored: float32, (tiles, parts).

        It is 1 as well where few are missing, since a leaf is then read as a whole.
        """
        stored = self._leaf_sums(lambda sizes: sizes > 0)
        objects = np.maximum(self._leaf_sums(np.ones_like), 1)  # a leaf may be empty
        shares = np.divide(stored, objects, dtype=np.float32)
        return shares if self.source.remote else np.where(shares > SPARSE, np.float32(1), shares)


@dataclass(frozen=True, eq=False)
class StoredLeaves:
    """The stored objects of all inputs, leaf by leaf."""

    layout: Layout
    sources: Sequence[Source]
    stored: Mapping[int, StoredInput]
    """Inputs whose stores were listed, by number."""

    @classmethod
    def of(
        cls, layout: Layout, sources: Sequence[Source], listings: Sequence[Listing | None]
    ) -> StoredLeaves:
        """Lay listings over leaves; an input that could not be listed has None."""
        stored = {
            n: StoredInput(layout, listing.sizes, source)
            for n, (source, listing) in enumerate(zip(sources, listings, strict=True))
            if listing is not None
        }
        return cls(layout, sources, stored)

    @cached_property
    def stored_bytes(self) -> np.ndarray | None:
        """Stored bytes that every leaf takes something of: int64, (tiles, parts); None: unknown."""
        if len(self.stored) < len(self.sources):
            return None
        return np.asarray(sum(one.stored_bytes for one in self.stored.values()))

    @cached_property
    def unstored(self) -> np.ndarray:
        """Leaves of which nothing is stored: bool, (tiles, parts)."""
        leaves = (self.layout.tiles, self.layout.parts)
        return np.zeros(leaves, bool) if self.stored_bytes is None else self.stored_bytes == 0

    @cached_property
    def decoded(self) -> np.ndarray:
        """Decoded bytes of what is stored of every leaf: float64, (tiles, parts)."""
        itemsizes = [source.dtype.itemsize for source in self.sources]
        shares = [self.stored[n].shares if n in self.stored else 1.0 for n in range(len(itemsizes))]
        return self.layout.leaf_elements() * sum(
            share * itemsize for share, itemsize in zip(shares, itemsizes, strict=True)
        )

    def costs(self, accumulator: Accumulator, groups: int) -> np.ndarray:
        """Return the cost of leaves, in decoded bytes that take as long: float64, (tiles, parts).

        The decoded bytes of stored objects are shared out as stored bytes are. Fill values cost
        where they must be made, and the accumulators of a tile wherever they come from.
        """
        layout, costs, stored_bytes = self.layout, self.decoded, self.stored_bytes
        if stored_bytes is not None:
            costs = stored_bytes * (costs.sum() / max(1, stored_bytes.sum()))
        if not accumulator.takes_first or (groups > 1 and accumulator.uses_index):
            itemsize = sum(source.dtype.itemsize for source in self.sources)
            costs = costs + self.unstored * layout.leaf_elements() * itemsize / VIRTUAL_COST
        outputs = groups * layout.outputs / max(1, layout.tiles)
        return np.asarray(costs + outputs * accumulator.nbytes / max(1, layout.parts))


@dataclass(frozen=True)
class ListingTerms:
    """Facts about an input's listing that all blocks of a run have. They travel with each task."""

    size: int
    """Bytes of every stored object, if all have as many; else 0."""
    dtype: str
    """Dtype of sizes, as blocks carry them."""
    newest: int
    """When the newest object was written: nanoseconds since 1970."""

    @classmethod
    def of(cls, listing: Listing) -> ListingTerms:
        """Return the terms of a listing."""
        sizes = listing.sizes
        most = int(sizes.max(initial=0))
        alike = bool(((sizes == most) | (sizes == 0)).all())
        return cls(most if alike else 0, sizes.dtype.name, listing.newest)


def unstored(
    layout: Layout, sources: Sequence[Source], listings: Sequence[Listing | None]
) -> dict[str, tuple[int, int]]:
    """Return how many selected objects of listed inputs are not stored, and how many there are."""
    found = {}
    for source, listing in zip(sources, listings, strict=True):
        if listing is None:
            continue
        shape, grid = source.object_shape, listing.sizes.shape
        lacking, objects = 0, objects_touched(layout, shape, grid)
        if not listing.sizes.all():
            lacking = Missing.of(layout.axes, shape, listing.sizes).count
        found[source.name] = lacking, objects
    return found


def with_objects(
    block: Block,
    layout: Layout,
    sources: Sequence[Source],
    listings: Sequence[Listing | None],
    terms: Sequence[ListingTerms | None],
) -> Block:
    """Note in a block what was listed of its leaves' objects, where the run's terms do not say it.

    Only when a block is sent: what is noted of all of them would take as much memory again as the
    listing.
    """
    tiles, parts = block.leaves
    unstored = [block.unstored_parts(tile) for tile in range(*block.tiles)]
    read = ~np.concatenate(unstored) if unstored else np.zeros(0, bool)
    tiles, parts = tiles[read], parts[read]
    noted: dict[tuple[int, int, int], bytes] = {}
    for number, (source, listing, known) in enumerate(zip(sources, listings, terms, strict=True)):
        if listing is None or known is None:
            continue
        boxes = leaves_objects(layout, tiles, parts, source.object_shape)
        for tile, part, box in zip(tiles.tolist(), parts.tolist(), boxes, strict=True):
            sizes = listing.sizes[box]
            if not known.size or (sizes != known.size).any():
                noted[tile, part, number] = zlib.compress(sizes.tobytes(), 1)
    return replace(block, objects=noted)


def expected_objects(
    layout: Layout,
    sources: Sequence[Source],
    terms: Sequence[ListingTerms | None],
    block: Block,
    tile: int,
    part: int,
    missed: Sequence[set[tuple[int, ...]]],
    *,
    needed: bool = False,
) -> tuple[Expected, ...]:
    """Return what a block knows of a leaf's objects, input by input.

    For inputs that could not be listed, `missed` collects the objects that are not stored, input by
    input; unless each is `needed`.
    """
    found: list[Expected] = []
    for number, (source, known) in enumerate(zip(sources, terms, strict=True)):
        if known is None:
            found.append(Unlisted(missed[number], needed=needed))
            continue
        box = leaf_objects(layout, tile, part, source.object_shape)
        shape, first = extents_of(box), (along.start for along in box)
        packed = block.objects.get((tile, part, number))
        if packed is None:  # each of the size that all have
            sizes = np.broadcast_to(np.array(known.size, known.dtype), shape)
        else:
            flat = np.frombuffer(zlib.decompress(packed), known.dtype, count=math.prod(shape))
            sizes = flat.reshape(shape)
        size = known.size if packed is None else 0
        found.append(Listed(tuple(first), sizes, size, known.newest, source.remote, needed))
    return tuple(found)

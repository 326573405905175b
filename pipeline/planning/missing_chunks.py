"""What is stored of the leaves of a run: what they cost, and what their objects are known to be."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from chunkfold.boxes import extents_of
from chunkfold.errors import FILLED, MissingError, PlanError
from chunkfold.grid import Axis
from chunkfold.planning.blocks import Block
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaf_objects import leaf_objects, leaf_sums, leaves_objects
from chunkfold.positions import as_range
from chunkfold.sources.chunk_index import Listing
from chunkfold.sources.concatenation import ConcatenatedSource
from chunkfold.sources.source import Source
from chunkfold.stores.expected import Expected, Listed, Unlisted

SPARSE = 0.5
"""Share of a leaf's files up to which only those are read that are stored: one that is not there
costs little, but what is filled in for it must be folded. Of remote ones all gaps are left out."""
_NAMED = 3
"""Objects that messages name."""
_AT_ONCE = 1 << 20
"""Objects that are counted at a time."""


@dataclass(frozen=True)
class ListingTerms:
    """What all blocks of a run know of an input's listing. Travels with each task."""

    size: int
    """Bytes of every stored object, if all have as many; else 0."""
    dtype: str
    """Of sizes, as blocks carry them."""
    newest: int
    """When the newest object was written: nanoseconds since 1970."""

    @classmethod
    def of(cls, listing: Listing) -> ListingTerms:
        """Return the terms of a listing."""
        sizes = listing.sizes
        most = int(sizes.max(initial=0))
        alike = bool(((sizes == most) | (sizes == 0)).all())
        return cls(most if alike else 0, sizes.dtype.name, listing.newest)


@dataclass(frozen=True)
class Missing:
    """Of the objects that have selected elements, those that are not stored."""

    count: int
    objects: int
    """How many have such."""
    first: list[tuple[int, ...]]
    """Where a few of these are in the grid of objects."""

    @classmethod
    def of(cls, axes: Sequence[Axis], shape: Sequence[int], sizes: np.ndarray) -> Missing:
        """Count them, in a grid of objects of a shape that have so many bytes, 0 if not stored."""
        if not axes:
            return cls(int(sizes == 0), 1, [()] * int(sizes == 0))
        chosen = [
            np.flatnonzero(axis.hits(*along))
            for axis, *along in zip(axes, shape, sizes.shape, strict=True)
        ]
        objects, lacking, first = math.prod(map(len, chosen)), 0, list[tuple[int, ...]]()
        # Some at a time along the longest axis: a copy of all would take as much memory again.
        along = int(np.argmax(sizes.shape))
        for some in np.array_split(chosen[along], -(-objects // _AT_ONCE) or 1):
            each = [*chosen[:along], some, *chosen[along + 1 :]]
            absent = sizes[np.ix_(*each)] == 0
            lacking += int(np.count_nonzero(absent))
            if lacking and len(first) < _NAMED:
                for place in np.argwhere(absent)[: _NAMED - len(first)].tolist():
                    first.append(tuple(int(n[m]) for n, m in zip(each, place, strict=True)))
        return cls(lacking, objects, first)

    def told(self, kind: str) -> str:
        """Say how many they are, and where a few of them are."""
        places = [*map(str, self.first), *["..."] * (self.count > len(self.first))]
        return (
            f"{self.count:,} of {self.objects:,} {kind} that are selected are not stored, by their "
            f"indices {', '.join(places)}"
        )


def refuse_missing(
    sources: Sequence[Source], listings: Sequence[Listing | None], chosen: Sequence[Axis]
) -> None:
    """See that all that is selected is stored, as far as listings tell.

    Raises
    ------
    MissingError
        If a chunk is not.
    PlanError
        If nobody would notice one that is not.
    """
    for whole, listed in zip(sources, listings, strict=True):
        if not whole.tells_missing(listed=listed is not None):
            raise PlanError(
                f"{whole.name}: on_missing_chunk='stop' cannot be kept, for nothing tells which of "
                "its chunks are stored: leave it out"
            )
        for source, listing, axes in _apart(whole, listed, chosen):
            if listing is None:
                continue
            found = Missing.of(axes, source.object_shape, listing.sizes)
            if found.count:
                raise MissingError(f"{source.name}: {found.told(source.object_kind)}: {FILLED}")


def _apart(
    source: Source, listing: Listing | None, chosen: Sequence[Axis]
) -> Iterator[tuple[Source, Listing | None, Sequence[Axis]]]:
    """Yield a source with what is listed and selected of it, or its parts if it is no one grid."""
    if listing is not None or not isinstance(source, ConcatenatedSource):
        yield source, listing, chosen
        return
    n, places = source.axis, np.asarray(chosen[source.axis].places)
    for number, part in source.parts.items():
        own = places[(places >= source.starts[number]) & (places < source.starts[number + 1])]
        if own.size:
            along = Axis.at(part.grid[n], as_range(own - source.starts[number]))
            yield from _apart(part, part.listing(), [*chosen[:n], along, *chosen[n + 1 :]])


@dataclass(frozen=True, eq=False)
class StoredInput:
    """What is stored of an input, leaf by leaf."""

    layout: Layout
    sizes: np.ndarray
    """Bytes of each object, over their grid; 0 where there is none."""
    shape: tuple[int, ...]
    """Of an object, in elements."""
    remote: bool

    @cached_property
    def _hits(self) -> tuple[np.ndarray, ...]:
        """In which objects along each axis selected elements lie; a step may pass over some."""
        return tuple(map(Axis.hits, self.layout.axes, self.shape, self.sizes.shape))

    def _leaf_sums(self, of: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        return leaf_sums(self.layout, self.sizes, self.shape, of, self._hits)

    @property
    def missing(self) -> tuple[int, int]:
        """How many objects that have selected elements are not stored, and how many there are."""
        found = Missing.of(self.layout.axes, self.shape, self.sizes)
        return found.count, found.objects

    @cached_property
    def held(self) -> np.ndarray:
        """The stored bytes that every leaf takes something of: int64, (tiles, parts)."""
        return self._leaf_sums(lambda sizes: sizes)

    @cached_property
    def shares(self) -> np.ndarray:
        """The share of every leaf's objects that is stored: float32, (tiles, parts).

        1 as well where some are missing, but not so many that those that are stored are read alone.
        """
        there = self._leaf_sums(lambda sizes: sizes > 0)
        objects = np.maximum(self._leaf_sums(np.ones_like), 1)  # a leaf may be empty
        shares = np.divide(there, objects, dtype=np.float32)
        return shares if self.remote else np.where(shares > SPARSE, np.float32(1), shares)


@dataclass(frozen=True, eq=False)
class StoredLeaves:
    """What is stored of all inputs."""

    layout: Layout
    sources: Sequence[Source]
    stored: Mapping[int, StoredInput]
    """Of those inputs of which it is known."""

    @classmethod
    def of(
        cls, layout: Layout, sources: Sequence[Source], listings: Sequence[Listing | None]
    ) -> StoredLeaves:
        """Lay listings over leaves; None of an input: it could not be listed."""
        stored = {
            n: StoredInput(layout, listing.sizes, source.object_shape, source.remote)
            for n, (source, listing) in enumerate(zip(sources, listings, strict=True))
            if listing is not None
        }
        return cls(layout, sources, stored)

    @cached_property
    def held(self) -> np.ndarray | None:
        """Stored bytes that every leaf takes something of: int64, (tiles, parts); None: unknown."""
        if len(self.stored) < len(self.sources):
            return None
        return np.asarray(sum(one.held for one in self.stored.values()))

    @cached_property
    def absent(self) -> np.ndarray:
        """Of which leaves nothing is stored: bool, (tiles, parts)."""
        leaves = (self.layout.tiles, self.layout.parts)
        return np.zeros(leaves, bool) if self.held is None else self.held == 0

    @cached_property
    def decoded(self) -> np.ndarray:
        """Decoded bytes of what is stored of every leaf: float64, (tiles, parts)."""
        itemsizes = [source.dtype.itemsize for source in self.sources]
        shares = [self.stored[n].shares if n in self.stored else 1.0 for n in range(len(itemsizes))]
        return self.layout.leaf_elements() * sum(
            share * itemsize for share, itemsize in zip(shares, itemsizes, strict=True)
        )


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
    tiles, parts = (
        leaves.reshape(-1)
        for leaves in np.meshgrid(np.arange(*block.tiles), np.arange(*block.parts), indexing="ij")
    )
    absent = [block.absent_parts(tile) for tile in range(*block.tiles)]
    read = ~np.concatenate(absent) if absent else np.zeros(0, bool)
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

    Of inputs that could not be listed `missed` is told, input by input, which objects are not
    stored; unless each is `needed`.
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

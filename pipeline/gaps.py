"""Which objects are missing of leaves that are stored in part, noted in blocks and read there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np

from chunkfold.blocks import Block
from chunkfold.grid import Axis
from chunkfold.layout import Layout
from chunkfold.objects import Known
from chunkfold.source import Source

SPARSE = 0.5
"""Share of a leaf's files up to which it is noted which are stored: one that is not there costs
little to ask for, but what is filled in for it must be folded. Of remote ones all gaps are."""


@dataclass(frozen=True, eq=False)
class Stored:
    """What is stored of an input, leaf by leaf."""

    layout: Layout
    sizes: np.ndarray
    """Bytes of each object, over their grid; 0 where there is none."""
    shape: tuple[int, ...]
    """Of an object, in elements."""
    remote: bool

    @cached_property
    def _hit(self) -> np.ndarray:
        """Which objects have selected elements: int64, 1 or 0; a step may pass over some."""
        along = map(Axis.hits, self.layout.axes, self.shape, self.sizes.shape)
        return reduce(np.multiply, np.ix_(*along), np.ones(self.sizes.shape, np.int64))

    @property
    def missing(self) -> tuple[int, int]:
        """How many objects that have selected elements are not stored, and how many there are."""
        return int(self._hit[self.sizes == 0].sum()), int(self._hit.sum())

    @cached_property
    def held(self) -> np.ndarray:
        """The stored bytes that every leaf takes something of: int64, (tiles, parts)."""
        return self.layout.leaf_sums(self.sizes * self._hit, self.shape)

    @cached_property
    def shares(self) -> np.ndarray:
        """The share of every leaf's objects that is stored: float64, (tiles, parts).

        1 as well where some are missing, but not so many that it is noted which.
        """
        there = self.layout.leaf_sums((self.sizes > 0) * self._hit, self.shape)
        shares = there / self.layout.leaf_sums(self._hit, self.shape)
        return shares if self.remote else np.where(shares > SPARSE, 1.0, shares)


@dataclass(frozen=True, eq=False)
class Holdings:
    """What is stored of all inputs."""

    layout: Layout
    sources: Sequence[Source]
    stored: Mapping[int, Stored]
    """Of those inputs of which it is known."""

    @classmethod
    def of(
        cls, layout: Layout, sources: Sequence[Source], sizes: Sequence[np.ndarray | None]
    ) -> Holdings:
        """Lay the bytes of objects over leaves; None of an input: they are not known."""
        stored = {
            n: Stored(layout, given, source.object_shape, source.remote)
            for n, (source, given) in enumerate(zip(sources, sizes, strict=True))
            if given is not None
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

    def noted(self, blocks: Sequence[Block]) -> tuple[Block, ...]:
        """Note in blocks which objects are missing of leaves that are stored in part."""
        found: dict[int, dict[tuple[int, int, int], bytes]] = {}
        for number, one in self.stored.items():
            there = one.sizes > 0
            partly = (one.shares < 1) & ~self.absent
            for block in blocks:
                tiles, parts = np.nonzero(partly[slice(*block.tiles), slice(*block.parts)])
                tiles, parts = tiles + block.tiles[0], parts + block.parts[0]
                boxes = self.layout.leaves_objects(tiles, parts, one.shape)
                for tile, part, box in zip(tiles.tolist(), parts.tolist(), boxes, strict=True):
                    bits = np.packbits(there[box]).tobytes()
                    found.setdefault(block.number, {})[tile, part, number] = bits
        return tuple(replace(block, gaps=found.get(block.number, {})) for block in blocks)


def known_objects(
    layout: Layout, sources: Sequence[Source], block: Block, tile: int, part: int
) -> tuple[Known | None, ...]:
    """Return what a block knows of a leaf's objects, input by input."""
    found: list[Known | None] = []
    for number, source in enumerate(sources):
        bits = block.gaps.get((tile, part, number))
        if bits is None:
            found.append(None)
            continue
        box = layout.leaf_objects(tile, part, source.object_shape)
        shape = [along.stop - along.start for along in box]
        flat = np.unpackbits(np.frombuffer(bits, np.uint8), count=math.prod(shape))
        first = tuple(along.start for along in box)
        found.append(Known(first, flat.reshape(shape).astype(bool)))
    return tuple(found)

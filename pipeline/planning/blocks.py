"""The blocks that leaves are cut into, and the tree that their partials are combined in."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

BLOCK_BYTES = (32 << 20, 1 << 30)
"""Least and most decoded bytes of a block: about a second of work."""
DATA_BYTES = 64 << 20
"""Most decoded bytes of a block that brings what it reads: a client and a worker hold it."""
RESULT_BYTES = 32 << 20
"""Most bytes of a block's results, where these are written as they come."""
BLOCK_PER_PARTIAL, MOST_BLOCK_BYTES = 128, 4 << 30
"""Blocks with large partials are larger: so many times their partial, but no larger than this."""
MOST_IDLE = 0.1
"""Most worker slots that may stay empty in the last round, as a share of all tiles."""
BLOCKS_PER_WORKER = 4
"""Blocks for each worker where work is small, so that several workers end together."""


@dataclass(frozen=True)
class Block:
    """Leaves that one task folds: some parts of one tile, or all parts of some tiles."""

    number: int
    tiles: tuple[int, int]
    """First tile, and the one behind the last."""
    parts: tuple[int, int]
    unstored: bytes = b""
    """A bit for each leaf, tile by tile: 1 where nothing of it is stored; empty: none is so."""
    objects: Mapping[tuple[int, int, int], bytes] = field(default_factory=dict)
    """By tile, part and input: the bytes of each object that the leaf touches, in C order, 0 where
    none is stored, packed by zlib. Leaves of which nothing is stored have no entry, nor have those
    whose objects all have the size that the run's terms name."""
    unneeded: bytes = b""
    """As `unstored`: 1 where a leaf need not be read."""
    entries: tuple[str, ...] = ()
    """Keys in the run's ledger, one for each question; none if its partials are not kept there."""
    known: bool = False
    """True if the ledger has its partials, so that it is not read."""

    @property
    def leaves(self) -> tuple[np.ndarray, np.ndarray]:
        """The tile and the part of each of its leaves: int64, tile by tile."""
        tiles, parts = np.arange(*self.tiles), np.arange(*self.parts)
        return np.repeat(tiles, len(parts)), np.tile(parts, len(tiles))

    def unstored_parts(self, tile: int) -> np.ndarray:
        """Return which of the parts of a tile are not stored: bool, (parts,)."""
        return self._bits(self.unstored, tile)

    def unneeded_parts(self, tile: int) -> np.ndarray:
        """Return which of the parts of a tile need not be read: bool, (parts,)."""
        return self._bits(self.unneeded, tile)

    def _bits(self, packed: bytes, tile: int) -> np.ndarray:
        first, last = self.parts
        if not packed:
            return np.zeros(last - first, bool)
        bits = np.unpackbits(np.frombuffer(packed, np.uint8)).astype(bool)
        at = (tile - self.tiles[0]) * (last - first)
        return bits[at : at + last - first]

    def of_leaf(self, leaf: tuple[int, int], renumbered_as: tuple[int, int]) -> Block:
        """Return a block of one of its leaves, by tile and part, with another tile and part."""
        tile, part = leaf
        unstored = b"\x80" if self.unstored_parts(tile)[part - self.parts[0]] else b""
        objects = {
            (*renumbered_as, number): known
            for (*at, number), known in self.objects.items()
            if (*at,) == leaf
        }
        tiles, parts = ((n, n + 1) for n in renumbered_as)
        return Block(self.number, tiles, parts, unstored, objects)


def cut_blocks(
    costs: np.ndarray,
    unstored: np.ndarray,
    workers: int,
    partial_bytes: int,
    *,
    with_data: bool = False,
    results: float = 0,
    whole: bool = False,
    unneeded: np.ndarray | None = None,
    fed: int = 0,
    rounded: bool = False,
) -> tuple[Block, ...]:
    """Cut leaves into blocks of about equal cost.

    Parameters
    ----------
    costs
        Cost of each leaf, as decoded bytes that take the same time: (tiles, parts).
    unstored
        True for leaves of which nothing is stored: bool, of the same shape.
    workers
        Number of workers.
    partial_bytes
        Bytes of the partial of one tile.
    with_data
        True if blocks bring what they read, rather than read it themselves.
    results
        Bytes of results for each byte of cost, where results are written as they come; else 0.
    whole
        True if no tile may be shared by several blocks.
    unneeded
        True for leaves that need not be read: bool, of the same shape; None: all are read.
    fed
        Least upper bound of a block, in bytes: devices that are fed from files need larger blocks.
    rounded
        True if devices round the results of tiles that are whole: a tile that is no larger than a
        block may be is then a block of its own, if workers have about as many each.
    """
    least = BLOCK_BYTES[0]
    most = float(max(BLOCK_BYTES[1], fed))
    of_tiles = costs.sum(axis=1)
    tile = float(of_tiles.max(initial=0))
    larger = max(most, min(BLOCK_PER_PARTIAL * partial_bytes, MOST_BLOCK_BYTES))
    rounded &= tile <= larger and -len(of_tiles) % workers <= MOST_IDLE * len(of_tiles)
    # Rounded tiles have no partials. Each is a block: its results are sent while others are read.
    most = max(most, tile) if rounded else larger
    most = min(most, DATA_BYTES) if with_data else most
    most = min(most, RESULT_BYTES / results) if results else most
    each = BLOCKS_PER_WORKER if workers > 1 else 1
    if unneeded is None:
        unneeded = np.zeros(costs.shape, bool)
    wanted = min(max(float(of_tiles.sum()) / (each * workers), least), most)
    if rounded:
        wanted = max(wanted, min(tile, most))
    blocks = []
    for number, (tiles, parts) in enumerate(_runs(costs, of_tiles, wanted, whole=whole)):
        missing, not_read = (
            packed_leaves(one[slice(*tiles), slice(*parts)]) for one in (unstored, unneeded)
        )
        blocks.append(Block(number, tiles, parts, missing, unneeded=not_read))
    return tuple(blocks)


def packed_leaves(flags: np.ndarray) -> bytes:
    """Return a bit for each leaf of a block, tile by tile; empty if none is set."""
    return np.packbits(flags).tobytes() if flags.any() else b""


Range = tuple[int, int]
"""A first number of tiles or of parts, and the one behind the last."""


def _runs(
    costs: np.ndarray, of_tiles: np.ndarray, wanted: float, *, whole: bool
) -> Iterator[tuple[Range, Range]]:
    """Yield runs of tiles that are light, whole, and runs of parts of those that are heavy."""
    parts, begin = costs.shape[1], 0
    heavy = np.flatnonzero((of_tiles >= 2 * wanted) & (parts > 1) & (not whole))
    for tile in [*heavy.tolist(), len(of_tiles)]:
        for first, last in even_runs(of_tiles[begin:tile], wanted):
            yield (begin + first, begin + last), (0, parts)
        if tile < len(of_tiles):
            for run in even_runs(costs[tile], wanted):
                yield (tile, tile + 1), run
        begin = tile + 1


def even_runs(costs: Sequence[float] | np.ndarray, wanted: float) -> list[Range]:
    """Cut a row of costs into runs that cost about the same, at least `wanted` where they can.

    >>> even_runs([1] * 10, 3), even_runs([0, 0, 9, 0], 3), even_runs([], 3)
    ([(0, 4), (4, 7), (7, 10)], [(0, 3), (3, 4)], [])
    """
    if not len(costs):
        return []
    reached = np.cumsum(costs)
    count = max(1, min(len(costs), int(reached[-1] / wanted + 1e-9)))
    marks = reached[-1] * np.arange(1, count) / count
    cuts = np.unique(np.searchsorted(reached, marks, side="left") + 1)
    bounds = [0, *(int(cut) for cut in cuts if cut < len(costs)), len(costs)]
    return list(itertools.pairwise(bounds))


FAN_IN_LARGE, FAN_IN_SMALL = 2, 8
"""Large, and small partials that one combine takes: powers of two, so that growth keeps whole
subtrees."""
LARGE_PARTIAL_BYTES = 1 << 20
"""Least bytes of a large partial: to hold it while it waits for others costs more than a task."""


def fan_in(partial_bytes: int) -> int:
    """Return how many partials of a size one combine takes."""
    return FAN_IN_SMALL if partial_bytes < LARGE_PARTIAL_BYTES else FAN_IN_LARGE


@dataclass(frozen=True)
class Tree:
    """A tree over some blocks; level 0 is the blocks, the last level is the root."""

    block_count: int
    fan_in: int

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Nodes of each level.

        >>> Tree(20, 8).sizes, Tree(1, 2).sizes
        ((20, 3, 1), (1,))
        """
        sizes = [self.block_count]
        while sizes[-1] > 1:
            sizes.append(-(-sizes[-1] // self.fan_in))
        return tuple(sizes)

    @property
    def height(self) -> int:
        """Levels above the blocks: rounds of combining."""
        return len(self.sizes) - 1

    def children(self, level: int, node: int) -> range:
        """Return the nodes of level - 1 that a node combines.

        >>> Tree(20, 8).children(1, 2)
        range(16, 20)
        """
        first = node * self.fan_in
        return range(first, min(first + self.fan_in, self.sizes[level - 1]))

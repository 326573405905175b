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
"""Most of a block that brings what it reads: a client and a worker hold it."""
RESULT_BYTES = 32 << 20
"""Most results of a block, where these leave as they come."""
TO_PARTIAL, LARGEST_BYTES = 128, 4 << 30
"""Blocks that leave much are larger: as many times what they leave, but no larger than this."""
MOST_IDLE = 0.1
"""The part of workers' turns, at most, that are left without a tile where tiles are whole."""
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
    passed: bytes = b""
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

    def passed_parts(self, tile: int) -> np.ndarray:
        """Return which of the parts of a tile need not be read: bool, (parts,)."""
        return self._bits(self.passed, tile)

    def _bits(self, packed: bytes, tile: int) -> np.ndarray:
        first, last = self.parts
        if not packed:
            return np.zeros(last - first, bool)
        bits = np.unpackbits(np.frombuffer(packed, np.uint8)).astype(bool)
        at = (tile - self.tiles[0]) * (last - first)
        return bits[at : at + last - first]

    def of_leaf(self, leaf: tuple[int, int], called: tuple[int, int]) -> Block:
        """Return a block of one of its leaves, by tile and part, and number it as `called`."""
        tile, part = leaf
        unstored = b"\x80" if self.unstored_parts(tile)[part - self.parts[0]] else b""
        objects = {
            (*called, number): known
            for (*at, number), known in self.objects.items()
            if (*at,) == leaf
        }
        tiles, parts = ((n, n + 1) for n in called)
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
    passed: np.ndarray | None = None,
    fed: int = 0,
    rounded: bool = False,
) -> tuple[Block, ...]:
    """Cut leaves into blocks of about equal cost.

    Parameters
    ----------
    costs
        Of each leaf, in decoded bytes that take as long: (tiles, parts).
    unstored
        Which leaves have nothing stored: bool, of the same shape.
    workers
        Among whom blocks are to be shared.
    partial_bytes
        What a block leaves of a tile.
    with_data
        Whether blocks bring what they read, rather than read it themselves.
    results
        Bytes that a block leaves for each that it costs, where results leave as they come.
    whole
        Whether no tile may be shared by several blocks.
    passed
        Which leaves need not be read: bool, of the same shape; None: none of them.
    fed
        The upper bound of a block is at least this, in bytes: devices that are fed from files
        need larger blocks.
    rounded
        True where devices round the results of tiles that are whole: a tile that is no larger than
        a block may be is then a block of its own, if workers have about as many each.
    """
    least = BLOCK_BYTES[0]
    most = float(max(BLOCK_BYTES[1], fed))
    of_tiles = costs.sum(axis=1)
    tile = float(of_tiles.max(initial=0))
    larger = max(most, min(TO_PARTIAL * partial_bytes, LARGEST_BYTES))
    rounded &= tile <= larger and -len(of_tiles) % workers <= MOST_IDLE * len(of_tiles)
    # Rounded tiles leave no partials. Each is a block: its results leave while others are read.
    most = max(most, tile) if rounded else larger
    most = min(most, DATA_BYTES) if with_data else most
    most = min(most, RESULT_BYTES / results) if results else most
    each = BLOCKS_PER_WORKER if workers > 1 else 1
    over = np.zeros(costs.shape, bool) if passed is None else passed
    wanted = min(max(float(of_tiles.sum()) / (each * workers), least), most)
    if rounded:
        wanted = max(wanted, min(tile, most))
    blocks = []
    for number, (tiles, parts) in enumerate(_runs(costs, of_tiles, wanted, whole=whole)):
        missing, left_out = (
            packed_leaves(one[slice(*tiles), slice(*parts)]) for one in (unstored, over)
        )
        blocks.append(Block(number, tiles, parts, missing, passed=left_out))
    return tuple(blocks)


def packed_leaves(flags: np.ndarray) -> bytes:
    """Return a bit for each leaf of a block, tile by tile; empty if none is set."""
    return np.packbits(flags).tobytes() if flags.any() else b""


TileRange = tuple[int, int]
"""A first number, and the one behind the last."""


def _runs(
    costs: np.ndarray, of_tiles: np.ndarray, wanted: float, *, whole: bool
) -> Iterator[tuple[TileRange, TileRange]]:
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


def even_runs(costs: Sequence[float] | np.ndarray, wanted: float) -> list[TileRange]:
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


FAN_IN = (2, 8)
"""Large, and small partials that one combine takes: powers of two, so that growth keeps whole
subtrees."""
LARGE_BYTES = 1 << 20
"""From here on what partials hold while they wait for each other weighs more than another task."""


def fan_in(partial_bytes: int) -> int:
    """Return how many partials of a size one combine takes."""
    return FAN_IN[partial_bytes < LARGE_BYTES]


@dataclass(frozen=True)
class Tree:
    """A tree over some blocks; level 0 are these, the last level is the root."""

    blocks: int
    fan_in: int

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Nodes of each level.

        >>> Tree(20, 8).sizes, Tree(1, 2).sizes
        ((20, 3, 1), (1,))
        """
        sizes = [self.blocks]
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

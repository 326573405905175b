"""The outputs of a block, tile by tile and together: a ledger keeps them together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chunkfold.boxes import Slices, extents_of, shifted
from chunkfold.kernels import Accumulator, Partial
from chunkfold.kernels.accumulator.partial import assembled
from chunkfold.planning.blocks import Block
from chunkfold.planning.layout import Layout


@dataclass(frozen=True)
class BlockOutputs:
    """The tiles of a question that the leaves of a block reach, and where their outputs are."""

    tiles: tuple[int, ...]
    """Their numbers, ascending."""
    shape: tuple[int, ...]
    """Extents of the least box that has their outputs."""
    places: tuple[Slices, ...]
    """The outputs of each tile in that box."""

    @classmethod
    def of(cls, first: Layout, own: Layout, block: Block) -> BlockOutputs:
        """Return the outputs of a block.

        Parameters
        ----------
        first
            The layout by which leaves were cut.
        own
            That of the question.
        """
        tiles = reached_tiles(first, own, block)
        regions = [own.tile_region(tile) for tile in tiles]
        ends = [
            (min(one.start for one in along), max(one.stop for one in along))
            for along in zip(*regions, strict=True)
        ]
        before = [slice(-begin, 0) for begin, _ in ends]
        places = tuple(shifted(before, region) for region in regions)
        return cls(tuple(tiles), tuple(end - begin for begin, end in ends), places)

    @property
    def pieces(self) -> list[int]:
        """Outputs of each partial that is kept: of one of all, if the tiles are a box."""
        each = [math.prod(extents_of(place)) for place in self.places]
        return [math.prod(self.shape)] if self._is_box else each

    @property
    def _is_box(self) -> bool:
        return sum(math.prod(extents_of(one)) for one in self.places) == math.prod(self.shape)

    def joined(
        self, accumulator: Accumulator, groups: int, partials: Sequence[Partial]
    ) -> Sequence[Partial]:
        """Put the partials of the tiles together, each of so many groups, if these are a box."""
        if not self._is_box:
            return partials
        places = ((slice(0, groups), *one) for one in self.places)
        each = zip(places, partials, strict=True)
        return [assembled(accumulator, (groups, *self.shape), each)]

    def cut(self, groups: int, partials: Sequence[Partial]) -> tuple[Partial, ...]:
        """Return the partials of the tiles: the inverse of `joined`."""
        if not self._is_box:
            return tuple(partials)
        (whole,) = partials
        shape = groups, *self.shape
        return tuple(whole.within(shape, (slice(0, groups), *one)) for one in self.places)


def reached_tiles(first: Layout, own: Layout, block: Block) -> list[int]:
    """Return the tiles of a question that the leaves of a block reach, ascending.

    Parameters as `BlockOutputs.of`.
    """
    if own is first:
        return list(range(*block.tiles))
    tiles, _ = own.tile_and_part(first.numbers(*block.leaves))
    found: list[int] = np.unique(tiles).tolist()
    return found

"""Shards: stored objects of several chunks, and the index that finds them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chunkfold.decoding.codecs import Chain, undo
from chunkfold.stores.objects import Span, StoredObject

UNSTORED = 2**64 - 1
"""Offset and size of a chunk that a shard does not hold."""


@dataclass(frozen=True)
class Shards:
    """The layout of shards: stored objects of several chunks, with an index before or behind them.

    The index holds offset and size of each chunk, uint64, in C order (the sharding codec of Zarr's
    format 3).
    """

    shape: tuple[int, ...]
    """Shape of a shard, in chunks."""
    chain: Chain
    """Codecs of the index, in the order in which they are undone."""
    behind: bool
    """True if the index stands behind the chunks."""

    @property
    def index_span(self) -> Span:
        """Offset of the index (0, or -1 if it stands at the end) and its bytes."""
        # Every codec of an index but its own bytes is a checksum of four.
        return (-1 if self.behind else 0, 16 * math.prod(self.shape) + 4 * len(self.chain))

    def index(self, shard: StoredObject) -> np.ndarray:
        """Read the index of a shard: uint64, of shape (*chunks, 2).

        Raises
        ------
        ValueError
            If the shard is too short for one, or it is damaged.
        """
        at, nbytes = self.index_span
        if shard.size < nbytes:
            raise ValueError(f"it has {shard.size:,} bytes, but its index needs {nbytes:,}")
        index = np.empty(16 * math.prod(self.shape), np.uint8)
        undo(self.chain, shard.read((shard.size - nbytes if at else 0, nbytes)), index)
        return index.view("<u8").reshape(*self.shape, 2)

    def spans(self, shard: StoredObject, chunks: Sequence[tuple[int, ...]]) -> list[Span]:
        """Return the spans of chunks in a shard, by its index; raises as `index`."""
        index = self.index(shard)
        return [(int(at), int(nbytes)) for at, nbytes in (index[chunk] for chunk in chunks)]

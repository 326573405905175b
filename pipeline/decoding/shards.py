"""Shards: stored objects of several chunks, and the index that finds them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chunkfold.decoding.codecs import Chain, undo
from chunkfold.stores.objects import Span, StoredObject

ABSENT = 2**64 - 1
"""Offset and size of a chunk that a shard does not hold."""


@dataclass(frozen=True)
class Shards:
    """How chunks stand in stored objects of several: behind or before them is an index.

    The index holds offset and size of each chunk, uint64, in C order (the sharding codec of Zarr's
    format 3).
    """

    shape: tuple[int, ...]
    """Of a shard, in chunks."""
    chain: Chain
    """Undoes the index's codecs."""
    behind: bool
    """Whether the index stands behind the chunks."""

    @property
    def index_span(self) -> Span:
        """Where the index stands: at the beginning, or at -1, which is the end; and its bytes."""
        # Every codec of an index but its own bytes is a checksum of four.
        return (-1 if self.behind else 0, 16 * math.prod(self.shape) + 4 * len(self.chain))

    def index(self, shard: StoredObject) -> np.ndarray:
        """Read the index of a shard; its shape is that in chunks, and (2,).

        Raises
        ------
        ValueError
            If there is not room for one, or it is damaged.
        """
        at, nbytes = self.index_span
        if shard.size < nbytes:
            raise ValueError(f"it has {shard.size:,} bytes, but its index alone {nbytes:,}")
        index = np.empty(16 * math.prod(self.shape), np.uint8)
        undo(self.chain, shard.read((shard.size - nbytes if at else 0, nbytes)), index)
        return index.view("<u8").reshape(*self.shape, 2)

    def spans(self, shard: StoredObject, chunks: Sequence[tuple[int, ...]]) -> list[Span]:
        """Return where chunks stand in a shard, by its index; raises as `index`."""
        index = self.index(shard)
        return [(int(at), int(nbytes)) for at, nbytes in (index[chunk] for chunk in chunks)]

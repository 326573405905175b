"""Shards: stored objects of several chunks, and the index that finds them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from chunkfold.codecs import Chain, undo
from chunkfold.ranges import read_range

ABSENT = np.uint64(2**64 - 1)
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

    def index(self, descriptor: int, size: int) -> np.ndarray:
        """Read the index of a shard of `size` bytes; its shape is that in chunks, and (2,).

        Raises
        ------
        ValueError
            If there is not room for one, or it is damaged.
        """
        plain = 16 * math.prod(self.shape)
        # Every codec of an index but its own bytes is a checksum of four.
        nbytes = plain + 4 * len(self.chain)
        if size < nbytes:
            raise ValueError(f"it has {size:,} bytes, but its index alone {nbytes:,}")
        out = np.empty(nbytes, np.uint8)
        read_range(descriptor, out, size - nbytes if self.behind else 0)
        index = np.empty(plain, np.uint8)
        undo(self.chain, out.data, index)
        return index.view("<u8").reshape(*self.shape, 2)

"""How leaves are read where a GPU is fed by files that are stored as they are.

Native threads share the pieces of all leaves that are under way (`kernels/feed`), so few threads of
Python suffice, and leaves are as large as they may be: what Python does is for each leaf.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from chunkfold.planning.request import Request
from chunkfold.planning.workers import Terms
from chunkfold.sources.source import Source

LEAF_BYTES = 256 << 20
"""A leaf of small cells has so many decoded bytes at most."""
READERS = 3
"""Leaves that are read at once: one ends while others go on."""
_LEAVES_EACH = 8
"""Leaves for each worker, at least."""
_OF_A_BUFFER = 8
"""A leaf takes this part, at most, of the largest buffer that every device has room for."""


def can_feed_from_files(sources: Sequence[Source], terms: Terms) -> bool:
    """Tell whether all workers are GPUs that files without codecs feed."""
    return terms.kinds == {"gpu"} and all(
        source.as_it_is and source.local_path is not None for source in sources
    )


def readers_per_worker(sources: Sequence[Source], terms: Terms) -> int:
    """Return how many threads of a worker read."""
    return min(READERS, terms.readers) if can_feed_from_files(sources, terms) else terms.readers


def max_leaf_bytes(request: Request, terms: Terms, usual_bytes: int) -> int:
    """Return how many bytes a leaf of small cells has at most: `usual_bytes` where none is fed."""
    if not can_feed_from_files(request.sources, terms):
        return usual_bytes
    selected = math.prod(axis.length for axis in request.chosen)
    nbytes = selected * max(source.dtype.itemsize for source in request.sources)
    each = nbytes // (_LEAVES_EACH * terms.workers)
    room = LEAF_BYTES if terms.buffer_bytes is None else terms.buffer_bytes // _OF_A_BUFFER
    return max(usual_bytes, min(LEAF_BYTES, room, 1 << max(0, each.bit_length() - 1)))

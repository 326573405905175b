"""What leaves cost, and what results and stored bytes under way take."""

from __future__ import annotations

import math

import numpy as np

from chunkfold.kernels import Accumulator
from chunkfold.planning.layout import Layout
from chunkfold.planning.missing_chunks import StoredLeaves
from chunkfold.planning.request import Request
from chunkfold.sources.source import Source
from chunkfold.stores.requests import FLIGHT_BYTES

VIRTUAL_COST = 16
"""How much sooner fill values are made than chunks are read and decoded."""


def leaf_costs(
    layout: Layout, accumulator: Accumulator, stored: StoredLeaves, groups: int
) -> np.ndarray:
    """Return what leaves cost, in decoded bytes that take as long: float64, (tiles, parts).

    The decoded bytes of what is stored are shared out as stored bytes are. Fill values cost where
    they must be made, and the accumulators of a tile wherever they come from.
    """
    costs, held = stored.decoded, stored.held
    if held is not None:
        costs = held * (costs.sum() / max(1, held.sum()))
    if not accumulator.takes_first or (groups > 1 and accumulator.uses_index):
        itemsize = sum(source.dtype.itemsize for source in stored.sources)
        costs = costs + stored.absent * layout.leaf_elements() * itemsize / VIRTUAL_COST
    outputs = groups * layout.outputs / max(1, layout.tiles)
    return np.asarray(costs + outputs * accumulator.nbytes / max(1, layout.parts))


def result_bytes(request: Request, layout: Layout) -> int:
    """Return the bytes of all results, at most: whatever their dtypes, but for what has more axes.

    Of levels that are coarser there is no more than of the first.
    """
    finer = 1 if request.levels == 1 else 2
    return 8 * len(request.options.names) * request.groups * layout.outputs * finer


def flights(sources: tuple[Source, ...]) -> list[int]:
    """Return how many bytes may be in flight: best first; a chunk at least."""
    if not any(source.remote for source in sources):
        return [0]
    least = max(math.prod(source.object_shape) * source.dtype.itemsize for source in sources)
    sizes = [max(FLIGHT_BYTES >> halved, least) for halved in range(4)]
    return list(dict.fromkeys(sizes))

"""Leaves that are larger where accumulators are more bytes than elements.

A leaf reads and writes the accumulators of every output, and every group, of its elements. Those of
twelve months of a map are more bytes than the elements of a leaf, and so are those of ten
statistics: CPUs would wait for memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from chunkfold.planning.group_keys import Keys
from chunkfold.planning.labelled_rows import slow_by_key
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaves import leaf_bytes
from chunkfold.planning.request import Request
from chunkfold.planning.together import accumulator_of, layout_beside
from chunkfold.planning.ways_of_rows import way_of_rows
from chunkfold.planning.workers import Terms

LARGER_BYTES = (32 << 20, 64 << 20, 128 << 20)
"""Decoded bytes of larger leaves, at most."""
LEAST_LEAVES = 2
"""Leaves for each thread that reads, at least: with fewer some would wait for the last."""
_GAIN = 1.25
"""How many times fewer bytes each larger size must move for an element."""
_LOOKED_AT = 8
"""Leaves of which the keys are looked at."""


def larger_leaves(
    request: Request, terms: Terms, cut: Callable[[int], list[Layout]], usual_bytes: int
) -> Layout | None:
    """Return the layout whose leaves are larger than usual; None if they do not pay.

    Their decoded bytes are at most those of all accumulators: staging takes no more than these.

    Parameters
    ----------
    cut
        Cuts leaves of so many bytes at most: see `layouts_of`.
    usual_bytes
        Of usual leaves.
    """
    if request.keeping or not slow_by_key(terms.kinds):
        return None
    usual = cut(usual_bytes)[0]
    if usual.coarsened or not usual.elements:
        return None
    best, (moved, held) = usual, _bytes_moved(request, terms, usual)
    if held <= leaf_bytes(request.sources, usual):  # as of all that has few outputs
        return None
    for most_bytes in LARGER_BYTES:
        larger = cut(most_bytes)[0]
        nbytes = leaf_bytes(request.sources, larger)
        if (
            leaf_bytes(request.sources, best) < nbytes <= min(most_bytes, held)
            and larger.leaves >= LEAST_LEAVES * terms.readers * terms.workers
        ):
            fewer, _ = _bytes_moved(request, terms, larger)
            if fewer * _GAIN <= moved:
                best, moved = larger, fewer
    return None if best is usual else best


def _bytes_moved(request: Request, terms: Terms, first: Layout) -> tuple[float, int]:
    """Return the bytes that are moved for each element, and those of all accumulators.

    Of each input an element is read, and accumulators are read and written.
    """
    moved, held = float(sum(source.dtype.itemsize for source in request.sources)), 0
    for one in request.together:
        if one.roll_up is None:
            layout = first if one is request else layout_beside(one, first)
            each, whole = _accumulators(one, terms, layout)
            moved += 2 * each
            held += whole
    return moved, held


def _accumulators(request: Request, terms: Terms, layout: Layout) -> tuple[float, int]:
    """Return the bytes of accumulators that a leaf touches for an element, and those of a tile."""
    accumulator = accumulator_of(request, terms)
    keys = None if request.grouping is None else request.grouping.keys
    way = way_of_rows(accumulator, layout, request.held, len(request.sources), keys, terms.kinds)
    if way is not None:
        nbytes = way.folded.nbytes
        return nbytes / max(1, way.rows.elements_of_leaf), nbytes * way.rows.of_tile
    whole = accumulator.nbytes * request.groups * layout.most_outputs
    if keys is not None and not isinstance(keys, Keys):
        return 0.0, whole  # whatever leaves are: any element may be in any group
    return accumulator.nbytes * _touched(layout, keys), whole


def _touched(layout: Layout, keys: Keys | None) -> float:
    """Return how many accumulators of an output leaves touch for each of its elements, about."""
    touched = elements = 0
    for part in range(min(layout.parts, _LOOKED_AT)):
        reach = layout.reach((0, 1), (part, part + 1))
        if keys is None:
            touched += 1
        else:
            place = tuple(reach[axis] for axis in keys.axes)
            touched += int(np.count_nonzero(keys.counts(place)))
        elements += math.prod(reach[n].stop - reach[n].start for n in layout.reduced)
    return touched / max(1, elements)

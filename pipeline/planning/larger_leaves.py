"""Leaves that are larger where accumulators are more bytes than elements.

A leaf reads and writes the accumulators of every output that it meets, of every group. Those of
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
from chunkfold.planning.leaves import leaf_elements
from chunkfold.planning.request import Request
from chunkfold.planning.together import accumulator_of, layout_beside
from chunkfold.planning.ways_of_rows import way_of_rows
from chunkfold.planning.workers import Terms

TARGETS = (32 << 20, 64 << 20, 128 << 20)
"""Decoded bytes of a leaf, at most."""
LEAST_LEAVES = 2
"""Of each thread that reads: with fewer some would wait for the last."""
_GAIN = 1.25
"""How many times fewer bytes must be moved for each element, with each target."""
_LOOKED_AT = 8
"""Leaves of which the keys are looked at."""


def larger_leaves(
    request: Request, terms: Terms, cut: Callable[[int], list[Layout]], usual_bytes: int
) -> Layout | None:
    """Return the layout whose leaves are larger than usual; None if they do not pay.

    They are no larger than all accumulators, which are held anyway.

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
    best, (moved, held) = usual, _moved(request, terms, usual)
    itemsize = max(source.dtype.itemsize for source in request.sources)
    for target in TARGETS:
        larger = cut(target)[0]
        nbytes = itemsize * leaf_elements(larger)
        if (
            leaf_elements(best) * itemsize < nbytes <= min(target, held)
            and larger.leaves >= LEAST_LEAVES * terms.readers * terms.workers
        ):
            fewer, _ = _moved(request, terms, larger)
            if fewer * _GAIN <= moved:
                best, moved = larger, fewer
    return None if best is usual else best


def _moved(request: Request, terms: Terms, first: Layout) -> tuple[float, int]:
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
    """Return the bytes of accumulators that a leaf meets for each element, and those of a tile."""
    accumulator = accumulator_of(request, terms)
    keys = None if request.grouping is None else request.grouping.keys
    way = way_of_rows(accumulator, layout, request.held, len(request.sources), keys, terms.kinds)
    if way is not None:
        nbytes = way.folded.nbytes
        return nbytes / max(1, way.rows.elements_of_leaf), nbytes * way.rows.of_tile
    whole = accumulator.nbytes * request.groups * layout.most_outputs
    if keys is not None and not isinstance(keys, Keys):
        return 0.0, whole  # whatever leaves are: any element may be in any group
    return accumulator.nbytes * _met(layout, keys), whole


def _met(layout: Layout, keys: Keys | None) -> float:
    """Return how many accumulators of an output leaves meet for each of its elements, about."""
    met = elements = 0
    for part in range(min(layout.parts, _LOOKED_AT)):
        reach = layout.reach((0, 1), (part, part + 1))
        if keys is None:
            met += 1
        else:
            place = tuple(reach[axis] for axis in keys.axes)
            met += int(np.count_nonzero(keys.counts(place)))
        elements += math.prod(reach[n].stop - reach[n].start for n in layout.reduced)
    return met / max(1, elements)

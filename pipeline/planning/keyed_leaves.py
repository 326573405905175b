"""Leaves that are larger where their elements have keys: each then meets a key several times.

A leaf reads and writes the accumulators of every key that it meets. Of twelve months of a map these
are more bytes than the elements of a leaf, so CPUs waited for memory.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from chunkfold.planning.group_keys import Keys
from chunkfold.planning.labelled_rows import slow_by_key
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaves import leaf_elements
from chunkfold.planning.request import Request
from chunkfold.planning.together import accumulator_of
from chunkfold.planning.ways_of_rows import way_of_rows
from chunkfold.planning.workers import Terms

TARGETS = (128 << 20, 64 << 20, 32 << 20)
"""Decoded bytes of a leaf, at most: best first."""
LEAST_LEAVES = 2
"""Of each thread that reads: with fewer some would wait for the last."""
_GAIN = 2.0
"""How many times less often a leaf must meet a key for each of its elements."""
_LOOKED_AT = 8
"""Leaves of which the keys are looked at."""


def larger_leaves(
    request: Request, terms: Terms, cut: Callable[[int], list[Layout]], usual_bytes: int
) -> Layout | None:
    """Return the layout whose leaves are larger than usual; None if they do not pay.

    Parameters
    ----------
    cut
        Cuts leaves of so many bytes at most: see `layouts_of`.
    usual_bytes
        Of leaves without keys.
    """
    keys = None if request.grouping is None else request.grouping.keys
    if not isinstance(keys, Keys) or request.keeping or not slow_by_key(terms.kinds):
        return None
    usual = cut(usual_bytes)[0]
    if usual.coarsened or not usual.elements:
        return None
    accumulator = accumulator_of(request, terms)
    staged = len(request.sources)
    if way_of_rows(accumulator, usual, request.held, staged, keys, terms.kinds):
        return None
    held = accumulator.nbytes * keys.count * usual.most_outputs
    itemsize = max(source.dtype.itemsize for source in request.sources)
    for target in TARGETS:
        larger = cut(target)[0]
        nbytes = itemsize * leaf_elements(larger)
        if (
            leaf_elements(usual) * itemsize < nbytes <= min(target, held)
            and larger.leaves >= LEAST_LEAVES * terms.readers * terms.workers
            and _met(larger, keys) * _GAIN <= _met(usual, keys)
        ):
            return larger
    return None


def _met(layout: Layout, keys: Keys) -> float:
    """Return how many keys leaves meet for each element of an output, about."""
    met = elements = 0
    for part in range(min(layout.parts, _LOOKED_AT)):
        reach = layout.reach((0, 1), (part, part + 1))
        place = tuple(reach[axis] for axis in keys.axes)
        met += int(np.count_nonzero(keys.counts(place)))
        elements += int(np.prod([reach[n].stop - reach[n].start for n in layout.reduced]))
    return met / max(1, elements)

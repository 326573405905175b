"""Elements that workers keep in memory to read the data once, and results between two reads."""

from __future__ import annotations

import math

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.kernels.catalogue.window_modes import mode_bytes
from chunkfold.kernels.fold.selection import selection_bytes
from chunkfold.planning.broadcast_inputs import MOST_BYTES
from chunkfold.planning.grouping import OwnKeys
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaves import leaf_elements
from chunkfold.planning.request import Request
from chunkfold.planning.rules import PlanRule, applies
from chunkfold.planning.workers import Terms
from chunkfold.units import size_text

LEAST_OUTPUTS = 64
"""Outputs of a tile that keep a device busy: ranks of fewer are found digit by digit."""


def keepable(request: Request, layout: Layout, terms: Terms, *, once: bool = False) -> bool:
    """Tell if the elements of a tile of outputs are worth keeping, and fit a device's buffer.

    `once`: they are worth it, however long that takes. Elements of windows are not kept, nor
    elements that are grouped by their own values.
    """
    if (
        not applies(PlanRule.KEPT_ELEMENTS)
        or isinstance(request.keys, OwnKeys)
        or layout.coarsened
        or not (once or layout.most_outputs >= LEAST_OUTPUTS)
    ):
        return False
    room = terms.buffer_bytes or math.inf
    return all(
        selection_bytes(layout.most_outputs, depth_of(layout), itemsize) <= room
        for itemsize in _itemsizes(request, terms)
    )


def kept_bytes(request: Request, layout: Layout, terms: Terms) -> int:
    """Return what a block keeps at most: keys of a tile's elements, and of a leaf that comes.

    Or what it takes to count labels.
    """
    streamed = request.streamed
    if streamed is not None and streamed.modes:
        shape = [int(axis.lengths.max(initial=0)) for axis in layout.axes]
        return mode_bytes(shape, streamed.factors(request.chosen, range(len(shape))))
    if not request.keeping:
        return 0
    elements = layout.most_outputs * depth_of(layout) + leaf_elements(layout)
    return sum(elements * itemsize for itemsize in _itemsizes(request, terms))


def depth_of(layout: Layout) -> int:
    """Return how many elements each output has."""
    return math.prod(layout.shape[n] for n in layout.reduced)


def _itemsizes(request: Request, terms: Terms) -> list[int]:
    """Return the bytes of a key, for each of what is kept: equal keys are kept once."""
    accumulator = request.bound(fp64=terms.fp64).accumulator
    kept = {one.component for one in request.choosers(terms)}
    slots = {slot.component: slot for slot in accumulator.scalars}
    return [slots[n].dtype.itemsize for n in sorted(kept)]


def refuse_much_between_reads(request: Request) -> None:
    """Refuse what is read several times and has more to hold of each output than workers do.

    Raises
    ------
    PlanError
        If it has.
    """
    several = [one.monoid.as_written for one in request.bound().statistics if one.monoid.reads > 1]
    if not several:
        return
    along = [n for n in range(len(request.chosen)) if n not in request.reduced]
    if request.keys is not None:
        along = sorted({*along, *request.keys.axes})
    value = np.dtype(np.result_type(*(source.dtype for source in request.sources)))
    nbytes = value.itemsize
    for axis in along:
        nbytes *= request.chosen[axis].length
    if nbytes > MOST_BYTES:
        raise PlanError(
            f"{', '.join(several)} of {request.name} is read several times, and workers would "
            f"keep {size_text(nbytes)} between reads, more than {size_text(MOST_BYTES)}: select "
            "less at a time"
        )

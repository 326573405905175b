"""Fold what is selected in the order in which it is stored, where another order was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from chunkfold.grid import Taken
from chunkfold.planning.request import Request
from chunkfold.positions import crossed


def arranged(requests: Sequence[Request]) -> tuple[Request, ...]:
    """Return reductions that read every chunk once, whatever the order of what is selected.

    All are of one selection. Results are put in the order that was asked for when they are there.
    Along an axis that is reduced the order counts for those alone that read indices: for all it
    stays as it is then.
    """
    # Windows are of elements that follow each other in the order that was asked for.
    windows = {n for one in requests for n, axis in enumerate(one.chosen) if axis.window}
    chosen = requests[0].chosen
    turned = [n for n, axis in enumerate(chosen) if not (n in windows or axis.ascends)]
    for request in requests if turned else ():
        if any(n in request.reduced for n in turned) and request.bound().accumulator.uses_index:
            turned = [n for n in turned if n not in request.reduced]
    return tuple(_turned(request, turned) if turned else request for request in requests)


def _turned(request: Request, turned: Sequence[int]) -> Request:
    """Return a reduction that takes what is selected in the order of its axes."""
    chosen, orders = list(request.chosen), dict[int, Taken]()
    for n in turned:
        axis, orders[n] = chosen[n].ascending()
        chosen[n] = replace(axis, order=None) if n in request.reduced else axis
    grouping = request.grouping
    if grouping is not None:
        keys = grouping.keys.reordered(lambda codes, axes: _along(codes, axes, orders))
        grouping = replace(grouping, keys=keys)
    held = (replace(one, values=_along(one.values, one.axes, orders)) for one in request.held)
    return replace(request, chosen=tuple(chosen), grouping=grouping, held=tuple(held))


def _along(values: np.ndarray, axes: tuple[int, ...], orders: Mapping[int, Taken]) -> np.ndarray:
    """Return what goes along some axes in another order, C-contiguous."""
    cut = crossed(values, [orders.get(n, slice(None)) for n in axes])
    return np.array(cut, order="C")

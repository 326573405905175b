"""Fold what is selected in the order in which it is stored, where another order was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from chunkfold.planning.request import Request
from chunkfold.positions import crossed

Index = slice | np.ndarray


def arranged(request: Request) -> Request:
    """Return a reduction that reads every chunk once, whatever the order of what is selected.

    Results are put in the order that was asked for when they are there. Along an axis that is
    reduced the order counts for those alone that read indices: that stays as it is.
    """
    # Windows are of elements that follow each other in the order that was asked for.
    turned = [n for n, axis in enumerate(request.chosen) if not (axis.window or axis.ascends)]
    if turned and any(n in request.reduced for n in turned):
        indexed = request.bound().accumulator.uses_index
        turned = [n for n in turned if not (indexed and n in request.reduced)]
    if not turned:
        return request
    chosen, orders = list(request.chosen), dict[int, Index]()
    for n in turned:
        axis, orders[n] = chosen[n].ascending()
        chosen[n] = replace(axis, order=None) if n in request.reduced else axis
    grouping = request.grouping
    if grouping is not None:
        keys = grouping.keys.reordered(lambda codes, axes: _along(codes, axes, orders))
        grouping = replace(grouping, keys=keys)
    held = (replace(one, values=_along(one.values, one.axes, orders)) for one in request.held)
    return replace(request, chosen=tuple(chosen), grouping=grouping, held=tuple(held))


def _along(values: np.ndarray, axes: tuple[int, ...], orders: Mapping[int, Index]) -> np.ndarray:
    """Return what goes along some axes in another order, C-contiguous."""
    cut = crossed(values, [orders.get(n, slice(None)) for n in axes])
    return np.array(cut, order="C")

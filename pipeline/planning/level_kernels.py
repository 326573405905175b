"""Where kernels make all levels of a tile from its elements, without a partial for each window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chunkfold.kernels.catalogue.catalogue import CATALOGUE
from chunkfold.kernels.fold.levels import OPS, Levels

if TYPE_CHECKING:
    from chunkfold.planning.plan import Plan


def levels_of(plan: Plan) -> Levels | None:
    """Return what kernels make of elements where a tile is one leaf; None if they cannot.

    They make what partials are finished to, bit by bit, or say that they may not have.
    """
    request, layout = plan.request, plan.layout
    options, (source, *others) = request.options, request.sources
    if others or request.held or request.grouping or layout.reduced or layout.gathers:
        return None
    if request.modes:  # which are of elements as they are
        return None
    if len(options.monoids) > 1 or not plan.terms.fp64 or options.skips:
        return None
    (monoid,), (name,) = options.monoids, options.names
    plain = options.cast is None and options.initial is None and not any(request.packings)
    if not plain or name not in OPS or monoid != CATALOGUE[name]:
        return None
    dtype = source.dtype
    if any(plan.accumulator.swapped) or (dtype.kind == "f" and not options.exact):
        return None
    if name == "mean" and dtype.kind != "f" and request.rounded_to != dtype:
        return None
    factors = tuple(axis.window or 1 for axis in request.chosen)
    made = Levels(name, np.dtype(dtype).name, factors, request.levels)
    return made if made.able else None

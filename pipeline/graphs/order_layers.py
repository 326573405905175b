"""Medians and quantiles in graphs of Dask's: one function of whole rows of chunks."""

from __future__ import annotations

import numpy as np
from dask.array import reductions
from dask.highlevelgraph import HighLevelGraph

from chunkfold.graphs.computed_views import view_of
from chunkfold.graphs.graph_calls import BlockCall, NotTakenError, block_call, constants
from chunkfold.graphs.graph_reductions import GraphReduction, skipping
from chunkfold.graphs.stored_views import StoredView
from chunkfold.kernels import Monoid, quantile

_MEDIANS = (np.median, np.nanmedian)
_SKIPS = {
    np.median: False,
    np.nanmedian: True,
    np.quantile: False,
    np.nanquantile: True,
    getattr(reductions, "_custom_quantile", np.quantile): False,
    getattr(reductions, "_custom_nanquantile", np.nanquantile): True,
}
"""Functions, and if they skip NaN."""
_KNOWN = {"axis", "keepdims", "method"}


def order_statistic(graph: HighLevelGraph, name: str) -> GraphReduction | None:
    """Return the median or the quantiles that a layer is; None if it is none.

    Raises
    ------
    NotTakenError
        If it is one of something else than a stored array, or in a way that is not known.
    """
    call = block_call(graph, name)
    if call is None or call.function not in _SKIPS:
        return None
    if not {*call.options} <= _KNOWN or call.args or call.options.get("keepdims"):
        raise NotTakenError("it is a quantile with options that are not known")
    of, symbols = call.inputs[0]
    view = view_of(graph, of)
    axes = [int(n) % len(symbols or ()) for n in call.options["axis"]]
    ranks: list[np.ndarray] = []
    asked: str | Monoid = "median"
    if call.function not in _MEDIANS:
        ranks = [np.asarray(constants(graph, one)) for one, _ in call.inputs[1:]]
        if len(ranks) != 1 or ranks[0].ndim != 1:
            raise NotTakenError("its ranks are not known")
        method = call.options.get("method", "linear")
        asked = quantile([float(one) for one in ranks[0]], method=method)
    dtype = np.dtype(
        call.function(np.ones((1,) * len(symbols or ()), view.dtype), *ranks, **call.options).dtype
    )
    options = skipping(view, skips=_SKIPS[call.function])
    options["axis"] = tuple(sorted(view.order[n] for n in axes))
    if view.cast:
        options["dtype"] = dtype.name
    chunks, turned = _placed(call, view, axes, len(ranks[0]) if ranks else 0)
    return GraphReduction(name, view, asked, options, dtype, chunks, turned)


def _placed(
    call: BlockCall, view: StoredView, axes: list[int], ranks: int
) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Return the chunks of a layer, and the axis of the answer that each of its axes is."""
    symbols = list(call.inputs[0][1] or ())
    left = [n for n in range(len(symbols)) if n not in axes]
    answers = sorted(view.order[n] for n in left)
    chunks, turned = [], []
    for one in call.outputs:
        if one in symbols and symbols.index(one) in left:
            axis = symbols.index(one)
            chunks.append(view.chunks[axis])
            turned.append(answers.index(view.order[axis]))
        elif ranks and one not in symbols:
            chunks.append((ranks,))
            turned.append(len(left))
        else:
            raise NotTakenError("its axes are not known")
    return tuple(chunks), tuple(turned)

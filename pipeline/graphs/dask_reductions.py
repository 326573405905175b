"""Dask's own reductions in its graphs: chunks are reduced, these combined, and aggregated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from dask.array import chunk, reductions
from dask.blockwise import Blockwise
from dask.highlevelgraph import HighLevelGraph
from dask.local import get_sync

from chunkfold.graphs.graph_calls import (
    Called,
    NotTakenError,
    block_call,
    only_below,
    tasks_call,
)
from chunkfold.graphs.graph_reductions import (
    DDOF,
    GraphReduction,
    answer_axes,
    kept_chunks,
    skipping,
    summed_dtype,
)
from chunkfold.graphs.reshaped_views import reshaped_windows
from chunkfold.graphs.stored_views import StoredView


def _own(name: str) -> Any:
    """Return a function of Dask's that may have another name in other versions."""
    return getattr(reductions, name, None)


_ARG_CHUNK = _own("arg_chunk")
_MEAN, _VAR = _own("mean_agg"), _own("moment_agg")
_OPS: Mapping[tuple[Any, Any], tuple[str, bool]] = {
    (np.sum, np.sum): ("sum", False),
    (np.nansum, np.sum): ("sum", True),
    (_own("chunk_min"), np.min): ("min", False),
    (_own("chunk_max"), np.max): ("max", False),
    (_own("_nanmin_skip"), _own("_nanmin_skip")): ("min", True),
    (_own("_nanmax_skip"), _own("_nanmax_skip")): ("max", True),
    (np.any, np.any): ("any", False),
    (np.all, np.all): ("all", False),
    (_own("mean_chunk"), _MEAN): ("mean", False),
    (_own("moment_chunk"), _VAR): ("var", False),
    (_ARG_CHUNK, _own("arg_agg")): ("arg", False),
    (_ARG_CHUNK, _own("nanarg_agg")): ("arg", True),
}
"""The functions of chunks and of the aggregate: the op, and if it skips NaN."""
_COMBINES: Mapping[Any, Any] = {
    **{aggregate: aggregate for _, aggregate in _OPS if aggregate is not None},
    np.min: _own("chunk_min"),
    np.max: _own("chunk_max"),
    _MEAN: _own("mean_combine"),
    _VAR: _own("moment_combine"),
    _own("arg_agg"): _own("arg_combine"),
    _own("nanarg_agg"): _own("arg_combine"),
}
"""The function that combines chunks, by that of the aggregate."""
_POSITIONS: Mapping[Any, str] = {
    chunk.argmin: "argmin",
    chunk.argmax: "argmax",
    _own("_nanargmin"): "argmin",
    _own("_nanargmax"): "argmax",
}
_KNOWN = {"axis", "keepdims", "dtype", "ddof", "sum", "numel", "implicit_complex_dtype"}
"""Options of these functions that are understood."""
_UNKNOWN = "it is a reduction that is not known"


@dataclass(frozen=True, eq=False)
class _Tree:
    """A reduction, from its chunks to its aggregate."""

    op: str
    skips: bool
    """True if it skips NaN."""
    of: str
    """The layer that is reduced."""
    axes: tuple[int, ...]
    aggregate: Called

    @property
    def keepdims(self) -> bool:
        """True if reduced axes are kept."""
        return bool(self.aggregate.options.get("keepdims"))


def dask_reduction(graph: HighLevelGraph, name: str) -> GraphReduction | None:
    """Return the reduction whose aggregate a layer is; None if it is no aggregate.

    Raises
    ------
    NotTakenError
        If it is a reduction of something else than a stored array, or none that is known.
    """
    called = None if isinstance(graph.layers[name], Blockwise) else tasks_call(graph, name)
    if not called or called[0].function not in _COMBINES or "-partial-" in name:
        return None
    tree = _tree(graph, name, called[0])
    if tree.op == "sum" and not tree.skips:
        tree = _summed(graph, tree)
    view, shaped, windows = reshaped_windows(graph, tree.of, tree.axes)
    if tree.op == "count" and view.dtype.kind != "f":
        raise NotTakenError(f"isnan of {view.dtype} is counted")
    dtype = _dtype(tree, view)
    options = _cast(tree.op, view, dtype) | skipping(view, skips=tree.skips)
    if tree.op == "var":
        options["ddof"] = tree.aggregate.options.get("ddof", 0)
    if windows:
        options["coarsen"], turned = windows, tuple(range(len(view.order)))
    else:
        options["axis"] = tuple(sorted(view.order[n] for n in tree.axes))
        turned = answer_axes(view, tree.axes)
    chunks = kept_chunks(shaped, tree.axes, keepdims=tree.keepdims)
    return GraphReduction(name, view, tree.op, options, dtype, chunks, turned)


def _tree(graph: HighLevelGraph, name: str, aggregate: Called) -> _Tree:
    """Return the reduction of which a layer is the aggregate."""
    below = only_below(graph, name)
    while (called := tasks_call(graph, below)) and called[0].function is not _ARG_CHUNK:
        if called[0].function is not _COMBINES[aggregate.function]:
            raise NotTakenError(_UNKNOWN)
        _refuse_other_axes(called[0], aggregate)
        below = only_below(graph, below)
    if called:  # positions, whose chunks are no Blockwise layer
        first, of = called[0], only_below(graph, below)
    else:
        call = block_call(graph, below)
        if call is None or len(call.inputs) != 1 or call.inputs[0][1] != call.outputs:
            raise NotTakenError(_UNKNOWN)
        _refuse_other_axes(call, aggregate)
        first, of = call, call.inputs[0][0]
    op, skips = _OPS.get((first.function, aggregate.function), ("", False))
    if not op or not {*first.options, *aggregate.options} <= _KNOWN:
        raise NotTakenError(_UNKNOWN)
    if aggregate.options.get("ddof", 0) not in DDOF:
        raise NotTakenError(f"ddof is {aggregate.options['ddof']}")
    axes = tuple(aggregate.options["axis"])
    if op == "arg":
        op = _POSITIONS.get(first.args[1], "")
        if not op or len(axes) != 1:
            raise NotTakenError("of equal elements Dask's chunks decide which is the first")
    skips = skips or first.options.get("sum") is np.nansum
    return _Tree(op, skips, of, axes, aggregate)


def _refuse_other_axes(called: Called, aggregate: Called) -> None:
    """Refuse what is a reduction of a reduction."""
    if called.options.get("axis") != aggregate.options.get("axis"):
        raise NotTakenError(_UNKNOWN)


def _summed(graph: HighLevelGraph, tree: _Tree) -> _Tree:
    """Return a sum as xarray means it: of elements that are not NaN, or a count of these."""
    call = block_call(graph, tree.of)
    if call is None:
        return tree
    if call.function is np.logical_not and (of := _isnan(graph, call.inputs[0][0])):
        return replace(tree, op="count", skips=True, of=of)
    if call.function is np.where and len(call.inputs) == len(("missing", "zero", "other")):
        (missing, _), (zero, _), (other, axes) = call.inputs
        same = all(one == axes for _, one in call.inputs) and axes == call.outputs
        if same and _isnan(graph, missing) == other and _is_zero(graph, zero):
            return replace(tree, skips=True, of=other)
    return tree


def _isnan(graph: HighLevelGraph, name: Any) -> str | None:
    """Return the layer of whose elements a layer says if they are NaN; None if it does not."""
    call = block_call(graph, name) if isinstance(name, str) else None
    if call is None or call.function is not np.isnan or len(call.inputs) != 1:
        return None
    return str(call.inputs[0][0])


def _is_zero(graph: HighLevelGraph, name: Any) -> bool:
    """Return True if a layer is nothing but one zero, which is repeated."""
    layer = graph.layers.get(name) if isinstance(name, str) else None
    if not isinstance(layer, Blockwise) or graph.dependencies[name]:
        return False
    key = next(iter(layer.get_output_keys()))
    made = get_sync(graph.cull({key}), key)
    return not any(made.strides) and bool(np.all(made[(slice(0, 1),) * made.ndim] == 0))


def _dtype(tree: _Tree, view: StoredView) -> np.dtype:
    """Return the dtype that Dask's result has."""
    op = tree.op
    if op == "count" or op.startswith("arg"):
        return np.dtype("i8")
    if op in ("any", "all"):
        return np.dtype(bool)
    if op in ("min", "max"):
        return view.dtype
    dtype: np.dtype = np.dtype(tree.aggregate.options["dtype"])
    return dtype


def _cast(op: str, view: StoredView, dtype: np.dtype) -> dict[str, Any]:
    """Return how elements are cast before they are reduced: as in the graph, or by Dask's sum."""
    if op in ("sum", "mean", "var") and dtype != summed_dtype(op, view):
        if not np.can_cast(view.dtype, dtype, "safe"):
            raise NotTakenError(f"its elements are cast from {view.dtype} to {dtype}")
        return {"dtype": dtype.name}
    return {"dtype": view.dtype.name} if view.cast else {}

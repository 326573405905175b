"""Reductions by groups in graphs of Dask's, as flox makes them: map-reduce, cohorts, blockwise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from dask.blockwise import Blockwise
from dask.highlevelgraph import HighLevelGraph

from chunkfold.graphs.computed_views import view_of
from chunkfold.graphs.graph_calls import (
    Called,
    NotTakenError,
    block_call,
    blocks_of,
    called_in,
    constants,
    functions_of,
    only_below,
)
from chunkfold.graphs.graph_reductions import DDOF, GraphReduction, skipping, summed_dtype
from chunkfold.graphs.stored_views import StoredView

_FLOX = "flox."
_RESULT, _AGGREGATE = "_extract_result", "_aggregate"
_OPS: Mapping[str, tuple[str, bool]] = {
    **{one: (one, False) for one in ("sum", "mean", "min", "max", "var", "std", "any", "all")},
    **{f"nan{one}": (one, True) for one in ("sum", "mean", "min", "max", "var", "std", "median")},
    "median": ("median", False),
    "count": ("count", True),
}
"""The op of each of flox's aggregations, and if it skips NaN."""
_MOST_LABELS = 1 << 24
"""More than these take longer to look at than elements to reduce."""


def grouped_reduction(graph: HighLevelGraph, name: str) -> GraphReduction | None:
    """Return the reduction by groups that a layer has the results of; None if it has none.

    Raises
    ------
    NotTakenError
        If it is one of something else than a stored array, or in a way that is not known.
    """
    call = block_call(graph, name)
    if call is None or not _is_flox(call) or call.function.__name__ != _RESULT:
        return None
    below, first = str(call.inputs[0][0]), str(call.inputs[0][0])
    while not isinstance(graph.layers[first], Blockwise):
        if not all(map(_is_flox, functions_of(graph, first))):
            raise NotTakenError("its groups are combined in a way that is not known")
        first = only_below(graph, first)
    layer: Any = graph.layers[first]
    chunks_call = called_in(layer.task.func)
    if not all(map(_is_flox, chunks_call)) or len(layer.indices) != 2:
        raise NotTakenError("its groups are made in a way that is not known")
    (array, symbols), (by, along) = ((str(one), axes) for one, axes in layer.indices)
    options = {key: value for one in chunks_call for key, value in one.options.items()}
    axes = tuple(n for n, one in enumerate(symbols) if one in along)
    if tuple(options["axis"]) != axes:
        raise NotTakenError("its groups are reduced over some of the axes that their labels have")
    view = view_of(graph, array)
    if math.prod(view.shape[n] for n in axes) > _MOST_LABELS:
        raise NotTakenError(f"it has more than {_MOST_LABELS:,} labels")
    labels = constants(graph, by)
    each = _groups(graph, below, first, labels, view, axes)
    agg, fill = _aggregation(graph, below, options)
    _refuse_filled(agg, fill)
    return _grouped(name, view, agg, labels, each, axes)


def _is_flox(called: Called) -> bool:
    """Return True if a function is flox's, or one that does nothing."""
    module = str(getattr(called.function, "__module__", ""))
    return module.startswith(_FLOX) or called.function.__name__ == "identity"


def _aggregation(graph: HighLevelGraph, below: str, options: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return flox's aggregation, and the value of groups that have few elements."""
    each = [one for one in functions_of(graph, below) if one.function.__name__ == _AGGREGATE]
    found = options if "agg" in options else each[0].options if each else {}
    if "agg" not in found:
        raise NotTakenError("its aggregation is not known")
    return found["agg"], found.get("fill_value")


def _groups(
    graph: HighLevelGraph,
    below: str,
    first: str,
    labels: np.ndarray,
    view: StoredView,
    axes: tuple[int, ...],
) -> list[np.ndarray]:
    """Return the groups of each chunk along the axis of groups."""
    layer: Any = graph.layers[below]
    if below == first:
        (one,) = called_in(layer.task.func)
        if len(axes) > 1:
            raise NotTakenError("its groups are in blocks along several axes")
        if one.options.get("expected_groups") is not None:
            return [np.asarray(one.options["expected_groups"])]
        bounds = np.cumsum([0, *view.chunks[axes[0]]])
        return [np.unique(labels[a:b]) for a, b in itertools.pairwise(bounds)]
    places = (0,) * (len(view.chunks) - 1)
    tasks, found = dict(layer), []
    for n in range(blocks_of(graph, below)[-1]):
        task = tasks[(below, *places, n)]
        (one, *_) = called_in(getattr(task, "func", None) or task[0])
        if one.function.__name__ != _AGGREGATE or one.options.get("expected_groups") is None:
            raise NotTakenError("its groups are known only when it is computed")
        found.append(np.asarray(one.options["expected_groups"]))
    return found


def _grouped(
    name: str,
    view: StoredView,
    agg: Any,
    labels: np.ndarray,
    each: list[np.ndarray],
    axes: tuple[int, ...],
) -> GraphReduction:
    op, skips = _OPS[agg.name]
    from pandas import Index  # which whoever has flox has

    groups = Index(np.concatenate(each))
    if not groups.is_unique:
        raise NotTakenError("a group is in several of its chunks")
    places = groups.get_indexer(labels.ravel()).reshape(labels.shape)
    if len(np.unique(places[places >= 0])) < len(groups):
        raise NotTakenError("it has groups without elements")
    dtype = np.dtype(agg.dtype["final"])
    options: dict[str, Any] = {"groups": list(range(len(groups))), **_finished(agg, op, view)}
    options |= skipping(view, skips=skips)
    along = [view.order[n] for n in axes]
    options["axis"] = options["by_axis"] = tuple(sorted(along))
    options["by"] = _before_selection(view, places.transpose(np.argsort(along)), sorted(along))
    sums = op in ("sum", "mean", "var", "std", "median")
    if sums and (view.cast or dtype != summed_dtype(op, view)):
        options["dtype"] = dtype.name
    left = [order for n, order in enumerate(view.order) if n not in axes]
    # Behind the others here; in the place of the first of its axes in the answer.
    answers = sorted([*left, min(along)])
    turned = tuple(answers.index(one) for one in (*left, min(along)))
    chunks = tuple(c for n, c in enumerate(view.chunks) if n not in axes)
    return GraphReduction(name, view, op, options, dtype, (*chunks, tuple(map(len, each))), turned)


def _before_selection(view: StoredView, labels: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """Return labels as long as the source's own axes: -1 where nothing is selected.

    Raises
    ------
    NotTakenError
        If a place is selected twice.
    """
    if not isinstance(view.selection, tuple):
        return labels
    cuts = [(n, cut) for n, cut in enumerate(view.selection) if not isinstance(cut, int)]
    own = [cuts[axis] for axis in axes]
    taken = [np.arange(view.source.shape[n])[cut] for n, cut in own]
    if any(len(np.unique(one)) < len(one) for one in taken):
        raise NotTakenError("a place is selected twice, and grouped")
    made = np.full([view.source.shape[n] for n, _ in own], -1)
    made[np.ix_(*taken)] = labels
    return made


def _refuse_filled(agg: Any, fill: Any) -> None:
    """Refuse what is not known, and groups of few elements that become something else than NaN."""
    if agg.name not in _OPS:
        raise NotTakenError(f"flox's {agg.name} is not known")
    fills = [agg.fill_value[agg.name], *([] if fill is None else [fill])]
    if (agg.min_count or 0) > 0 and not all(map(np.isnan, fills)):
        raise NotTakenError("groups of few elements become a number")


def _finished(agg: Any, op: str, view: StoredView) -> dict[str, Any]:
    """Return the options of what becomes of few elements, and of deviations.

    Raises
    ------
    NotTakenError
        If it has others.
    """
    ddof = (agg.finalize_kwargs or {}).get("ddof", 0)
    if ddof not in DDOF or {*(agg.finalize_kwargs or {})} > {"ddof"}:
        raise NotTakenError("it has options that are not known")
    found: dict[str, Any] = {"ddof": ddof} if op in ("var", "std") else {}
    least = agg.min_count or 0
    summed = op == "sum" or (op in ("min", "max") and least > 1)
    if summed and least > 0 and view.dtype.kind == "f":
        found["min_count"] = least
    elif least > 1:
        raise NotTakenError("groups of few elements become NaN")
    return found

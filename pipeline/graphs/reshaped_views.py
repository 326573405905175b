"""Windows in graphs of Dask's: each axis that is reshaped to windows and their places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dask.highlevelgraph import HighLevelGraph

from chunkfold.graphs.computed_views import view_of
from chunkfold.graphs.graph_calls import NotTakenError, only_below
from chunkfold.graphs.stored_views import StoredView, sizes_of

_RESHAPED = "reshape-"


def reshaped_windows(
    graph: HighLevelGraph, name: str, axes: Sequence[int]
) -> tuple[StoredView, StoredView, dict[int, int]]:
    """Return what is stored of a layer, the layer's own shape, and its windows along axes.

    Raises
    ------
    NotTakenError
        If it is reshaped in another way.
    """
    if not name.startswith(_RESHAPED):
        view = view_of(graph, name)
        return view, view, {}
    below = only_below(graph, name)
    view = view_of(graph, below)
    chunks = sizes_of(graph, name, below, view)
    windows = _windows([sum(along) for along in chunks], view.shape, axes)
    if view.order != tuple(range(len(view.order))):
        raise NotTakenError("it has windows of an array that is turned")
    return view, replace(view, chunks=chunks), windows


def _windows(made: Sequence[int], shape: Sequence[int], axes: Sequence[int]) -> dict[int, int]:
    """Return the windows along each axis, which stand behind its windows' numbers.

    >>> _windows([5, 2, 7], (10, 7), [1])
    {0: 2}
    """
    found: dict[int, int] = {}
    left = list(enumerate(made))
    for axis, size in enumerate(shape):
        if not left:
            raise NotTakenError("it is reshaped")
        place, first = left.pop(0)
        if first == size and (not left or left[0][0] not in axes or place in axes):
            continue
        if not left or first * left[0][1] != size or left[0][0] not in axes or place in axes:
            raise NotTakenError("it is reshaped")
        found[axis] = left.pop(0)[1]
    if left or len(found) != len(axes):
        raise NotTakenError("it is reshaped")
    return found

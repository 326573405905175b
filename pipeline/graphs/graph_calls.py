"""Layers of Dask's graphs: the function that each calls, with which options, of which layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from dask import _task_spec as spec
from dask.blockwise import Blockwise, blockwise_token
from dask.highlevelgraph import HighLevelGraph

Symbols = tuple[str, ...]
"""Names of axes, as Blockwise layers have them."""


class NotTakenError(Exception):
    """A layer is none that is answered here; the message says why."""


@dataclass(frozen=True, eq=False)
class Called:
    """A function, and what is bound to it."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    options: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class BlockCall(Called):
    """A function that a Blockwise layer calls for each of its chunks."""

    inputs: tuple[tuple[Any, Symbols | None], ...]
    """Layers and their axes; other values without axes."""
    outputs: Symbols
    """Axes of the result."""


def called_in(function: Any) -> list[Called]:
    """Return the functions that one is composed of, the first that is called last.

    >>> [(one.function.__name__, one.options) for one in called_in(partial(max, key=abs))]
    [('max', {'key': <built-in function abs>})]
    """
    args: tuple[Any, ...] = ()
    options: dict[str, Any] = {}
    while isinstance(function, partial):
        args = (*function.args, *args)
        options = {**function.keywords, **options}
        function = function.func
    if not hasattr(function, "funcs"):  # no composition of toolz's
        return [Called(function, args, options)]
    found = [one for each in reversed(function.funcs) for one in called_in(each)]
    found += called_in(function.first)
    inner = found[-1]
    return [*found[:-1], Called(inner.function, inner.args + args, {**inner.options, **options})]


def block_call(graph: HighLevelGraph, name: str) -> BlockCall | None:
    """Return what a Blockwise layer calls; None if it is none, or is composed of several."""
    layer = graph.layers.get(name)
    if not isinstance(layer, Blockwise) or not isinstance(layer.task, spec.Task):
        return None
    tokens = [spec.TaskRef(blockwise_token(n)) for n in range(len(layer.indices))]
    if list(layer.task.args) != tokens:
        return None
    found = called_in(layer.task.func)
    if len(found) != 1:
        return None
    (one,) = found
    options = {**one.options, **layer.task.kwargs}
    inputs = tuple((_plain(given), axes) for given, axes in layer.indices)
    return BlockCall(one.function, one.args, options, inputs, tuple(layer.output_indices))


def _plain(given: Any) -> Any:
    return given.key if isinstance(given, spec.TaskRef) else given


def tasks_call(graph: HighLevelGraph, name: str) -> list[Called] | None:
    """Return what all tasks of a layer call; None if they call several functions, or none."""
    layer = graph.layers[name]
    if isinstance(layer, Blockwise):
        return None
    functions = {id(one): one for one in map(_function, dict(layer).values())}
    found = next(iter(functions.values())) if len(functions) == 1 else None
    return None if found is None else called_in(found)


def _function(task: Any) -> Any:
    if isinstance(task, spec.Task):
        return task.func
    return task[0] if isinstance(task, tuple) and task and callable(task[0]) else None


def functions_of(graph: HighLevelGraph, name: str) -> Iterator[Called]:
    """Yield every function that the tasks of a layer call."""
    seen = {id(one): one for one in map(_function, dict(graph.layers[name]).values())}
    for function in seen.values():
        if function is not None:
            yield from called_in(function)


def only_below(graph: HighLevelGraph, name: str) -> str:
    """Return the one layer that a layer is made of.

    Raises
    ------
    NotTakenError
        If there are several, or none.
    """
    below = graph.dependencies.get(name, set())
    if len(below) != 1:
        raise NotTakenError("it is made of several arrays")
    return next(iter(below))


def blocks_of(graph: HighLevelGraph, name: str) -> tuple[int, ...]:
    """Return how many chunks a layer has along each axis.

    Raises
    ------
    NotTakenError
        If its chunks are no grid.
    """
    layer = graph.layers[name]
    places = [
        key[1:] for key in layer.get_output_keys() if isinstance(key, tuple) and key[0] == name
    ]
    if not places or not all(isinstance(n, (int, np.integer)) for n in places[0]):
        raise NotTakenError("it is not an array of chunks")
    most = tuple(max(along) + 1 for along in zip(*places, strict=True))
    if len(places) != np.prod(most, dtype=int):
        raise NotTakenError("only some of its chunks are wanted")
    return most


def constants(graph: HighLevelGraph, name: str) -> np.ndarray:
    """Return an array that is in the graph itself.

    Raises
    ------
    NotTakenError
        If it is computed.
    """
    grid = np.empty(blocks_of(graph, name), object)
    tasks: dict[Any, Any] = dict(graph.layers[name])
    for key, value in tasks.items():
        found = value.value if isinstance(value, spec.DataNode) else value
        if not isinstance(found, np.ndarray):
            raise NotTakenError("its labels, or its ranks, are computed by Dask")
        grid[key[1:]] = found
    made: np.ndarray = np.block(grid.tolist())
    return made

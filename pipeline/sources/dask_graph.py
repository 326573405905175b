"""Graphs of Dask's: optimised, with tasks whose failures are told, computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass
from typing import Any

from dask import _task_spec as spec
from dask.base import optimize
from dask.highlevelgraph import HighLevelGraph
from dask.typing import Key

from chunkfold.bad_chunks import BadChunk
from chunkfold.errors import ChunkError, unreadable

DaskNode = spec.GraphNode
DaskGraph = Mapping[Key, DaskNode]


_LEFT: ContextVar[bool] = ContextVar("_LEFT", default=False)
left_to_dask = _LEFT.get
"""True where graphs are this package's own, or are being handed over: see `acceleration`."""


@contextmanager
def not_handed_over() -> Iterator[None]:
    """Leave the graphs that Dask optimises meanwhile, in this thread, as they are."""
    before = _LEFT.set(True)
    try:
        yield
    finally:
        _LEFT.reset(before)


@dataclass(frozen=True)
class Failed:
    """The result of a task that failed, or that needs the result of one that failed."""

    reason: str
    """The reason, as "task ('load', 3): OSError: no such file"."""


@dataclass(frozen=True)
class Guarded:
    """A task of a source's, whose failure names the source."""

    name: str
    """The name of the source."""
    node: DaskNode
    needs: tuple[Key, ...]
    """Keys of the tasks whose results it is given, in this order."""
    keeps: bool
    """True if a failure is its result, for the reader of the chunk, who may skip it."""

    def __call__(self, *results: Any) -> Any:
        """Do it.

        Raises
        ------
        ChunkfoldError
            If it fails.
        """
        for result in results:
            if isinstance(result, Failed):
                return result
        try:
            return self.node(dict(zip(self.needs, results, strict=True)))
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            bad = BadChunk(self.name, "task", str(self.node.key), (), "computed by Dask", reason)
            told = unreadable(bad, error)
            if self.keeps and isinstance(told, ChunkError):
                return Failed(f"task {self.node.key}: {reason}")
            raise told from error


def guarded(
    graph: DaskGraph, name: str, *, keeps: bool, called: Callable[[Key], Key] = lambda key: key
) -> dict[Key, DaskNode]:
    """Return a graph whose tasks' failures name their source, under other keys."""
    made: dict[Key, DaskNode] = {}
    for key, node in graph.items():
        needs = tuple(node.dependencies)
        refs = [spec.TaskRef(called(need)) for need in needs]
        new = called(key)
        if isinstance(node, spec.DataNode):
            made[new] = spec.DataNode(new, node.value)
        else:
            made[new] = spec.Task(new, Guarded(name, node, needs, keeps), *refs)
    return made


def with_results(graph: DaskGraph, results: Mapping[Key, Any]) -> dict[Key, DaskNode]:
    """Return a graph with the results of tasks that others did."""
    return {**graph, **{key: spec.DataNode(key, result) for key, result in results.items()}}


def futures_in(arrays: Iterable[Any]) -> dict[Key, Any]:
    """Return the futures that arrays are made of, by their keys."""
    found: dict[Key, Any] = {}
    for array in arrays:
        for value in dict(array.__dask_graph__()).values():
            _without_futures(value, found)
    return found


@not_handed_over()
def optimized(arrays: Sequence[Any]) -> tuple[dict[Key, DaskNode], list[Any]]:
    """Return one graph of some arrays as Dask optimises it, and each array's keys, nested lists.

    Futures in it are references: results that others have, by their keys.
    """
    if all(isinstance(array.__dask_graph__(), HighLevelGraph) for array in arrays):
        # At once: apart, a task that two arrays need may become a part of one task of each.
        keys = [array.__dask_keys__() for array in arrays]
        graphs = HighLevelGraph.merge(*(array.__dask_graph__() for array in arrays))
        found = arrays[0].__dask_optimize__(graphs, keys)
    else:  # arrays that are expressions optimise themselves
        made = optimize(*arrays)
        keys = [array.__dask_keys__() for array in made]
        found = {key: node for array in made for key, node in array.__dask_graph__().items()}
    plain = spec.convert_legacy_graph(dict(found))
    return {key: _without_futures(node, {}) for key, node in plain.items()}, keys


def _without_futures(value: Any, found: dict[Key, Any]) -> Any:
    """Return a value of a graph with references in place of futures, which are added to `found`.

    A future that travels inside a task would be one of another client's where it arrives.
    """
    if isinstance(value, spec.TaskRef) or getattr(value, "__dask_future__", False):
        if type(value) is spec.TaskRef:
            return value
        found[value.key] = value
        return spec.TaskRef(value.key)
    if isinstance(value, spec.Task):
        args = tuple(_without_futures(one, found) for one in value.args)
        kwargs = {name: _without_futures(one, found) for name, one in value.kwargs.items()}
        if all(map(_same, (*args, *kwargs.values()), (*value.args, *value.kwargs.values()))):
            return value
        made = copy(value)
        made.args, made.kwargs = args, kwargs
        return made
    if type(value) in (list, tuple, set, dict):
        inside = value.values() if isinstance(value, dict) else value
        plain = [_without_futures(one, found) for one in inside]
        if all(map(_same, plain, inside)):
            return value
        return (
            dict(zip(value, plain, strict=True)) if isinstance(value, dict) else type(value)(plain)
        )
    return value


def _same(one: Any, other: Any) -> bool:
    return one is other


def computed(
    graph: DaskGraph,
    results: Mapping[Key, Any],
    wanted: Sequence[Key],
    name: str,
    get: Callable[..., Any],
    told: Callable[[], None],
    *,
    keeps: bool,
) -> dict[Key, Any]:
    """Compute what is wanted of a graph by a scheduler of Dask's; return it by key.

    `results` are what others computed. `told` is called when a task is done, and may raise.

    Raises
    ------
    ChunkfoldError
        If a task fails, unless what it leaves `keeps` that.
    """
    ready = with_results(guarded(graph, name, keeps=keeps), results)

    def after(*_: Any) -> None:
        told()

    # As Dask's callbacks: at the start, then with its state, before a task, behind it, at the end.
    callbacks = [(None, None, None, after, None)]
    done = get(ready, list(wanted), callbacks=callbacks)
    return dict(zip(wanted, done, strict=True))

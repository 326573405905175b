"""Graphs of Dask's: which tasks a block has for itself, and which several blocks share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import TopologicalSorter
from typing import Any

from dask import _task_spec as spec
from dask.base import optimize
from dask.highlevelgraph import HighLevelGraph
from dask.sizeof import sizeof
from dask.typing import Key

from chunkfold.bad_chunks import BadChunk
from chunkfold.errors import ChunkError, unreadable

CONSTANT_BYTES = 64 << 10
"""Most that a value may have that each block brings, rather than have it from one worker."""
Node = spec.GraphNode
Graph = Mapping[Key, Node]


@dataclass(frozen=True)
class Failed:
    """What a task left that could not be done, or one that needs its result."""

    reason: str
    """As "task ('load', 3): OSError: no such file"."""


@dataclass(frozen=True)
class Guarded:
    """A task of a source's, whose failure names the source."""

    name: str
    """Of the source."""
    node: Node
    needs: tuple[Key, ...]
    """In the order in which it is given their results."""
    keeps: bool
    """Whether a failure is what it leaves, for whoever reads the chunk: it may be left out."""

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
    graph: Graph, name: str, *, keeps: bool, called: Callable[[Key], Key] = lambda key: key
) -> dict[Key, Node]:
    """Return a graph whose tasks' failures name their source, under other keys."""
    made: dict[Key, Node] = {}
    for key, node in graph.items():
        needs = tuple(node.dependencies)
        refs = [spec.TaskRef(called(need)) for need in needs]
        new = called(key)
        if isinstance(node, spec.DataNode):
            made[new] = spec.DataNode(new, node.value)
        else:
            made[new] = spec.Task(new, Guarded(name, node, needs, keeps), *refs)
    return made


def with_results(graph: Graph, results: Mapping[Key, Any]) -> dict[Key, Node]:
    """Return a graph with the results of tasks that others did."""
    return {**graph, **{key: spec.DataNode(key, result) for key, result in results.items()}}


def futures_in(arrays: Iterable[Any]) -> dict[Key, Any]:
    """Return the futures that arrays are made of, by their keys."""
    found: dict[Key, Any] = {}
    for array in arrays:
        for value in dict(array.__dask_graph__()).values():
            _without_futures(value, found)
    return found


def optimized(arrays: Sequence[Any]) -> tuple[dict[Key, Node], list[Any]]:
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


@dataclass(frozen=True)
class Own:
    """What a block computes by itself."""

    graph: Graph = field(default_factory=dict)
    inputs: tuple[Key, ...] = ()
    """Keys of the results of others that it needs."""


@dataclass(frozen=True, eq=False)
class Division:
    """The tasks of a graph, shared out to blocks: each runs once.

    A task that one block needs is that block's own. One that several need runs with the batch of
    the first of them, before it, and its result is kept until the last that takes it is done.
    """

    graph: Graph
    wanted: Sequence[Sequence[Key]]
    """Keys of what each block needs."""

    @cached_property
    def _constants(self) -> Graph:
        """Small values, which each block brings."""
        return {
            key: node
            for key, node in self.graph.items()
            if isinstance(node, spec.DataNode) and sizeof(node.value) <= CONSTANT_BYTES
        }

    def _needs(self, key: Key) -> Iterator[Key]:
        """Yield what is needed of other tasks, of the graph."""
        return (need for need in self.graph[key].dependencies if need in self._tasks)

    @cached_property
    def _tasks(self) -> Graph:
        """Those that some block needs, without constants."""
        found: dict[Key, Node] = {}
        waiting = [key for keys in self.wanted for key in keys]
        while waiting:
            key = waiting.pop()
            if key in found or key not in self.graph or key in self._constants:
                continue
            found[key] = self.graph[key]
            waiting.extend(found[key].dependencies)
        return found

    @cached_property
    def _needed_by(self) -> Mapping[Key, tuple[int, int]]:
        """The first block that needs each task, and the last."""
        first: dict[Key, int] = {}
        last: dict[Key, int] = {}

        def need(key: Key, least: int, most: int) -> None:
            first[key] = min(first.get(key, least), least)
            last[key] = max(last.get(key, most), most)

        for block, keys in enumerate(self.wanted):
            for key in keys:
                need(key, block, block)
        order = TopologicalSorter({key: list(self._needs(key)) for key in self._tasks})
        for key in reversed(list(order.static_order())):
            for other in self._needs(key):
                need(other, first[key], last[key])
        return {key: (first[key], last[key]) for key in self._tasks}

    def _shared(self, key: Key) -> bool:
        first, last = self._needed_by[key]
        return first != last

    @cached_property
    def batches(self) -> Mapping[int, Sequence[Key]]:
        """The shared tasks that run before each block, by its number."""
        made = defaultdict[int, list[Key]](list)
        for key in self._tasks:
            if self._shared(key):
                made[self._needed_by[key][0]].append(key)
        return made

    @cached_property
    def takers(self) -> Mapping[Key, frozenset[int]]:
        """The blocks that take the result of each shared task: they, or the batches before them.

        None of those that its own batch needs alone.
        """
        taken: dict[Key, set[int]] = defaultdict(set)
        for block, keys in enumerate(self.wanted):
            for key in keys:
                if key in self._tasks and self._shared(key):
                    taken[key].add(block)
        for key in self._tasks:
            batch = self._needed_by[key][0]
            for need in self._needs(key):
                if self._shared(need) and not (
                    self._shared(key) and self._needed_by[need][0] == batch
                ):
                    taken[need].add(batch)
        return {key: frozenset(blocks) for key, blocks in taken.items()}

    def own(self, block: int) -> Own:
        """Return what a block computes by itself."""
        return self._made_of(self.wanted[block], self._shared)

    def again(self, keys: Iterable[Key], there: Container[Key]) -> Own:
        """Return what makes results again that were let go of, of those that are there."""
        return self._made_of(keys, there.__contains__)

    def _made_of(self, keys: Iterable[Key], given: Callable[[Key], bool]) -> Own:
        """Return what makes results, of others that are given."""
        inputs: dict[Key, None] = {}
        graph: dict[Key, Node] = {}
        waiting = list(keys)
        while waiting:
            key = waiting.pop()
            if key in graph or key in inputs:
                continue
            if key in self._constants:
                graph[key] = self._constants[key]
            elif key in self._tasks and not given(key):
                graph[key] = self._tasks[key]
                waiting.extend(graph[key].dependencies)
            else:
                inputs[key] = None
        return Own(graph, tuple(inputs))

    def before(self, blocks: range) -> Own:
        """Return the shared tasks that run before some blocks, none of which has begun."""
        keys = [key for block in blocks for key in self.batches.get(block, ())]
        graph = {key: self._tasks[key] for key in keys}
        needs = dict.fromkeys(need for node in graph.values() for need in node.dependencies)
        graph |= {need: self._constants[need] for need in needs if need in self._constants}
        return Own(graph, tuple(need for need in needs if need not in graph))


def computed(
    own: Own,
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
    graph = with_results(guarded(own.graph, name, keeps=keeps), results)

    def after(*_: Any) -> None:
        told()

    # As Dask's callbacks: at the start, then with its state, before a task, behind it, at the end.
    callbacks = [(None, None, None, after, None)]
    done = get(graph, list(wanted), callbacks=callbacks)
    return dict(zip(wanted, done, strict=True))

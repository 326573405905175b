"""Dask's tasks are divided: a block computes its own tasks, and several blocks share the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import TopologicalSorter

from dask import _task_spec as spec
from dask.sizeof import sizeof
from dask.typing import Key

from chunkfold.sources.dask_graph import DaskGraph, DaskNode

CONSTANT_BYTES = 64 << 10
"""Most that a value may have that each block brings, rather than have it from one worker."""


@dataclass(frozen=True)
class Own:
    """The tasks that one block computes by itself."""

    graph: DaskGraph = field(default_factory=dict)
    inputs: tuple[Key, ...] = ()
    """Keys of the results of others that it needs."""


@dataclass(frozen=True, eq=False)
class Division:
    """The tasks of a graph, shared out to blocks: each runs once.

    A task that one block needs is that block's own. One that several need runs with the batch of
    the first of them, before it, and its result is kept until the last that takes it is done.
    """

    graph: DaskGraph
    wanted: Sequence[Sequence[Key]]
    """Keys of what each block needs."""

    @cached_property
    def _constants(self) -> DaskGraph:
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
    def _tasks(self) -> DaskGraph:
        """Return the tasks that some block needs, without constants."""
        found: dict[Key, DaskNode] = {}
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
        graph: dict[Key, DaskNode] = {}
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

"""Graphs of Dask's: all that is answered here of one, and the graph with the answers in it."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dask import _task_spec as spec
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from chunkfold.graphs.dask_reductions import dask_reduction
from chunkfold.graphs.flox_groups import grouped_reduction
from chunkfold.graphs.graph_calls import NotTakenError, blocks_of
from chunkfold.graphs.graph_reductions import FEW, GraphReduction
from chunkfold.graphs.order_layers import order_statistic
from chunkfold.sources.computed_source import ComputedSource

_Find = Callable[[HighLevelGraph, str], GraphReduction | None]
_FINDERS: Sequence[_Find] = (dask_reduction, order_statistic, grouped_reduction)


@dataclass(frozen=True)
class TakenLayers:
    """Reductions of a graph that are answered here, and those that are left to Dask."""

    found: tuple[GraphReduction, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)
    """The reason for each layer that is left."""


def taken_of(graph: HighLevelGraph, keys: Any, most_shared: int) -> TakenLayers:
    """Return the reductions of a graph that are answered here.

    Those are left to Dask whose elements it reads anyway for something else, unless these have more
    than `most_shared` bytes.
    """
    found, left = _found(graph)
    for name in _read_apart(found, most_shared):
        del found[name]
        left[name] = "elements that it is computed of are read for something else, too"
    if not found:
        return TakenLayers((), left)
    culled, rest = _culled(graph, keys), _reached(graph, keys, found)
    for name, one in list(found.items()):
        if culled[name] < math.prod(map(len, one.chunks)):
            left[name] = "only some of its chunks are wanted"
        elif one.few_each:
            left[name] = f"each of its results is of fewer than {FEW} elements"
        elif not rest.isdisjoint(one.view.readers) and one.view.nbytes <= most_shared:
            left[name] = "Dask reads its elements for something else, too"
    return TakenLayers(tuple(one for name, one in found.items() if name not in left), left)


def _found(graph: HighLevelGraph) -> tuple[dict[str, GraphReduction], dict[str, str]]:
    """Return the reductions of stored arrays by their layers, and why others are left."""
    found: dict[str, GraphReduction] = {}
    left: dict[str, str] = {}
    for name in graph.layers:
        try:
            one = _reduction(graph, name)
        except NotTakenError as why:
            left[name] = str(why)
            continue
        except Exception as error:  # noqa: BLE001 # other versions of Dask have other layers
            left[name] = f"it is not understood ({type(error).__name__}: {error})"
            continue
        if one is not None:
            found[name] = one
    return found, left


def _read_apart(found: Mapping[str, GraphReduction], most_shared: int) -> list[str]:
    """Return which take a read of their own, of arrays that others read, too, and Dask once."""
    bases: defaultdict[str, set[str]] = defaultdict(set)
    for one in found.values():
        for reader in one.view.readers:
            bases[reader].add(one.view.base)
    return [
        name
        for name, one in found.items()
        if isinstance(one.view.source, ComputedSource)
        and one.view.nbytes <= most_shared
        and any(len(bases[reader]) > 1 for reader in one.view.readers)
    ]


def _reduction(graph: HighLevelGraph, name: str) -> GraphReduction | None:
    for find in _FINDERS:
        one = find(graph, name)
        if one is not None:
            if blocks_of(graph, name) != tuple(map(len, one.chunks)):
                raise NotTakenError("its chunks are not those of its results")
            return one
    return None


def _culled(graph: HighLevelGraph, keys: Any) -> Counter[Any]:
    """Return how many chunks of each array some keys need, by its name."""
    layers: Mapping[str, Any] = graph.cull(set(flatten([keys]))).layers
    made = itertools.chain.from_iterable(one.get_output_keys() for one in layers.values())
    return Counter(key[0] if isinstance(key, tuple) else key for key in made)


def _reached(graph: HighLevelGraph, keys: Any, answered: Container[str]) -> set[str]:
    """Return the layers that keys need, if some are answered."""
    names = {key[0] if isinstance(key, tuple) else key for key in flatten([keys])}
    waiting = list(names if names <= {*graph.layers} else graph.layers)
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found and name not in answered:
            found.add(name)
            waiting.extend(graph.dependencies[name])
    return found


def with_blocks(graph: HighLevelGraph, blocks: Mapping[str, Mapping[Any, Any]]) -> HighLevelGraph:
    """Return a graph with chunks in the place of the layers that compute them."""
    made = {
        name: MaterializedLayer({key: spec.DataNode(key, value) for key, value in each.items()})
        for name, each in blocks.items()
    }
    nothing: dict[str, set[str]] = {name: set() for name in made}
    return HighLevelGraph({**graph.layers, **made}, {**graph.dependencies, **nothing})


def by_read(found: Iterable[GraphReduction]) -> list[list[GraphReduction]]:
    """Return reductions that one read of the data answers together."""
    reads: defaultdict[str, list[GraphReduction]] = defaultdict(list)
    for one in found:
        reads[one.view.base].append(one)
    return list(reads.values())

"""A plan as a graph of Dask's: whoever computes it carries the plan out."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from dask._task_spec import DataNode, GraphNode, Task, TaskRef
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.typing import Key
from distributed import Client

from chunkfold.cluster.device_workers import DeviceWorkers
from chunkfold.errors import MonoidError, PlanError
from chunkfold.events import OnEvent
from chunkfold.kernels import all_devices, default_devices
from chunkfold.kernels.binding.statistic import Statistic
from chunkfold.kernels.tuning.decode_request import decode_rates
from chunkfold.planning.blocks import Range, Tree
from chunkfold.planning.feeding import codecs_to_measure
from chunkfold.planning.output_chunks import OutputChunks, output_chunks
from chunkfold.planning.plan import Plan, request_of
from chunkfold.planning.planner import fitted, make_plan
from chunkfold.planning.request import Request
from chunkfold.planning.work import Work, to_a_graph
from chunkfold.planning.workers import THREADS, Terms
from chunkfold.results.label_sources import OfXarray
from chunkfold.results.results import Results, in_order
from chunkfold.running.ready import check_terms
from chunkfold.running.remarks import warn_user
from chunkfold.sources.dask_source import DaskChunks, arrays_in
from chunkfold.worker.finishing import Finishing
from chunkfold.worker.tasks import (
    Ending,
    Root,
    constants_task,
    graph_block,
    graph_chunk,
    graph_combine,
)

if TYPE_CHECKING:
    from dask.array import Array

Layer = dict[Key, GraphNode]


def lazily(
    asked: Request | Plan, client: Client | None, on_event: OnEvent | None, *, labels: bool
) -> Any:
    """Plan what was asked, and return what computes it: see `chunkfold.reduce`, `compute`.

    Raises
    ------
    ChunkfoldError
        If it cannot be planned, or is of what nobody would hear.
    """
    request = request_of(asked)
    if on_event is not None:
        raise PlanError(
            "on_event reports a run, but with compute=False Dask runs the plan, and has its own "
            "dashboard: omit one of them"
        )
    if request.options.skips:
        raise PlanError(
            "on_bad_chunk is 'skip', but with compute=False chunkfold cannot report what was "
            "skipped: omit one of them"
        )
    if request.options.ledger is not None:
        raise PlanError(
            "a ledger keeps the partials of a run, but with compute=False Dask runs the plan: "
            "omit one of them"
        )
    if request.questions:
        raise PlanError(
            "several questions can share the read of a run, but not of a graph: omit "
            "compute=False, or compute them one by one"
        )
    chosen, codecs = check_terms(client, request.sources), codecs_to_measure(request)
    resources: Mapping[str, int] = {}
    if chosen is None:  # a plan is made where there is no device, too
        able = default_devices()[0][:1] if all_devices() else ()
        rates = [one for device in able for one in decode_rates(device, codecs)]
        terms = Terms.of_this_host(able, 1, THREADS, None, rates)
    else:
        workers = DeviceWorkers(chosen)
        terms, resources = workers.ask(lambda: None, codecs).terms, workers.resources
    if isinstance(asked, Plan):
        plan = fitted(asked, terms)
    else:
        plan = make_plan(asked, asked.listings(), terms, once=True)
    if plan.reads > 1:
        raise PlanError(
            f"{', '.join(plan.ops)}: the data are read up to {plan.reads} times, and each read "
            "needs the results of the one before, but with compute=False they are read once: "
            "omit it"
        )
    warn_user(plan.unshown(plan.missing))
    return _given(plan, TaskGraph(plan, resources).arrays(), labels=labels)


def _given(plan: Plan, arrays: Mapping[str, Array], *, labels: bool) -> Any:
    """Return arrays as what they were asked for as."""
    found: Mapping[str, Any] = arrays
    results = Results(plan, arrays)
    if isinstance(results.labels, OfXarray):
        found = {op: results.labels.as_given(one) for op, one in results.items()}
    elif labels or plan.grouping is not None:
        found = {op: one.to_xarray() for op, one in results.items()}
    return next(iter(found.values())) if plan.options.single else dict(found)


@dataclass(frozen=True)
class TaskGraph:
    """The tasks of a plan, under keys of their own."""

    plan: Plan
    resources: Mapping[str, int]
    """Dask resources that blocks and combines require, if some workers have no device."""

    @cached_property
    def _work(self) -> Work:
        return Work.in_graph(uuid.uuid4().hex, self.plan)

    def arrays(self) -> dict[str, Array]:
        """Return the results by op, as arrays of one graph.

        Raises
        ------
        MonoidError
            If the shape of one depends on the data.
        """
        from dask.array import Array  # which takes long

        folding = f"chunkfold-fold-{self._work.scan.run}"
        layer, roots = self._folding(folding)
        wanted = {"resources": dict(self.resources)} if self.resources else None
        annotated: Any = MaterializedLayer(layer, annotations=wanted)
        of = arrays_in(self.plan.sources)
        below = HighLevelGraph.from_collections(folding, annotated, dependencies=of)
        chunks, finishing = output_chunks(self.plan.layout), Finishing.of(self.plan)
        made = {}
        for statistic in self.plan.bound.statistics:
            like, name = self._like(statistic), f"{statistic.name}-{self._work.scan.run}"
            ending = Ending(finishing, statistic, like)
            own = dict(_chunks(name, ending, chunks, roots))
            graph = HighLevelGraph(
                {**below.layers, name: MaterializedLayer(own)},
                {**below.dependencies, name: {folding}},
            )
            along = finishing.by_axis(
                [tuple(extents) for extents in chunks.extents],
                [(count,) for count in finishing.groups or ()],
                (1,),
            )
            along += tuple((size,) for size in like.shape[1:])
            meta = np.empty((0,) * len(along), like.dtype)
            made[statistic.name] = _even(in_order(self.plan, Array(graph, name, along, meta=meta)))
        return made

    def _like(self, statistic: Statistic) -> np.ndarray:
        try:
            return statistic.like(self.plan.accumulator)
        except MonoidError as error:
            raise MonoidError(f"{error}, or omit compute=False") from error

    def _folding(self, name: str) -> tuple[Layer, dict[Root, Key]]:
        """Return the tasks that fold and combine, and the keys of the roots."""
        work, constants, common = self._work, self._work.constants, (name, "work")
        layer: Layer = {}
        held: TaskRef | None = None
        if constants.nbytes:
            held, work = TaskRef((name, "constants")), work.without_constants()
            layer[held.key] = Task(held.key, constants_task, constants.packed())
        layer[common] = DataNode(common, work.common(to_a_graph))
        left: dict[Range, list[Key]] = {tiles: [] for tiles in self.plan.tile_ranges}
        for block in self.plan.blocks:
            data = self._work.data_of(block, to_a_graph)
            parts = () if data is None else data.sources.values()
            wanted = [part.wanted.values() for part in parts if isinstance(part, DaskChunks)]
            inputs = tuple(dict.fromkeys(itertools.chain.from_iterable(wanted)))
            key, sent = (name, "block", block.number), self.plan.sent(block)
            refs = map(TaskRef, inputs)
            layer[key] = Task(key, graph_block, TaskRef(common), held, sent, data, inputs, *refs)
            left[block.tiles].append(key)
        elements = self._work.first.layout.leaf_elements()
        roots = {}
        for tiles, keys in left.items():
            tree = Tree(len(keys), self.plan.largest_tree.fan_in)
            combined, root = _combines(name, tiles[0], TaskRef(common), tree, keys)
            layer |= combined
            roots[Root(tiles, int(elements[slice(*tiles)].sum()))] = root
        return layer, roots


def _even(array: Array) -> Array:
    """Return an array whose chunks are alike along each axis but for the last: as Zarr stores."""
    uneven = {
        n: max(sizes)
        for n, sizes in enumerate(array.chunks)
        if {*sizes[:-1]} - {sizes[0]} or sizes[-1:] > sizes[:1]
    }
    return array.rechunk(uneven) if uneven else array


def _combines(
    name: str, tile: int, work: TaskRef, tree: Tree, blocks: Sequence[Key]
) -> tuple[Layer, Key]:
    """Return the tasks that combine the blocks of a run of tiles, and the key of its root."""
    layer: Layer = {}
    below = list(blocks)
    for level in range(1, tree.height + 1):
        above = []
        for number in range(tree.sizes[level]):
            parts = [below[n] for n in tree.children(level, number)]
            key: Key = parts[0]
            if len(parts) > 1:
                key = (name, "combine", tile, level, number)
                layer[key] = Task(key, graph_combine, work, *map(TaskRef, parts))
            above.append(key)
        below = above
    return layer, below[0]


def _chunks(
    name: str, ending: Ending, chunks: OutputChunks, roots: Mapping[Root, Key]
) -> Iterator[tuple[Key, GraphNode]]:
    """Yield the tasks that make the chunks of one reduction's results."""
    common = f"{name}-ending"
    yield common, DataNode(common, ending)
    of_tile = {tile: root for root in roots for tile in range(*root.tiles)}
    finishing, behind = ending.finishing, (0,) * (ending.like.ndim - 1)
    groups = [0] * len(finishing.groups or ())
    for place in chunks.places():
        tiles = chunks.tiles(place)
        needed = tuple(dict.fromkeys(of_tile[tile] for tile in tiles if tile in of_tile))
        key: Key = (name, *finishing.by_axis(place, groups, 0), *behind)
        refs = (TaskRef(roots[root]) for root in needed)
        box = chunks.box(place)
        yield key, Task(key, graph_chunk, TaskRef(common), box, tiles, needed, *refs)

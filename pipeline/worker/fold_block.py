"""The two tasks that workers run: fold a block of leaves, combine partials.

What `fold_block` and `combine` do any process can; their tasks are for workers of Dask's.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from dask.local import get_sync
from dask.typing import Key
from distributed import get_worker

from chunkfold.events import reporter, to_message
from chunkfold.kernels import Accumulator, Combiner, Partial, Tuning
from chunkfold.kernels.accumulator.by_group import placed
from chunkfold.kernels.accumulator.sums import Rounded
from chunkfold.kernels.fold.profile import merged
from chunkfold.planning.block_data import BlockData, Constants
from chunkfold.planning.blocks import Block
from chunkfold.planning.leaf_extremes import LeafExtremes
from chunkfold.planning.tiles import FinishedTile
from chunkfold.planning.work import Work
from chunkfold.reading.reads import all_outputs
from chunkfold.sources.absent_objects import missed_of
from chunkfold.sources.source import Source
from chunkfold.stores.requests import Requests, flight
from chunkfold.worker.block_report import BlockTimes, DeviceReport, Report, merge
from chunkfold.worker.combine_finer import combined_finer
from chunkfold.worker.computing import TaskProgress, sources_in
from chunkfold.worker.fold_tile import tiles_of
from chunkfold.worker.law_trials import try_on_data
from chunkfold.worker.metrics import count_block
from chunkfold.worker.some_groups import combined_groups
from chunkfold.worker.stream import LeafStream
from chunkfold.worker.tasks import is_cancelled, is_unwanted
from chunkfold.worker.watch import Watch
from chunkfold.worker.worker_device import WorkerDevice, device_of


@dataclass(frozen=True)
class Folded:
    """What a task leaves on its worker."""

    partials: tuple[Partial, ...]
    """One per tile; where tiles are finished none."""
    report: Report
    tiles: tuple[FinishedTile, ...] = ()
    """Those that are finished, if they are."""
    groups: np.ndarray | None = None
    """The numbers of the groups that partials have, int64, ascending; None: all."""
    beside: tuple[Mapping[int, Partial], ...] = ()
    """For each other question partials of those of its tiles that were met, by their numbers."""
    extremes: LeafExtremes | None = None
    """Ranges of leaves that were read, where another read may skip some."""

    def partials_of_all(self, accumulator: Accumulator, groups: int) -> tuple[Partial, ...]:
        """Return the partials with every one of so many groups."""
        if self.groups is None:
            return self.partials
        return tuple(placed(accumulator, groups, [(self.groups, one)]) for one in self.partials)


def block_task(
    work: Work,
    block: Block,
    attempt: int,
    topic: str,
    constants: Constants | None = None,
    data: BlockData | None = None,
    results: Mapping[Key, Any] | None = None,
) -> Folded:
    """Fold a block on the worker's device. Runs on workers.

    `constants` are the work's, if they do not travel with it, and `results` those of Dask's tasks
    that the block's data are made of.
    """
    work = work if constants is None else work.with_constants(constants)
    worker = get_worker()
    owned, address = device_of(worker), worker.address
    unwanted = is_unwanted(worker)
    report = reporter(
        work.run,
        block.number,
        attempt,
        address,
        owned.device.identity,
        lambda event: worker.log_event(topic, to_message(event)),  # type: ignore[arg-type]
    )
    watch = Watch(report, lambda: is_cancelled(work.run) or unwanted())
    told = TaskProgress(work.run, watch)
    bring = partial(sources_in, data, results or {}, get_sync, told)
    return fold_block(owned, address, work, block, watch, bring)


def fold_block(
    owned: WorkerDevice,
    worker: str,
    work: Work,
    block: Block,
    watch: Watch,
    bring: Callable[[], Mapping[int, Source]] = dict,
) -> Folded:
    """Stream a block's leaves through the device into one partial per tile.

    Nothing is kept but accumulators. `bring` returns sources of its own, by their numbers.

    Raises
    ------
    ChunkError
        If a chunk cannot be read, unless such are to be left out.
    MonoidError
        If a monoid of the run turns out to be none on these data.
    DeviceError
        If the device fails.
    CancelledError
        If the run was cancelled meanwhile.
    """
    with owned.admitted(work.run, work.at_once, watch.cancelled):
        began, since = time.time(), time.monotonic()
        work = work.with_sources(bring())
        brought = time.monotonic()
        laws = {
            name: moved
            for one in (work, *work.beside)
            for name, moved in try_on_data(owned, replace(one, layout=work.layout), block).items()
        }
        work, groups = work.of_some_groups(block)
        stream = LeafStream(owned, work, block, watch)
        try:
            tuning = stream.tuning(work.accumulator, all_outputs(work, block.tiles[0], ()))
            prepared = time.monotonic() - brought
            partials, tiles = _folded(stream, work, block)
            beside = _beside(stream, dict(enumerate(partials, block.tiles[0])))
        finally:
            stream.close()
    totals = stream.totals
    totals.read_s += brought - since
    times = BlockTimes(
        began,
        time.monotonic() - since,
        prepared,
        totals.read_s - totals.decode_s,
        totals.decode_s,
        totals.upload_s,
        totals.fold_s,
        totals.nbytes,
    )
    entry = _reported(
        owned,
        worker,
        tuning,
        blocks=1,
        nbytes=totals.nbytes,
        read_s=totals.read_s,
        timeline=(times,),
        profile=merged(totals.profiles),
    )
    count_block(owned.device.uuid, times, sum(totals.skipped.values()))
    watch.progress(totals.nbytes, True)
    requests = flight().taken() if work.fetching else Requests()
    missed = {
        source.name: missed_of(places, source.object_grid)
        for source, places in zip(work.sources, totals.missed, strict=True)
        if places
    }
    report = Report(
        totals.elements, {owned.device.identity: entry}, totals.skipped, laws, requests, missed
    )
    report = merge([report])  # which bounds what was skipped
    return Folded(partials, report, tiles, groups, beside, stream.extremes)


def _folded(
    stream: LeafStream, work: Work, block: Block
) -> tuple[tuple[Partial, ...], tuple[FinishedTile, ...]]:
    """Return a partial of each tile; or tiles, if they leave one by one and are whole here."""
    whole = block.parts == (0, work.layout.parts)
    if work.finishing is None or not whole:
        found = list(tiles_of(stream))
        return tuple(one for one in found if isinstance(one, Partial)), ()
    tiles = list[FinishedTile]()
    for tile, done in enumerate(tiles_of(stream), block.tiles[0]):
        shape = work.layout.tile_shape(tile)
        if isinstance(done, Partial):
            tiles.append(work.finishing.finished(tile, shape, done, stream.combine))
        elif isinstance(done, Rounded):
            tiles.append(work.finishing.of_rounded(tile, shape, done))
        else:
            tiles.append(work.finishing.of_levels(tile, done))
    return (), tuple(tiles)


def _beside(stream: LeafStream, first: Mapping[int, Partial]) -> tuple[Mapping[int, Partial], ...]:
    """Return the partials of each other question, by their tiles; `first` are the first one's."""
    works = stream.work.together
    found: dict[int, Mapping[int, Partial]] = {0: first}
    folded = [n for n, one in enumerate(works) if n and one.roll_up is None]
    for n, other in zip(folded, stream.beside, strict=True):
        found[n] = other.finish(partial(_folded_again, stream, works[n]), stream.fills)
    return tuple(_rolled_up(stream, found, n) for n in range(1, len(works)))


def _rolled_up(
    stream: LeafStream, found: dict[int, Mapping[int, Partial]], number: int
) -> Mapping[int, Partial]:
    """Return the partials of a question, perhaps combined from those of a finer one.

    No inner function: one that calls itself keeps what it sees until Python collects cycles.
    """
    works = stream.work.together
    roll_up = works[number].roll_up
    if number not in found and roll_up is not None:
        finer = _rolled_up(stream, found, roll_up.finer)
        found[number] = combined_finer(works[number], works[roll_up.finer], finer, stream.combine)
    return found[number]


def _folded_again(stream: LeafStream, work: Work, tile: int, parts: Sequence[int]) -> Partial:
    """Fold parts of a tile of another question by themselves."""
    found, first = list[Partial](), stream.work.layout
    for part in parts:
        leaf = first.tile_and_part(work.layout.numbers(tile, part))
        alone = LeafStream(
            stream.owned, work, stream.block.of_leaf(leaf, (tile, part)), stream.totals.watch
        )
        try:
            found += (one for one in tiles_of(alone) if isinstance(one, Partial))
        finally:
            alone.close()
    return stream.combine(work.accumulator, found)


def _reported(owned: WorkerDevice, worker: str, tuning: Tuning, **counted: Any) -> DeviceReport:
    workers = (worker,) if worker else ()
    return DeviceReport(owned.device, tuning.variant, str(tuning), workers, **counted)


def combine(owned: WorkerDevice, worker: str, work: Work, parts: Sequence[Folded]) -> Folded:
    """Combine what blocks or other combines left, tile by tile, with the same op and zero."""
    tuning = owned.tuning(work.accumulator, work.variant)
    combiner = Combiner(owned.opened, work.accumulator, tuning)
    tiles = zip(*(part.partials for part in parts), strict=True)
    groups, together = None, combiner.combine
    if any(part.groups is not None for part in parts):
        each = [np.arange(work.groups) if part.groups is None else part.groups for part in parts]
        groups = functools.reduce(np.union1d, each)
        together = partial(combined_groups, work.accumulator, each, combine=combiner.combine)
    partials = tuple(map(together, tiles))
    beside = tuple(
        _combined_beside(owned, one, [part.beside[n] for part in parts])
        for n, one in enumerate(work.beside)
    )
    profile = combiner.profile()
    own = _reported(owned, worker, tuning, profile=profile)
    report = merge([*(part.report for part in parts), Report(0, {owned.device.identity: own})])
    extremes = LeafExtremes.together(part.extremes for part in parts) if work.extremes else None
    return Folded(partials, report, groups=groups, beside=beside, extremes=extremes)


def _combined_beside(
    owned: WorkerDevice, work: Work, parts: Sequence[Mapping[int, Partial]]
) -> Mapping[int, Partial]:
    """Combine partials of the same tile."""
    combiner = Combiner(
        owned.opened, work.accumulator, owned.tuning(work.accumulator, work.variant)
    )
    tiles = dict.fromkeys(itertools.chain.from_iterable(parts))
    return {
        tile: combiner.combine([part[tile] for part in parts if tile in part]) for tile in tiles
    }


def combine_task(work: Work, *parts: Folded) -> Folded:
    """Combine partials on the worker's device. Runs on workers."""
    worker = get_worker()
    return combine(device_of(worker), worker.address, work, parts)

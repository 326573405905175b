"""The two tasks that workers run: fold a block of leaves, combine partials."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chunkfold.kernels import Combiner, Partial, Tuning
from chunkfold.kernels.fold.profile import merged
from chunkfold.planning.blocks import Block
from chunkfold.planning.tiles import FinishedTile
from chunkfold.planning.work import Work
from chunkfold.reading.reads import whole_window
from chunkfold.sources.absent_objects import missed_of
from chunkfold.sources.source import Source
from chunkfold.stores.requests import Requests, flight
from chunkfold.worker.fold_tile import tiles_of
from chunkfold.worker.law_trials import try_on_data
from chunkfold.worker.metrics import count_block
from chunkfold.worker.report import BlockTimes, DeviceReport, Report, merge
from chunkfold.worker.stream import Stream
from chunkfold.worker.watch import Watch
from chunkfold.worker.worker_device import WorkerDevice


@dataclass(frozen=True)
class Folded:
    """What a task leaves on its worker."""

    partials: tuple[Partial, ...]
    """One per tile; where tiles are finished none, or one of all of their elements."""
    report: Report
    tiles: tuple[FinishedTile, ...] = ()
    """Those that are finished, if they are."""


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
    with owned.place(work.run, work.at_once, watch.cancelled):
        began, since = time.time(), time.monotonic()
        work = work.with_sources(bring())
        brought = time.monotonic()
        laws = try_on_data(owned, work, block)
        stream = Stream(owned, work, block, watch)
        try:
            tuning = stream.tuning(work.accumulator, whole_window(work, block.tiles[0], ()))
            prepared = time.monotonic() - brought
            partials, tiles = _folded(stream, work, block)
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
    return Folded(partials, merge([report]), tiles)  # merge bounds what was skipped


def _folded(
    stream: Stream, work: Work, block: Block
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
        else:
            tiles.append(work.finishing.of_levels(tile, done))
    left = None if stream.of_all is None else stream.of_all.finish()
    return () if left is None else (left,), tuple(tiles)


def _reported(owned: WorkerDevice, worker: str, tuning: Tuning, **counted: Any) -> DeviceReport:
    workers = (worker,) if worker else ()
    return DeviceReport(owned.device, tuning.variant, str(tuning), workers, **counted)


def combine(owned: WorkerDevice, worker: str, work: Work, parts: Sequence[Folded]) -> Folded:
    """Combine what blocks or other combines left, tile by tile, with the same op and zero."""
    accumulator = work.of_all or work.accumulator  # where there is the first, tiles are not shared
    tuning = owned.tuning(accumulator, work.variant)
    combiner = Combiner(owned.opened, accumulator, tuning)
    tiles = zip(*(part.partials for part in parts), strict=True)
    partials = tuple(combiner.combine(tile) for tile in tiles)
    profile = combiner.profile()
    own = _reported(owned, worker, tuning, profile=profile)
    report = merge([*(part.report for part in parts), Report(0, {owned.device.identity: own})])
    return Folded(partials, report)

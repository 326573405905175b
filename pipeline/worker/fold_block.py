"""Fold a block of leaves on a device: the main task of a worker."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from chunkfold.boxes import Slices
from chunkfold.errors import DeviceMemoryError
from chunkfold.kernels import Accumulator, Partial, Tuning
from chunkfold.kernels.accumulator.grouped_partials import placed
from chunkfold.kernels.accumulator.sums import Rounded, in_form_of
from chunkfold.kernels.fold.profile import merged
from chunkfold.planning.blocks import Block
from chunkfold.planning.folding import Folding, RolledUp
from chunkfold.planning.group_keys import Keys
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaf_boxes import InputTraits
from chunkfold.planning.leaf_extremes import LeafExtremes
from chunkfold.planning.rows import Rows
from chunkfold.planning.tile_finishing import Combine, FinishedTile
from chunkfold.planning.work import Work
from chunkfold.reading.reads import all_outputs
from chunkfold.sources.missing_objects import missed_of
from chunkfold.sources.source import Source
from chunkfold.stores.requests import Requests, flight
from chunkfold.units import size_text
from chunkfold.worker.block_report import BlockTimes, DeviceReport, Report, count_block, merge
from chunkfold.worker.fold_tile import tiles_of
from chunkfold.worker.law_trials import try_on_data
from chunkfold.worker.stream import LeafStream
from chunkfold.worker.totals import Watch
from chunkfold.worker.worker_device import WorkerDevice


@dataclass(frozen=True)
class Folded:
    """The result of a block or of a combine, which stays on its worker."""

    partials: tuple[Partial, ...]
    """A partial for each tile; none if tiles are finished."""
    report: Report
    tiles: tuple[FinishedTile, ...] = ()
    """Finished tiles, if the block finishes them."""
    groups: np.ndarray | None = None
    """Numbers of the groups that partials have, int64, ascending; None: all."""
    secondary: tuple[Mapping[int, Partial], ...] = ()
    """For each secondary question the partials of the tiles that its leaves reach, by number."""
    extremes: LeafExtremes | None = None
    """Least and greatest elements of leaves, by which another read may skip leaves."""

    def partials_of_all(self, accumulator: Accumulator, groups: int) -> tuple[Partial, ...]:
        """Return the partials with all `groups` groups."""
        if self.groups is None:
            return self.partials
        return tuple(placed(accumulator, groups, [(self.groups, one)]) for one in self.partials)


def fold_block(
    worker_device: WorkerDevice,
    worker: str,
    work: Work,
    block: Block,
    watch: Watch,
    bring: Callable[[], Mapping[int, Source]] = dict,
) -> Folded:
    """Stream a block's leaves through the device into one partial per tile.

    Only accumulators are kept. `bring` returns the sources that only this block has, by number.
    Where the device has no memory left, it is done again with smaller reads.

    Raises
    ------
    ChunkError
        If a chunk cannot be read, unless bad chunks are skipped.
    MonoidError
        If the laws of a monoid of the run fail on these data.
    DeviceError
        If the device fails.
    CancelledError
        If the run was cancelled.
    """
    with worker_device.admitted(work.scan.run, work.scan.at_once, watch.cancelled):
        began, since = time.time(), time.monotonic()
        work = work.with_sources(bring())
        brought = time.monotonic()
        laws = {
            name: moved
            for number in range(len(work.questions))
            for name, moved in try_on_data(worker_device, work, number, block).items()
        }
        work, groups = work.of_some_groups(block)
        while (found := _streamed(worker_device, work, block, watch)) is None:
            pass
    stream, tuned, tuning, partials, tiles, secondary = found
    prepared, totals = tuned - brought, stream.totals
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
    entry = device_report(
        worker_device,
        worker,
        tuning,
        blocks=1,
        nbytes=totals.nbytes,
        read_s=totals.read_s,
        smaller=stream.smaller,
        timeline=(times,),
        profile=merged(totals.profiles),
    )
    count_block(worker_device.device.uuid, times, sum(totals.skipped.values()))
    watch.progress(totals.nbytes, True)
    requests = flight().taken() if work.scan.fetching else Requests()
    missed = {
        source.name: missed_of(places, source.object_grid)
        for source, places in zip(work.scan.sources, totals.missed, strict=True)
        if places
    }
    report = Report(
        totals.elements,
        {worker_device.device.identity: entry},
        totals.skipped,
        laws,
        requests,
        missed,
    )
    report = merge([report])  # to bound the skipped chunks
    return Folded(partials, report, tiles, groups, secondary, stream.extremes)


class _Streamed(NamedTuple):
    """A stream whose block is folded, and what that left."""

    stream: LeafStream
    tuned: float
    """When its kernels were there, by the monotonic clock."""
    tuning: Tuning
    partials: tuple[Partial, ...]
    tiles: tuple[FinishedTile, ...]
    secondary: tuple[Mapping[int, Partial], ...]


def _streamed(
    worker_device: WorkerDevice, work: Work, block: Block, watch: Watch
) -> _Streamed | None:
    """Fold a block; None if memory is short, and smaller reads are worth another try."""
    stream = LeafStream(worker_device, work, block, watch)
    try:
        with closing(stream):
            tuning = stream.tuning(work.first.accumulator, all_outputs(work, block.tiles[0], ()))
            tuned = time.monotonic()
            partials, tiles = _folded(stream, work, block)
            secondary = _secondary(stream, dict(enumerate(partials, block.tiles[0])))
    except (DeviceMemoryError, MemoryError) as error:
        if worker_device.memory.make_room(work.scan.run, stream.smaller):
            return None
        raise DeviceMemoryError(
            f"{worker_device.device} has no memory left, even for reads of "
            f"{size_text(stream.buffer_bytes)}: {error}"
        ) from error
    return _Streamed(stream, tuned, tuning, partials, tiles, secondary)


def _folded(
    stream: LeafStream, work: Work, block: Block
) -> tuple[tuple[Partial, ...], tuple[FinishedTile, ...]]:
    """Return a partial of each tile; or finished tiles, if the block has whole tiles to finish."""
    finishing, layout = work.first.finishing, work.first.layout
    if finishing is None or block.parts != (0, layout.parts):
        found = list(tiles_of(stream))
        return tuple(one for one in found if isinstance(one, Partial)), ()
    tiles = list[FinishedTile]()
    for tile, done in enumerate(tiles_of(stream), block.tiles[0]):
        shape = layout.tile_shape(tile)
        if isinstance(done, Partial):
            tiles.append(finishing.finished(tile, shape, done, stream.combine))
        elif isinstance(done, Rounded):
            tiles.append(finishing.of_rounded(tile, shape, done))
        else:
            tiles.append(finishing.of_levels(tile, done))
    return (), tuple(tiles)


def _secondary(
    stream: LeafStream, first: Mapping[int, Partial]
) -> tuple[Mapping[int, Partial], ...]:
    """Return the partials of each secondary question by tile; `first` are the first question's."""
    work, questions = stream.work, stream.work.questions
    found: dict[int, Mapping[int, Partial]] = {0: first}
    folded = [(n, one) for n, one in enumerate(questions) if n and isinstance(one, Folding)]
    for (n, question), other in zip(folded, stream.secondary, strict=True):
        again = partial(_folded_again, stream, work.alone(question))
        found[n] = other.finish(again, stream.fills)
    return tuple(_rolled_up(stream, found, n) for n in range(1, len(questions)))


def _rolled_up(
    stream: LeafStream, found: dict[int, Mapping[int, Partial]], number: int
) -> Mapping[int, Partial]:
    """Return the partials of a question, perhaps combined from those of a finer one.

    No inner function: a recursive one keeps its variables until Python collects cycles.
    """
    questions = stream.work.questions
    question = questions[number]
    if number not in found and isinstance(question, RolledUp):
        finer = _rolled_up(stream, found, question.roll_up.finer)
        layout = questions[question.roll_up.finer].layout
        found[number] = _combined_finer(question, layout, finer, stream.combine)
    return found[number]


def _folded_again(stream: LeafStream, work: Work, tile: int, parts: Sequence[int]) -> Partial:
    """Read some leaves of a tile of a secondary question once more, and fold them alone."""
    found, first = list[Partial](), stream.work.first.layout
    for part in parts:
        leaf = first.tile_and_part(work.first.layout.numbers(tile, part))
        alone = LeafStream(
            stream.worker_device,
            work,
            stream.block.of_leaf(leaf, (tile, part)),
            stream.totals.watch,
        )
        try:
            found += (one for one in tiles_of(alone) if isinstance(one, Partial))
        finally:
            alone.close()
    return stream.combine(work.first.accumulator, found)


def _combined_finer(
    question: RolledUp, finer: Layout, finer_partials: Mapping[int, Partial], combine: Combine
) -> Mapping[int, Partial]:
    """Return the partials of a question by tile, combined from those of a finer question.

    `finer_partials` are by the tiles of the `finer` layout; none of their exact sums is lost.
    """
    layout, roll_up, keys = question.layout, question.roll_up, question.keys
    assert keys is None or isinstance(keys, Keys)
    rows = Rows.of(layout, roll_up.extra_axes, InputTraits())
    by_tile = defaultdict[int, list[tuple[Slices, Partial]]](list)
    for finer_tile, one in finer_partials.items():
        # A finer tile is within one tile: it keeps all axes that this question keeps.
        tile, _ = layout.tile_and_part(finer.numbers(finer_tile, 0))
        by_tile[tile].append((finer.tile_region(finer_tile), roll_up.of(one)))
    made = {}
    for tile, several in by_tile.items():
        outputs = layout.tile_outputs(tile)
        whole = rows.grouped(roll_up.form, keys, several, outputs, combine)
        made[tile] = in_form_of(question.accumulator, whole)
    return made


def device_report(
    worker_device: WorkerDevice, worker: str, tuning: Tuning, **counted: Any
) -> DeviceReport:
    """Return the report of a device that a worker used; `counted` are its other fields."""
    workers = (worker,) if worker else ()
    return DeviceReport(worker_device.device, tuning.variant, str(tuning), workers, **counted)

"""Combine partials of the same tiles: on a worker's device, by the op of the reduction."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from chunkfold.kernels import Accumulator, Combiner, Partial
from chunkfold.kernels.accumulator.grouped_partials import picked, placed
from chunkfold.planning.leaf_extremes import LeafExtremes
from chunkfold.planning.work import Work
from chunkfold.worker.block_report import Report, merge
from chunkfold.worker.fold_block import Folded, device_report
from chunkfold.worker.worker_device import WorkerDevice


def combine(
    worker_device: WorkerDevice, worker: str, work: Work, parts: Sequence[Folded]
) -> Folded:
    """Combine the partials of blocks or of other combines, tile by tile, by the same op."""
    accumulator = work.first.accumulator
    tuning = worker_device.tuning(accumulator, work.scan.variant)
    combiner = Combiner(worker_device.opened, accumulator, tuning)
    tiles = zip(*(part.partials for part in parts), strict=True)
    groups, together = None, combiner.combine
    if any(part.groups is not None for part in parts):
        every = np.arange(work.first.groups)
        each = [every if part.groups is None else part.groups for part in parts]
        groups = functools.reduce(np.union1d, each)
        together = partial(combined_groups, accumulator, each, combine=combiner.combine)
    partials = tuple(map(together, tiles))
    secondary = tuple(
        _combined_secondary(
            worker_device, work.scan.variant, one.accumulator, [part.secondary[n] for part in parts]
        )
        for n, one in enumerate(work.secondary)
    )
    profile = combiner.profile()
    own = device_report(worker_device, worker, tuning, profile=profile)
    report = merge(
        [*(part.report for part in parts), Report(0, {worker_device.device.identity: own})]
    )
    extremes = None
    if work.scan.finds_extremes:
        extremes = LeafExtremes.merged(part.extremes for part in parts)
    return Folded(partials, report, groups=groups, secondary=secondary, extremes=extremes)


def _combined_secondary(
    worker_device: WorkerDevice,
    variant: str | None,
    accumulator: Accumulator,
    parts: Sequence[Mapping[int, Partial]],
) -> Mapping[int, Partial]:
    """Combine the partials of a secondary question, tile by tile."""
    combiner = Combiner(
        worker_device.opened, accumulator, worker_device.tuning(accumulator, variant)
    )
    tiles = dict.fromkeys(itertools.chain.from_iterable(parts))
    return {
        tile: combiner.combine([part[tile] for part in parts if tile in part]) for tile in tiles
    }


def combined_groups(
    accumulator: Accumulator,
    groups: Sequence[np.ndarray],
    partials: Sequence[Partial],
    combine: Callable[[Sequence[Partial]], Partial],
) -> Partial:
    """Return a partial of every group that any partial has; groups of several are combined.

    `groups` are the numbers of each partial's groups, int64, ascending.
    """
    every, counts = np.unique(np.concatenate(groups), return_counts=True)
    several = np.flatnonzero(counts > 1)
    shared, pieces = list[Partial](), list[tuple[np.ndarray, Partial]]()
    for own, one in zip(groups, partials, strict=True):
        at = np.searchsorted(every, own)
        both = np.isin(at, several)
        if both.any():
            part = picked(one, len(own), np.flatnonzero(both))
            numbers = np.searchsorted(several, at[both])
            shared.append(placed(accumulator, len(several), [(numbers, part)]))
        if not both.all():
            pieces.append((at[~both], picked(one, len(own), np.flatnonzero(~both))))
    if shared:
        pieces.append((several, combine(shared)))
    return placed(accumulator, len(every), pieces)

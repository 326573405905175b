"""Keep all elements of a block's outputs on the device, and choose some of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyopencl as cl

from chunkfold.kernels import Partial
from chunkfold.kernels.fold.selection import RankSelection
from chunkfold.kernels.geometry import CHOOSE
from chunkfold.kernels.program.shared_layout import with_components
from chunkfold.planning.in_memory import depth_of
from chunkfold.planning.work import Work
from chunkfold.worker.worker_device import WorkerDevice


def keeping(
    owned: WorkerDevice, work: Work, outputs: int, queue: cl.CommandQueue
) -> dict[int, RankSelection]:
    """Return what keeps elements of so many outputs, by the component that folds their keys."""
    made: dict[int, RankSelection] = {}
    for number in {one.component for one in work.choosers}:
        keys = with_components(work.accumulator, (number,))
        made[number] = RankSelection(
            owned.opened,
            keys,
            owned.tuning(keys, work.variant, {"columns", CHOOSE}),
            outputs,
            depth_of(work.layout),
            queue,
            work.groups_of_rows,
            work.groups,
        )
    return made


def with_chosen(work: Work, partial: Partial, kept: Mapping[int, RankSelection]) -> Partial:
    """Choose elements of each output, where these were kept."""
    if not kept:
        return partial
    found = {one.name: kept[one.component].chosen(one.wanted(partial)) for one in work.choosers}
    return replace(partial, chosen=found)

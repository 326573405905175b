"""The tasks of graphs that Dask schedules by itself: blocks, combines, chunks of results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from dask.local import get_sync
from dask.typing import Key
from distributed import get_worker

from chunkfold.boxes import Slices
from chunkfold.errors import DeviceError, IncompleteError, MonoidError
from chunkfold.kernels import Partial
from chunkfold.kernels.binding.statistic import Statistic
from chunkfold.planning.block_data import BlockData, Constants
from chunkfold.planning.blocks import Block, TileRange
from chunkfold.planning.work import Work
from chunkfold.worker.computing import sources_in
from chunkfold.worker.finishing import Finishing
from chunkfold.worker.fold_block import Folded, combine, fold_block
from chunkfold.worker.tasks import is_unwanted
from chunkfold.worker.watch import Watch
from chunkfold.worker.worker_device import RESOURCE, WorkerDevice, device_of, process_device


def graph_block(
    work: Work,
    constants: Constants | None,
    block: Block,
    data: BlockData | None,
    keys: Sequence[Key],
    *chunks: Any,
) -> Folded:
    """Fold a block on the device of whoever runs this: a worker, or the process itself.

    `chunks` are of Dask's arrays, and `keys` are theirs. Otherwise as `block_task`, but that what
    it is doing is told to nobody.

    Raises
    ------
    ChunkfoldError
        Whatever ends it; also if a source has changed since it was planned.
    """
    owned, address, unwanted = _here()
    work = work if constants is None else work.with_constants(constants)
    results = dict(zip(keys, chunks, strict=True))
    bring = partial(sources_in, data, results, get_sync, _nobody)
    folded = fold_block(owned, address, work, block, Watch(_nobody, unwanted), bring)
    for source in work.sources if data is None else (*work.sources, *data.sources.values()):
        source.check_unchanged()
    return folded


def graph_combine(work: Work, *parts: Folded) -> Folded:
    """Combine partials on the device of whoever runs this."""
    owned, address, _ = _here()
    return combine(owned, address, work, parts)


def _nobody(*_: Any) -> None:
    """Hear what a block does."""


def _here() -> tuple[WorkerDevice, str, Callable[[], bool]]:
    """Return the device to use, the address of its worker, and what says that nobody waits.

    Raises
    ------
    DeviceError
        If there is none.
    """
    try:
        worker = get_worker()
    except ValueError:  # a scheduler of Dask's that has no workers
        return process_device(), "", lambda: False
    try:
        return device_of(worker), worker.address, is_unwanted(worker)
    except DeviceError as error:
        raise DeviceError(
            f"{error}; if others have one, name these, as "
            f"x.compute(resources={{{RESOURCE!r}: 1}}) does"
        ) from error


@dataclass(frozen=True)
class Root:
    """What the root of a run of tiles must be of."""

    tiles: TileRange
    elements: int
    """That were selected."""


@dataclass(frozen=True)
class Ending:
    """What the chunks of one reduction's results have in common."""

    finishing: Finishing
    statistic: Statistic
    like: np.ndarray
    """Has the dtype of results, and behind a first axis those that each has of its own."""


def graph_chunk(
    ending: Ending,
    box: Slices,
    tiles: Sequence[int],
    roots: Sequence[Root],
    *folded: Folded,
) -> np.ndarray:
    """Make a chunk of results of the roots that have its tiles.

    Raises
    ------
    ChunkfoldError
        If results do not fit their dtype, or are not what was expected.
    """
    finishing, statistic, like = ending.finishing, ending.statistic, ending.like
    found: dict[int, Partial] = {}
    for root, own in zip(roots, folded, strict=True):
        if own.report.elements != root.elements:
            raise IncompleteError(
                f"tiles {root.tiles} saw {own.report.elements:,} elements of {root.elements:,}; "
                "this is a fault of chunkfold's: please report it"
            )
        partials = own.partials_of_all(finishing.accumulator, math.prod(finishing.groups or ()))
        found |= dict(zip(range(*root.tiles), partials, strict=True))
    whole = finishing.whole(box, ((tile, found[tile]) for tile in tiles if tile in found))
    done = finishing.finished(statistic, whole)
    if (done.dtype, done.shape[1:]) != (like.dtype, like.shape[1:]):
        raise MonoidError(
            f"finish of {statistic.name!r} made {done.dtype} of shape {done.shape[1:]} for each "
            f"output, but {like.dtype} of {like.shape[1:]} where nothing was folded: such results "
            "cannot be planned, leave compute=False out"
        )
    return finishing.shaped(done, box)

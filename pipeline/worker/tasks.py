"""The functions that Dask's workers run: blocks, combines, chunks of results, and short questions.

A run's own block scheduler submits `block_task` and `combine_task`; in a graph that Dask schedules
by itself they are `graph_block`, `graph_combine` and `graph_chunk`.
"""

from __future__ import annotations

import math
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from dask.local import get_sync
from dask.typing import Key
from distributed import get_worker
from distributed.worker import thread_state  # type: ignore[attr-defined] # as get_worker does

from chunkfold.boxes import Slices
from chunkfold.errors import DeviceError, IncompleteError, MonoidError
from chunkfold.events import reporter, to_message
from chunkfold.kernels import Partial
from chunkfold.kernels.binding.statistic import Statistic
from chunkfold.planning.blocks import Block, Range
from chunkfold.planning.folding import Constants, PackedConstants
from chunkfold.planning.work import BlockData, Work
from chunkfold.worker.combine_blocks import combine
from chunkfold.worker.computing import TaskProgress, sources_in
from chunkfold.worker.finishing import Finishing
from chunkfold.worker.fold_block import Folded, fold_block
from chunkfold.worker.totals import Watch
from chunkfold.worker.worker_device import RESOURCE, WorkerDevice, device_of, process_device

_cancelled_runs: set[str] = set()
_SHOWN = 4
"""Calls that describe the place of a task, the innermost first."""


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

    `constants` are the work's, if they travel apart from it; `results` are of the Dask tasks that
    the block's data depend on.
    """
    work = work if constants is None else work.with_constants(constants)
    worker = get_worker()
    worker_device, address = device_of(worker), worker.address
    unwanted = is_unwanted(worker)
    report = reporter(
        work.scan.run,
        block.number,
        attempt,
        address,
        worker_device.device.identity,
        lambda event: worker.log_event(topic, to_message(event)),  # type: ignore[arg-type]
    )
    watch = Watch(report, lambda: is_cancelled(work.scan.run) or unwanted())
    progress = TaskProgress(work.scan.run, watch)
    bring = partial(sources_in, data, results or {}, get_sync, progress)
    with _failing(address):
        return fold_block(worker_device, address, work, block, watch, bring)


def combine_task(work: Work, *parts: Folded) -> Folded:
    """Combine partials on the worker's device. Runs on workers."""
    worker = get_worker()
    with _failing(worker.address):
        return combine(device_of(worker), worker.address, work, parts)


@contextmanager
def _failing(worker: str) -> Iterator[None]:
    """Note whose device failed: another one may do the task."""
    try:
        yield
    except DeviceError as error:
        error.worker = worker
        error.__cause__ = error.__context__ = None  # those of pyopencl cannot be pickled
        raise


def graph_block(
    work: Work,
    constants: Constants | None,
    block: Block,
    data: BlockData | None,
    keys: Sequence[Key],
    *chunks: Any,
) -> Folded:
    """Fold a block in a graph: on the device of the worker, or of the process, that runs this.

    `chunks` are of Dask's arrays, and `keys` are their keys. Otherwise as `block_task`, but nobody
    hears of its progress.

    Raises
    ------
    ChunkfoldError
        As `fold_block`; and if a source has changed since it was planned.
    """
    worker_device, address, unwanted = _here()
    work = work if constants is None else work.with_constants(constants)
    results = dict(zip(keys, chunks, strict=True))
    bring = partial(sources_in, data, results, get_sync, _nobody)
    folded = fold_block(worker_device, address, work, block, Watch(_nobody, unwanted), bring)
    brought = () if data is None else data.sources.values()
    for source in (*work.scan.sources, *brought):
        source.check_unchanged()
    return folded


def graph_combine(work: Work, *parts: Folded) -> Folded:
    """Combine partials in a graph: on the device of the worker, or the process, that runs this."""
    worker_device, address, _ = _here()
    return combine(worker_device, address, work, parts)


def _nobody(*_: Any) -> None:
    """Ignore the progress of a block."""


def _here() -> tuple[WorkerDevice, str, Callable[[], bool]]:
    """Return the device to use, the address of its worker, and the test for an unwanted task.

    Raises
    ------
    DeviceError
        If this worker has no device.
    """
    try:
        worker = get_worker()
    except ValueError:  # a scheduler of Dask's without workers
        return process_device(), "", lambda: False
    try:
        return device_of(worker), worker.address, is_unwanted(worker)
    except DeviceError as error:
        raise DeviceError(
            f"{error}; if other workers have one, name these, as "
            f"x.compute(resources={{{RESOURCE!r}: 1}}) does"
        ) from error


@dataclass(frozen=True)
class Root:
    """The tiles and the number of elements that a root must have."""

    tiles: Range
    elements: int
    """Number of selected elements."""


@dataclass(frozen=True)
class Ending:
    """Values that all chunks of one reduction's results share."""

    finishing: Finishing
    statistic: Statistic
    like: np.ndarray
    """Has the dtype of results, and, behind a first axis, the axes of one result."""


def graph_chunk(
    ending: Ending,
    box: Slices,
    tiles: Sequence[int],
    roots: Sequence[Root],
    *folded: Folded,
) -> np.ndarray:
    """Make a chunk of results from the roots that have its tiles.

    Raises
    ------
    ChunkfoldError
        If results do not fit their dtype, or have another dtype or shape than planned.
    """
    finishing, statistic, like = ending.finishing, ending.statistic, ending.like
    found: dict[int, Partial] = {}
    for root, own in zip(roots, folded, strict=True):
        if own.report.elements != root.elements:
            raise IncompleteError(
                f"tiles {root.tiles} saw {own.report.elements:,} elements of {root.elements:,}; "
                "this is a bug in chunkfold: please report it"
            )
        partials = own.partials_of_all(finishing.accumulator, math.prod(finishing.groups or ()))
        found |= dict(zip(range(*root.tiles), partials, strict=True))
    whole = finishing.whole(box, ((tile, found[tile]) for tile in tiles if tile in found))
    done = finishing.finished(statistic, whole)
    if (done.dtype, done.shape[1:]) != (like.dtype, like.shape[1:]):
        raise MonoidError(
            f"finish of {statistic.name!r} made {done.dtype} of shape {done.shape[1:]} for each "
            f"output, but {like.dtype} of {like.shape[1:]} where nothing was folded, so Dask "
            "cannot plan these results: omit compute=False"
        )
    return finishing.shaped(done, box)


def cancel_run(run: str) -> None:
    """End this process's blocks of a run at their next leaf. Runs on workers."""
    _cancelled_runs.add(run)


def is_cancelled(run: str) -> bool:
    """Return whether `cancel_run` was called here for a run."""
    return run in _cancelled_runs


def tasks_at(run: str, dask_worker: Any) -> list[str]:
    """Return the places in the code of this process's tasks of a run. Runs on workers."""
    with dask_worker.active_threads_lock:
        active = {thread: str(key) for thread, key in dask_worker.active_threads.items()}
    frames = sys._current_frames()
    return [
        f"{key} is at {_place(traceback.extract_stack(frames[thread]))}"
        for thread, key in active.items()
        if run in key and thread in frames
    ]


def _place(stack: traceback.StackSummary) -> str:
    calls = reversed(stack[-_SHOWN:])
    return ", in ".join(f"{Path(call.filename).name}:{call.lineno} {call.name}" for call in calls)


def constants_task(packed: PackedConstants) -> Constants:
    """Unpack the constants of all blocks of a run. Runs on workers."""
    return packed.unpacked()


def is_unwanted(worker: Any) -> Callable[[], bool]:
    """Return a function that tells whether this thread's task was cancelled or moved."""
    key = thread_state.key

    def unwanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state == "cancelled"

    return unwanted

"""What runs on Dask workers."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from dask.local import get_sync
from dask.typing import Key
from distributed import get_worker
from distributed.worker import thread_state  # type: ignore[attr-defined] # as get_worker does

from chunkfold.events import reporter, to_message
from chunkfold.planning.blocks import Block
from chunkfold.planning.group_keys import PackedKeys
from chunkfold.planning.held_inputs import HeldInput
from chunkfold.planning.own_keys import OwnKeys
from chunkfold.planning.work import BlockData, Constants, Work
from chunkfold.worker.computing import Told, sources_in
from chunkfold.worker.fold_block import Folded, combine, fold_block
from chunkfold.worker.watch import Watch
from chunkfold.worker.worker_device import device_of

_cancelled_runs: set[str] = set()
_SHOWN = 4
"""Calls that are told of a task, the innermost first."""


def cancel_run(run: str) -> None:
    """Make this process's blocks of a run end at their next leaf. Runs on workers."""
    _cancelled_runs.add(run)


def tasks_at(run: str, dask_worker: Any) -> list[str]:
    """Say where in the code this process's tasks of a run are. Runs on workers."""
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


def constants_task(keys: PackedKeys | OwnKeys | None, held: tuple[HeldInput, ...]) -> Constants:
    """Unpack what all blocks of a run read. Runs on workers."""
    return Constants(None if keys is None else keys.unpacked(), held)


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
    watch = Watch(report, lambda: work.run in _cancelled_runs or unwanted())
    told = Told(work.run, watch)
    bring = partial(sources_in, data, results or {}, get_sync, told)
    return fold_block(owned, address, work, block, watch, bring)


def is_unwanted(worker: Any) -> Callable[[], bool]:
    """Return what says whether nobody wants this thread's task any more: others do it anew."""
    key = thread_state.key

    def unwanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state == "cancelled"

    return unwanted


def combine_task(work: Work, *parts: Folded) -> Folded:
    """Combine partials on the worker's device. Runs on workers."""
    worker = get_worker()
    return combine(device_of(worker), worker.address, work, parts)

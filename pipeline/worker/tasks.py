"""What Dask workers are asked beside blocks and combines: by clients, and by these tasks."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from distributed.worker import thread_state  # type: ignore[attr-defined] # as get_worker does

from chunkfold.planning.block_data import Constants, PackedConstants

_cancelled_runs: set[str] = set()
_SHOWN = 4
"""Calls that are told of a task, the innermost first."""


def cancel_run(run: str) -> None:
    """Make this process's blocks of a run end at their next leaf. Runs on workers."""
    _cancelled_runs.add(run)


def is_cancelled(run: str) -> bool:
    """Whether this process was told so."""
    return run in _cancelled_runs


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


def constants_task(packed: PackedConstants) -> Constants:
    """Unpack what all blocks of a run read. Runs on workers."""
    return packed.unpacked()


def is_unwanted(worker: Any) -> Callable[[], bool]:
    """Return what says whether nobody wants this thread's task any more: others do it anew."""
    key = thread_state.key

    def unwanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state == "cancelled"

    return unwanted

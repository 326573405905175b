"""Translates the outcome of a task that was sent to a cluster."""

from __future__ import annotations

from typing import Any

from distributed import Client
from distributed.scheduler import KilledWorker

from chunkfold.errors import CancelledError, ClusterError, WorkerStoppedError
from chunkfold.settings import wait_seconds


def is_gone(future: Any) -> bool:
    """Return True if a result was lost and Dask cannot repeat it: its inputs were lost, too."""
    return bool(future.status == "cancelled")


def outcome_of(future: Any, client: Client) -> object:
    """Return a finished future, or why it has no result.

    It raises nothing: Dask only logs what a callback raises, and nobody would hear of the task any
    more.
    """
    if future.status == "finished":
        return future
    if client.status != "running":
        return ClusterError(f"the connection to the scheduler was lost: {client.status}")
    if future.status == "lost":
        return WorkerStoppedError("a worker was lost with what it had just made", "")
    if future.status == "cancelled":
        return CancelledError("a task was cancelled on the scheduler")
    try:
        return _failure(future)
    except Exception as error:  # noqa: BLE001 - the scheduler may have gone meanwhile
        return ClusterError(f"why a task failed is not known: {error!r}")


def _failure(future: Any) -> object:
    error = future.exception(timeout=wait_seconds("chunkfold.workers.answer"))
    if not isinstance(error, KilledWorker):
        return error
    worker = error.last_worker.address
    if error.task == future.key:  # where a scheduler allows fewer losses than the run does
        return WorkerStoppedError(f"worker {worker} died, or left", worker)
    return ClusterError(
        f"workers died {error.allowed_failures + 1} times while they ran task {error.task!r}; "
        f"the last was {worker}: look at its log for the reason"
    )

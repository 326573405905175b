"""Tasks that were submitted to a cluster, and their outcomes.

The tasks of a worker that is lost are given up: Dask would run such a task again, under the same
key, and end it after some losses of its own counting. Given up, it begins again as another attempt
of the run's, which counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from distributed import Client, Future
from distributed.scheduler import KilledWorker

from chunkfold.cluster.scheduler_calls import STOPPED
from chunkfold.errors import CancelledError, ClusterError, DeviceError, WorkerStoppedError
from chunkfold.running.backend import OnOutcome, PartialsLostError
from chunkfold.settings import wait_seconds


class SentTasks:
    """Callbacks for the outcomes of submitted tasks, by their keys."""

    def __init__(self) -> None:
        self._sent: dict[str, OnOutcome] = {}

    def add(self, key: str, on_outcome: OnOutcome) -> None:
        """Remember a task that was submitted."""
        self._sent[key] = on_outcome

    def drop(self, keys: Iterable[str]) -> None:
        """Forget tasks that nobody waits for any more."""
        for key in keys:
            self._sent.pop(key, None)

    def give_up(self, key: str, error: WorkerStoppedError) -> None:
        """End an attempt, if the task is one's."""
        if (on_outcome := self._sent.get(key)) is not None:
            on_outcome(error)

    def worker_removed(self, told: Mapping[str, Any]) -> None:
        """Give up the tasks of a worker that the scheduler has removed, by its event."""
        worker, stopped = told["worker"], str(told["stimulus_id"]).startswith(STOPPED)
        planned = bool(told.get("expected")) and not stopped
        how = "was retired" if planned else "was stopped" if stopped else "died, or left"
        for key in told["processing-tasks"]:
            self.give_up(key, WorkerStoppedError(f"worker {worker} {how}", worker, planned=planned))


def is_gone(future: Any) -> bool:
    """Return True if a result was lost and Dask could not repeat it.

    Its inputs were lost, too, or the device failed that it was made on anew.
    """
    return isinstance(future, Future) and future.status in ("cancelled", "error")


def of_combine(parts: Sequence[Any], outcome: object) -> object:
    """Return the outcome of a combine: which of its parts were lost, if that is why it has none."""
    ended = isinstance(outcome, (CancelledError, DeviceError))
    lost = [one for one in parts if ended and is_gone(one)]
    return PartialsLostError(lost) if lost else outcome


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

"""Tasks that attempts of a run wait for on a cluster: those of a worker that is lost are given up.

Dask would run such a task again, under the same key, and end it after some losses of its own
counting. Given up, it begins again as another attempt of the run's, which counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chunkfold.cluster.scheduler_calls import STOPPED
from chunkfold.errors import WorkerStoppedError
from chunkfold.running.backend import Done


class SentTasks:
    """Callbacks for the outcomes of submitted tasks, by their keys."""

    def __init__(self) -> None:
        self._sent: dict[str, Done] = {}

    def add(self, key: str, done: Done) -> None:
        """Remember a task that was submitted."""
        self._sent[key] = done

    def drop(self, keys: Iterable[str]) -> None:
        """Forget tasks that nobody waits for any more."""
        for key in keys:
            self._sent.pop(key, None)

    def give_up(self, key: str, error: WorkerStoppedError) -> None:
        """End an attempt, if the task is one's."""
        if (done := self._sent.get(key)) is not None:
            done(error)

    def worker_removed(self, told: Mapping[str, Any]) -> None:
        """Give up the tasks of a worker that the scheduler has removed, by its event."""
        worker, stopped = told["worker"], str(told["stimulus_id"]).startswith(STOPPED)
        planned = bool(told.get("expected")) and not stopped
        how = "was retired" if planned else "was stopped" if stopped else "died, or left"
        for key in told["processing-tasks"]:
            self.give_up(key, WorkerStoppedError(f"worker {worker} {how}", worker, planned=planned))

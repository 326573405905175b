"""Look after the workers of a read, and end it if nothing will come of it any more."""

from __future__ import annotations

from chunkfold.cluster.watching import Watched
from chunkfold.errors import ClusterError
from chunkfold.events import OnEvent, Waiting
from chunkfold.plural import counted
from chunkfold.running.backend import Backend
from chunkfold.settings import wait_seconds
from chunkfold.suspend_clock import SuspendClock

POLL_S = 0.2
"""Seconds between two looks, at most."""


class ProgressWatch:
    """Knows when a read was last heard of, in seconds that its host was awake."""

    def __init__(self, run: str, backend: Backend, emit: OnEvent) -> None:
        self._run, self._backend, self._emit = run, backend, emit
        self._clock, self._news = SuspendClock(), False
        self._heard = self._told = self._looked = 0.0

    def now(self) -> float:
        """Return the time since it began, in seconds."""
        return self._clock.seconds()

    def hear(self) -> None:
        """Note that a task has ended, or a worker has reported."""
        self._news = True

    def look(self, tasks: int) -> Watched | None:
        """Look after the workers, if that is due; `tasks` are under way.

        Raises
        ------
        ClusterError
            If no task will end any more.
        """
        now = self.now()
        if now - self._looked < POLL_S / 2:
            return None
        self._looked = now
        if self._news:
            self._news, self._heard = False, now
        quiet = now - self._heard
        watched = self._backend.watch(quiet)
        self._news |= watched.went_on
        self._tell(now, quiet, watched.late, tasks)
        stall = wait_seconds("chunkfold.run.stall")
        timeout = wait_seconds("chunkfold.no-workers-timeout")
        if quiet > stall:
            raise ClusterError(
                f"run {self._run} made no progress for {stall:.0f} s: "
                "no task ended and no worker reported progress; "
                + ("; ".join(self._backend.doing()) or "no worker runs a task of it")
            )
        if min(quiet, watched.nobody) > timeout:
            raise ClusterError(
                f"run {self._run} lost all its workers, and none came within {timeout:.0f} s: "
                "start workers, and run it again"
            )
        return watched

    def _tell(self, now: float, quiet: float, late: str, tasks: int) -> None:
        """Say now and then what is waited for."""
        every = wait_seconds("chunkfold.run.tell")
        if now - self._told < every or not (late or quiet >= every):
            return
        self._told = now
        under_way = f"{counted(tasks, 'task')} without progress for {quiet:.0f} s"
        self._emit(Waiting(self._run, quiet, late or under_way))

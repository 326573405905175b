"""Looks after a cluster's workers: who is stopped is removed, so that others do its work."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from distributed import Client

from chunkfold.cluster.heartbeats import Watchman
from chunkfold.cluster.scheduler_calls import on_loop, removed
from chunkfold.deadline import awaited
from chunkfold.errors import ClusterError, WorkerStoppedError
from chunkfold.settings import wait_seconds


@dataclass(frozen=True)
class Watched:
    """The result of one check of the workers."""

    workers: int = 0
    """The number of workers, a few seconds ago."""
    nobody: float = 0.0
    """Seconds without a heartbeat of any worker."""
    late: str = ""
    """A sentence on workers that are late; empty if none is."""
    removed: Mapping[str, str] = field(default_factory=dict)
    """Reasons for the workers that this check removed, by their addresses."""
    went_on: bool = False
    """True if tasks began or ended that report no progress themselves."""


class WorkersWatch:
    """Knows who is heard, and removes who is not."""

    def __init__(
        self,
        client: Client,
        useful: Callable[[Mapping[str, Any]], bool],
        give_up: Callable[[str, WorkerStoppedError], None],
    ) -> None:
        """Watch those that are `useful`; `give_up` is told the tasks of one that is removed."""
        self._client, self._give_up = client, give_up
        self._watchman = Watchman(client, useful)

    def look(self, quiet: float = math.inf) -> Watched:
        """Ask the scheduler for heartbeats now and then, and remove who is stopped.

        `quiet` is for how long nothing was heard of tasks, in seconds.

        Raises
        ------
        ClusterError
            If for `chunkfold.workers.answer` the scheduler has not answered, nor anything was
            heard of the tasks: what workers tell comes by it, too.
        """
        fresh, silent = self._watchman.look(), wait_seconds("chunkfold.workers.silent")
        beats = self._watchman.beats
        gone = {
            worker: reason
            for worker in (beats.stopped(silent) if fresh else ())
            if self._removed(worker, reason := _stopped(worker, beats.silent[worker]))
        }
        for worker in gone:
            self._watchman.beats = self._watchman.beats.without(worker)
        least, most = wait_seconds("chunkfold.run.tell"), wait_seconds("chunkfold.workers.answer")
        late = beats.silence_text(least, silent, wait_seconds("chunkfold.no-workers-timeout"))
        if (unanswered := self.unanswered()) >= least:
            late = f"the scheduler has not answered for {unanswered:.0f} s"
            late += f"; after {most:.0f} s the run ends"
        if min(quiet, unanswered) > most:
            raise ClusterError(self._silence(most))
        return Watched(len(beats.seen), beats.nobody, late, gone)

    def unanswered(self) -> float:
        """Return for how long the scheduler has not answered, in seconds."""
        return self._watchman.unanswered()

    def stop(self) -> None:
        """Ask no more."""
        self._watchman.stop()

    def _silence(self, seconds: float) -> str:
        reached: Any = self._client.scheduler
        return (
            f"the scheduler at {reached.address} has not answered for {seconds:.0f} s: it "
            "stopped, or its host is down; check that it runs, and start this again"
        )

    def _removed(self, worker: str, reason: str) -> bool:
        """Remove a worker, and give its tasks up; say whether that was done."""
        removing = on_loop(self._client, partial(removed, worker))
        try:
            keys = awaited(
                removing, wait_seconds("chunkfold.workers.answer"), f"{worker}'s removal"
            )
        except Exception:  # noqa: BLE001 # it is tried again, or the scheduler's loss is found out
            return False
        for key in keys:
            self._give_up(key, WorkerStoppedError(reason, worker))
        return True


def _stopped(worker: str, seconds: float) -> str:
    return (
        f"worker {worker} stopped, or its host is down: it was not heard for {seconds:.0f} s, "
        "while others were; they do its work"
    )

"""Asks a scheduler for heartbeats every few seconds, without ever waiting for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from distributed import Client

from chunkfold.cluster.heartbeats import Heartbeats
from chunkfold.cluster.scheduler_calls import on_loop
from chunkfold.settings import wait_seconds
from chunkfold.suspend_clock import SuspendClock


class Watchman:
    """Knows the heartbeats of a cluster's workers, as of a few seconds ago."""

    def __init__(self, client: Client, useful: Callable[[Mapping[str, Any]], bool]) -> None:
        self._client, self._useful = client, useful
        self._clock = SuspendClock()
        self._asking: Future[Any] | None = None
        self._asked = self._answered = 0.0
        self.beats = Heartbeats()

    def look(self) -> bool:
        """Take the answer if it is there, and say so; ask again if it is time.

        To be called often.
        """
        now, every = self._clock.seconds(), wait_seconds("chunkfold.workers.ask")
        fresh = self._asking is not None and self._asking.done() and self._take(now, every)
        if self._asking is not None and now - self._asked > wait_seconds(
            "chunkfold.workers.answer"
        ):
            self._asking.cancel()
            self._asking = None
        if self._asking is None and (now - self._asked >= every or not self._asked):
            self._asked = now or 1e-9
            self._asking = on_loop(self._client, lambda made: made.identity(n_workers=-1))
        return fresh

    def stop(self) -> None:
        """Ask no more: the client may be closed."""
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    def unanswered(self) -> float:
        """Return for how long the scheduler has not answered, in seconds."""
        return self._clock.seconds() - self._answered

    def _take(self, now: float, every: float) -> bool:
        answer, self._asking = self._asking, None
        if answer is None or answer.cancelled() or answer.exception() is not None:
            return False  # a scheduler's loss is found out by what is waited for
        there: Mapping[str, Mapping[str, Any]] = answer.result()["workers"]
        seen = {a: float(w["last_seen"]) for a, w in there.items() if self._useful(w)}
        self.beats = self.beats.then(seen, now - self._answered, 2 * every)
        self._answered = now
        return True

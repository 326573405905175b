"""Finds the stopped workers of a cluster by their heartbeats.

A process that SIGSTOP has stopped, or whose host has gone, keeps its connections and its tasks, and
sends no heartbeats. The scheduler notes the time of each worker's last heartbeat by its own clock,
and any client can ask for it, so the scheduler needs none of this package's code. From these times,
requested every few seconds, it follows:

- a worker that sent none for `silent` seconds of the scheduler's clock, while others did, is
  stopped: it is removed, and its tasks begin again elsewhere;
- if no worker sent any, none counts as stopped: a laptop slept, or the scheduler itself was
  stopped. If none sends any again, the run ends after `timeout` seconds.

Time between two answers counts for a few seconds at most. So after a sleep the workers that wake
first do not make the others look late.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from distributed import Client

from chunkfold.cluster.scheduler_calls import on_loop
from chunkfold.settings import wait_seconds
from chunkfold.suspend_clock import SuspendClock


@dataclass(frozen=True)
class Heartbeats:
    """The heartbeats in the scheduler's answers so far."""

    seen: Mapping[str, float] = field(default_factory=dict)
    """The time of each worker's last heartbeat, by the scheduler's clock, in seconds."""
    silent: Mapping[str, float] = field(default_factory=dict)
    """Seconds without a heartbeat of a worker while others sent some."""
    nobody: float = 0.0
    """Seconds without a heartbeat of any worker while the scheduler answered."""

    def then(self, seen: Mapping[str, float], waited: float, most: float) -> Heartbeats:
        """Add an answer, which came `waited` seconds after the last one; `most` of them count.

        >>> beats = Heartbeats().then({"a": 10.0, "b": 10.0}, 0, 9)
        >>> beats.then({"a": 15.0, "b": 10.0}, 5, 9)
        Heartbeats(seen={'a': 15.0, 'b': 10.0}, silent={'a': 0.0, 'b': 5.0}, nobody=0.0)
        """
        heard = {worker for worker, when in seen.items() if when > self.seen.get(worker, 0.0)}
        if not heard:
            kept = {worker: self.silent.get(worker, 0.0) for worker in seen}
            return Heartbeats(dict(seen), kept, self.nobody + min(waited, most))
        before = max(self.seen.values(), default=max(seen.values()))
        passed = min(max(0.0, max(seen.values()) - before), most)
        silent = {
            worker: 0.0 if worker in heard else self.silent.get(worker, 0.0) + passed
            for worker in seen
        }
        return Heartbeats(dict(seen), silent, 0.0)

    def without(self, worker: str) -> Heartbeats:
        """Forget a worker that was removed."""
        return Heartbeats(
            {other: when for other, when in self.seen.items() if other != worker},
            {other: seconds for other, seconds in self.silent.items() if other != worker},
            self.nobody,
        )

    def age(self, worker: str) -> float:
        """Return by how much a worker's last heartbeat is older than the newest, in seconds."""
        return max(self.seen.values()) - self.seen[worker]

    def stopped(self, limit: float) -> Collection[str]:
        """Return workers that were silent for longer than `limit` seconds while others were not."""
        return [
            worker
            for worker, seconds in self.silent.items()
            if seconds > limit and self.age(worker) > limit
        ]

    def silence_text(self, least: float, limit: float, timeout: float) -> str:
        """Say who has been silent for so long at least; nothing if nobody was."""
        if self.nobody >= least:
            who = ", ".join(sorted(self.seen)) or "no workers"
            return (
                f"no worker was heard for {self.nobody:.0f} s ({who}); "
                f"after {timeout:.0f} s the run ends"
            )
        late = {w: seconds for w, seconds in self.silent.items() if seconds >= least}
        return "; ".join(
            f"worker {w} was not heard for {seconds:.0f} s; after {limit:.0f} s others do its work"
            for w, seconds in sorted(late.items())
        )


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

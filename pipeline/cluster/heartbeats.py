"""Which workers of a cluster are stopped, as far as heartbeats tell.

A process that SIGSTOP has stopped, or whose host has gone without a word, keeps its connections and
its tasks; all it lacks are heartbeats. The scheduler notes by its own clock when it heard each
worker last, and tells any client, so that none of our code need be there. Of that alone, asked for
every few seconds, is decided here:

- a worker that was not heard for `silent` seconds of the scheduler's clock, while others were, is
  stopped: it is removed, and its tasks begin again elsewhere;
- where nobody is heard, nobody is stopped: a laptop slept, or the scheduler itself was away. Should
  no worker be heard again, the run ends after `absent` seconds.

What passes between two answers counts for a few seconds at most. So after a sleep those who wake
first do not make the others look late.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Heartbeats:
    """What the scheduler's answers so far add up to."""

    seen: Mapping[str, float] = field(default_factory=dict)
    """When each worker was heard last, by the scheduler's clock, in seconds."""
    silent: Mapping[str, float] = field(default_factory=dict)
    """For how long each was not heard while others were, in seconds."""
    nobody: float = 0.0
    """For how long no worker was heard though the scheduler was, in seconds."""

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

    def told(self, least: float, limit: float, absent: float) -> str:
        """Say who has been silent for so long at least; nothing if nobody was."""
        if self.nobody >= least:
            who = ", ".join(sorted(self.seen)) or "none is there"
            return (
                f"no worker was heard for {self.nobody:.0f} s ({who}); "
                f"after {absent:.0f} s the run ends"
            )
        late = {w: seconds for w, seconds in self.silent.items() if seconds >= least}
        return "; ".join(
            f"worker {w} was not heard for {seconds:.0f} s; after {limit:.0f} s others do its work"
            for w, seconds in sorted(late.items())
        )

"""Event times of launches, summed per kernel and pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class LaunchTimes:
    """The four times of one launch's event, in nanoseconds of the device's clock."""

    queued: int
    submitted: int
    start: int
    end: int


@dataclass(frozen=True)
class PassTimes:
    """Sums over the launches of one kernel in one pass; nanoseconds."""

    launches: int
    wait_ns: int
    """From queued to start: what the launches waited for the host, the queue and each other."""
    run_ns: int
    """From start to end."""
    first_wait_ns: int
    """Of the first launch after the kernel was built, which is often unlike the others."""
    first_run_ns: int

    def __add__(self, other: PassTimes) -> PassTimes:
        return PassTimes(
            self.launches + other.launches,
            self.wait_ns + other.wait_ns,
            self.run_ns + other.run_ns,
            max(self.first_wait_ns, other.first_wait_ns),
            max(self.first_run_ns, other.first_run_ns),
        )


PassName = tuple[str, int]
"""Kernel and pass; pass 0 reads elements, later ones read accumulators."""
Profile = Mapping[PassName, PassTimes]


def pass_times(times: LaunchTimes, first: bool) -> PassTimes:
    """Return the times of a single launch."""
    wait, run = times.start - times.queued, times.end - times.start
    return PassTimes(1, wait, run, wait if first else 0, run if first else 0)


def merged(profiles: Iterable[Profile]) -> dict[PassName, PassTimes]:
    """Add profiles up, pass by pass."""
    total: dict[PassName, PassTimes] = {}
    for profile in profiles:
        for name, times in profile.items():
            total[name] = total[name] + times if name in total else times
    return total

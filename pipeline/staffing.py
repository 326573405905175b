"""How a host's devices, cores and memory are shared out to workers: pure functions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from distributed.system import MEMORY_LIMIT

from chunkfold.errors import DeviceError
from chunkfold.kernels import Device
from chunkfold.planning import READERS

_CORES = 8
"""Of a worker that has a device's chunks decoded: its readers share Python's lock. On 16 cores with
one H200, one worker had 0.52 to 0.73 of what threads had that only read and decode chunks of 1 MB,
two had 0.76 to 0.90, four had 0.78 to 0.84; of 33 MB, two had as much as one and four had 0.9."""
_MOST = 4
"""Workers of a device: each takes some of its memory for itself."""


class Post(NamedTuple):
    """What a worker has of its host."""

    name: str
    device: Device
    """Its own, or one that it shares with other workers."""
    readers: int
    """Threads that read and decode for it."""
    memory: int
    """Bytes."""


def posts(
    devices: Sequence[Device], per_device: int | None = None, memory: int | None = None
) -> list[Post]:
    """Share a host out to the workers of its devices, so many each, with so many bytes.

    Unless it is given how many: one for a device that shares the host's memory, whose own threads
    keep all cores busy, and for another one for every 8 of the cores that decode for it.

    Raises
    ------
    DeviceError
        If there are to be none.
    """
    if per_device is not None and not (isinstance(per_device, int) and per_device >= 1):
        raise DeviceError(
            f"workers_per_device is {per_device!r}; give a whole number of at least 1"
        )
    cores = _cores() // max(1, len(devices))
    several = per_device or max(1, min(_MOST, -(-cores // _CORES)))
    counts = [several if per_device or not device.unified_memory else 1 for device in devices]
    workers = sum(counts)
    return [
        Post(
            f"{device.kind}-{device.uuid}" + (f"-{number}" if number else ""),
            device,
            readers_each(workers),
            memory or memory_each(workers),
        )
        for device, count in zip(devices, counts, strict=True)
        for number in range(count)
    ]


def readers_each(workers: int) -> int:
    """Return the reading threads of each of so many workers of this host."""
    least, most = READERS
    return max(least, min(most, _cores() // max(1, workers)))


def memory_each(workers: int) -> int:
    """Return the bytes of each of so many workers of this host."""
    return MEMORY_LIMIT // max(1, workers)


def _cores() -> int:
    return len(os.sched_getaffinity(0))

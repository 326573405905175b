"""How a host's devices, cores and memory are shared out to workers: pure functions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from distributed.system import MEMORY_LIMIT

from chunkfold.errors import DeviceError
from chunkfold.kernels import Device, split

THREADS = 2
"""Blocks that a worker runs at once: one reads on while another ends."""
READERS = (2, 16)
"""Least and most threads that read and decode for a worker: 16 keep a GPU's link busy.

Where they wait for a network, there are always as many as may be."""

_CORES = 8
"""Of a worker that shares a GPU, or has a part of a CPU: its readers share Python's lock. Figures:
`benchmarks/results/feeding.md`, `docs/measuring.md`."""
_MOST = 4
"""Workers of a GPU: each takes some of its memory for itself."""


class Post(NamedTuple):
    """What a worker has of its host."""

    name: str
    """Which no other worker of a scheduler has."""
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

    A GPU's workers share it: unless it is given how many, they are one for every 8 of the cores
    that decode for it. A CPU is split, a part for each: one for every 8 of its cores.

    Raises
    ------
    DeviceError
        If there are to be none.
    """
    if per_device is not None and not (isinstance(per_device, int) and per_device >= 1):
        raise DeviceError(
            f"workers_per_device is {per_device!r}; give a whole number of at least 1"
        )
    shares = [_shares(device, host_cores() // len(devices), per_device) for device in devices]
    workers = sum(map(len, shares))
    return [
        Post(
            f"{own.kind}-{own.identity}" + (f"-{number}" if number and own is device else ""),
            own,
            readers_each(workers),
            memory or memory_each(workers),
        )
        for device, each in zip(devices, shares, strict=True)
        for number, own in enumerate(each)
    ]


def _shares(device: Device, cores: int, count: int | None) -> list[Device]:
    """Return what each of a device's workers has of it."""
    if not device.unified_memory:
        return [device] * (count or max(1, min(_MOST, -(-cores // _CORES))))
    # Such a device's threads and theirs want the same cores.
    parts = device.most_parts if device.kind == "cpu" and device.part is None else 1
    count = count or max(1, min(parts, cores // _CORES))
    return list(split(device, count)) if 1 < count <= parts else [device] * count


def readers_each(workers: int) -> int:
    """Return the reading threads of each of so many workers of this host."""
    least, most = READERS
    return max(least, min(most, host_cores() // max(1, workers)))


def memory_each(workers: int) -> int:
    """Return the bytes of each of so many workers of this host."""
    return MEMORY_LIMIT // max(1, workers)


def host_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))

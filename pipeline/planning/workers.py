"""Who will do the work of a run, and how a host is shared out to workers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from distributed.system import MEMORY_LIMIT

from chunkfold.errors import DeviceError
from chunkfold.kernels import Device, split
from chunkfold.kernels.decode.decode_rates import DecodeRates
from chunkfold.near_cores import node_of, numa_nodes, share_cores
from chunkfold.settings import most_requests, uses_near_cores

THREADS = 2
"""Blocks that a worker runs at once: one reads on while another ends."""
READERS = (2, 16)
"""Least and most threads that read and decode for a worker: 16 keep a GPU's link busy.

If they wait for a network, there are always as many as may be."""

SLOW_BY_KEY = frozenset({"cpu"})
"""Kinds of devices that fold by key slower than they are given elements: a GPU's memory is
faster."""
_CORES = 8
"""Cores of a worker that shares a GPU, or has a part of a CPU: its readers share Python's lock. See
`benchmarks/results/feeding.md`, `docs/measuring.md`."""
_MOST = 4
"""Workers of a GPU: each takes some of its memory for itself."""


@dataclass(frozen=True)
class Terms:
    """All that a plan depends on of its workers: for others with the same it is the same plan."""

    workers: int = 1
    threads: int = 1
    """Blocks that each runs at once, at most."""
    readers: int = READERS[0]
    """Threads of each that read for them, at most."""
    requests: int = 1
    """Requests that each may have in flight for one host, at most."""
    memory_limit: int | None = None
    """Bytes that distributed allows each, if it has a limit."""
    fp64: bool = True
    """True if every device has float64."""
    buffer_bytes: int | None = None
    """Most of one buffer that every device has room for, if it is known."""
    kinds: frozenset[str] = frozenset()
    """Kinds of devices, as far as they are known: "cpu", "gpu"."""
    own_memory: bool = False
    """True if every device has memory of its own, which is fed over a link."""
    not_decoding: str = ""
    """Why a device cannot decode; empty if all can."""
    decode_rates: tuple[DecodeRates, ...] = ()
    """Rates of codecs that were measured, one each: see `slowest`."""

    @classmethod
    def of_this_host(
        cls,
        devices: Sequence[Device],
        workers: int,
        threads: int,
        memory_limit: int | None,
        rates: Iterable[DecodeRates] = (),
    ) -> Terms:
        """Return those of so many workers that share this host, on the first of its devices.

        `rates` are those of that device.
        """
        return cls(
            workers=workers,
            threads=threads,
            readers=readers_each(workers),
            requests=max(1, most_requests() // workers),
            memory_limit=memory_limit or memory_each(workers),
            fp64=all(one.fp64 for one in devices),
            buffer_bytes=min((one.max_alloc_bytes for one in devices), default=None),
            kinds=frozenset(one.kind for one in devices),
            own_memory=not any(one.unified_memory for one in devices),
            not_decoding=_not_decoding(devices),
            decode_rates=slowest(by_cores(rates, workers * readers_each(workers))),
        )


@dataclass(frozen=True)
class Workers:
    """Who will do the work."""

    devices: tuple[Device, ...]
    """Device of each worker."""
    threads: int
    """Blocks that one worker runs at once."""
    readers: int
    """Threads that read for them, of the worker that has most."""
    memory_limit: int | None
    """Bytes that the smallest worker may use."""
    neighbours: int = 1
    """Workers of the machine that has most: they share the requests that one may make."""
    decode_rates: tuple[DecodeRates, ...] = ()
    """Rates of each of their devices, and each codec, as far as they were measured."""

    @property
    def terms(self) -> Terms:
        """The terms that plans depend on."""
        return Terms(
            workers=len(self.devices),
            threads=self.threads,
            readers=self.readers,
            requests=max(1, most_requests() // self.neighbours),
            memory_limit=self.memory_limit,
            fp64=all(device.fp64 for device in self.devices),
            buffer_bytes=min((one.max_alloc_bytes for one in self.devices), default=None),
            kinds=frozenset(one.kind for one in self.devices),
            own_memory=not any(one.unified_memory for one in self.devices),
            not_decoding=_not_decoding(self.devices),
            decode_rates=slowest(self.decode_rates),
        )


def _not_decoding(devices: Sequence[Device]) -> str:
    """Say why a device cannot decode; empty if all can."""
    return next((why for one in devices if (why := one.lacks("device_decode"))), "")


def by_cores(rates: Iterable[DecodeRates], readers: int) -> tuple[DecodeRates, ...]:
    """Return rates where so many readers would decode, on as many of this host's cores."""
    return tuple(replace(one, cores=min(readers, host_cores())) for one in rates)


def slowest(rates: Iterable[DecodeRates]) -> tuple[DecodeRates, ...]:
    """Return for each codec the rates of the device that is slowest, measured by its host's cores.

    >>> rates = [DecodeRates("zstd", device, 1e9, cores=4) for device in (8e9, 2e9, 6e9)]
    >>> [one.device for one in slowest(rates)]
    [2000000000.0]
    """
    found = dict[str, DecodeRates]()
    for one in sorted(rates, key=lambda one: (one.codec, one.gain)):
        found.setdefault(one.codec, one)
    return tuple(found.values())


class Post(NamedTuple):
    """The share of its host that a worker has."""

    name: str
    """Name that no other worker of a scheduler has."""
    device: Device
    """Its own, or one that it shares with other workers."""
    readers: int
    """Threads that read and decode for it."""
    memory: int
    """Bytes."""
    cores: frozenset[int]
    """The cores near its device, to which its threads keep; empty: they keep to none."""


def posts(
    devices: Sequence[Device], per_device: int | None = None, memory: int | None = None
) -> list[Post]:
    """Share a host out to the workers of its devices, so many each, with so many bytes.

    A GPU's workers share it: unless it is given how many, they are one for every 8 of the cores
    that decode for it. A CPU is split, a part for each: one for every 8 of its cores. Cores are
    those near a device, where this host tells which they are.

    Raises
    ------
    DeviceError
        If there are to be none.
    PlanError
        If the setting `chunkfold.workers.near-cores` is neither true nor false.
    """
    if per_device is not None and not (isinstance(per_device, int) and per_device >= 1):
        raise DeviceError(
            f"workers_per_device is {per_device!r}; give a whole number of at least 1"
        )
    nodes, allowed = numa_nodes() if uses_near_cores() else {}, allowed_cores()
    places = [node_of(device.pci) for device in devices]
    near = share_cores(places, nodes, allowed)
    shares = [
        _shares(device, part.own, per_device) for device, part in zip(devices, near, strict=True)
    ]
    manned = [
        (f"{own.kind}-{own.identity}" + (f"-{number}" if number and own is device else ""), own)
        for device, each in zip(devices, shares, strict=True)
        for number, own in enumerate(each)
    ]
    near = share_cores(
        [place for place, each in zip(places, shares, strict=True) for _ in each], nodes, allowed
    )
    return [
        Post(
            name,
            own,
            _readers(part.own),
            memory or memory_each(len(manned)),
            frozenset() if part.cores == allowed else part.cores,
        )
        for (name, own), part in zip(manned, near, strict=True)
    ]


def _shares(device: Device, cores: int, count: int | None) -> list[Device]:
    """Return the share of a device that each of its workers has."""
    if not device.unified_memory:
        return [device] * (count or max(1, min(_MOST, -(-cores // _CORES))))
    # Such a device's threads and theirs want the same cores.
    parts = device.most_parts if device.kind == "cpu" and device.part is None else 1
    count = count or max(1, min(parts, cores // _CORES))
    return list(split(device, count)) if 1 < count <= parts else [device] * count


def slow_by_key(kinds: frozenset[str]) -> bool:
    """Tell if devices, whose kinds are known, all fold by key slower than elements come."""
    return bool(kinds) and kinds <= SLOW_BY_KEY


def readers_each(workers: int) -> int:
    """Return the reading threads of each of so many workers of this host."""
    return _readers(host_cores() // max(1, workers))


def _readers(cores: int) -> int:
    """Return the reading threads of a worker that has so many cores."""
    least, most = READERS
    return max(least, min(most, cores))


def memory_each(workers: int) -> int:
    """Return the bytes of each of so many workers of this host."""
    return MEMORY_LIMIT // max(1, workers)


def host_cores() -> int:
    """Return how many cores this process may use."""
    return len(allowed_cores())


def allowed_cores() -> frozenset[int]:
    """Return the cores that this process may use."""
    return frozenset(os.sched_getaffinity(0))

"""Who will do the work of a run, as far as planning needs to know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from chunkfold.kernels import Device
from chunkfold.kernels.decode.decode_rates import DecodeRates
from chunkfold.planning.staffing import READERS, host_cores, memory_each, readers_each
from chunkfold.settings import most_requests


@dataclass(frozen=True)
class Terms:
    """All that a plan depends on of its workers: for others with the same it is the same plan."""

    workers: int = 1
    threads: int = 1
    """Blocks that each runs at once, at most."""
    readers: int = READERS[0]
    """Threads of each that read for them, at most."""
    requests: int = 1
    """That each may have in flight for one host, at most."""
    memory_limit: int | None = None
    """Bytes that distributed allows each, if it has a limit."""
    fp64: bool = True
    """Whether every device has float64."""
    buffer_bytes: int | None = None
    """Most of one buffer that every device has room for, if it is known."""
    kinds: frozenset[str] = frozenset()
    """Of devices, as far as they are known: "cpu", "gpu"."""
    own_memory: bool = False
    """Whether every device has memory of its own, which is fed over a link."""
    not_decoding: str = ""
    """Why a device cannot decode; empty if all can."""
    decode_rates: tuple[DecodeRates, ...] = ()
    """Of codecs that were measured, one each: see `slowest`."""

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
    """Of each device of theirs, and each codec, as far as they were measured."""

    @property
    def terms(self) -> Terms:
        """What plans depend on."""
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

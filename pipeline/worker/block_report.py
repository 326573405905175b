"""What a partial's making took: counted along, merged up the tree, bounded by the devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from chunkfold.bad_chunks import Skipped, total_skipped
from chunkfold.kernels import Device
from chunkfold.kernels.fold.profile import Profile, merged
from chunkfold.sources.absent_objects import AbsentRuns
from chunkfold.sources.absent_objects import together as missed_together
from chunkfold.stores.requests import Requests
from chunkfold.units import size_text

MOST_BLOCKS = 1000
"""Blocks of a device whose times are kept one by one."""


@dataclass(frozen=True)
class BlockTimes:
    """When a block ran on a device, and what it took; seconds."""

    began: float
    """Since 1970, by the worker's clock."""
    seconds: float
    """From its beginning to its partials."""
    prepare_s: float
    """Of these, choosing kernels: the first blocks on a device wait until they were tried."""
    read_s: float
    """Reading, over all threads."""
    decode_s: float
    """Decoding, over all threads; with `read_s` where zarr does both."""
    upload_s: float
    """Copying to the device, by its clock; 0 where it reads the host's memory."""
    fold_s: float
    """Kernels, by the device's clock."""
    nbytes: int
    """Decoded bytes folded, of chunks that are stored."""

    def __add__(self, later: BlockTimes) -> BlockTimes:
        """Take two for one that ran from the first's beginning to the last's end."""
        end = max(self.began + self.seconds, later.began + later.seconds)
        began = min(self.began, later.began)
        return BlockTimes(
            began,
            end - began,
            self.prepare_s + later.prepare_s,
            self.read_s + later.read_s,
            self.decode_s + later.decode_s,
            self.upload_s + later.upload_s,
            self.fold_s + later.fold_s,
            self.nbytes + later.nbytes,
        )


@dataclass(frozen=True, repr=False)
class DeviceReport:
    """What one device did in a run."""

    device: Device
    variant: str
    """Variant of the kernels that folded elements."""
    tuning: str
    workers: tuple[str, ...]
    """Addresses of the workers that folded on it; empty in the calling process."""
    blocks: int = 0
    nbytes: int = 0
    """Decoded bytes folded, of chunks that are stored."""
    read_s: float = 0.0
    """Seconds that its readers spent reading and decoding, over all threads."""
    timeline: tuple[BlockTimes, ...] = ()
    """Its blocks, or neighbours together where there are more than `MOST_BLOCKS`."""
    profile: Profile = field(default_factory=dict)

    def __repr__(self) -> str:
        where = f" on {', '.join(self.workers)}" if self.workers else ""
        return (
            f"<DeviceReport {self.device.spec}{where}: {self.blocks} block(s), "
            f"{size_text(self.nbytes)}, {self.variant}>"
        )

    def __add__(self, other: DeviceReport) -> DeviceReport:
        return DeviceReport(
            self.device,
            self.variant,
            self.tuning,
            tuple(dict.fromkeys(self.workers + other.workers)),
            self.blocks + other.blocks,
            self.nbytes + other.nbytes,
            self.read_s + other.read_s,
            bounded(self.timeline + other.timeline),
            merged([self.profile, other.profile]),
        )


@dataclass(frozen=True)
class Report:
    """What is behind a partial."""

    elements: int
    """Elements folded into it."""
    devices: Mapping[str, DeviceReport]
    """By identity."""
    skipped: Skipped = field(default_factory=dict)
    laws: Mapping[str, bool] = field(default_factory=dict)
    """Of monoids whose laws were tried on data: whether any element changed an accumulator."""
    requests: Requests = field(default_factory=Requests)
    """What its workers asked servers for."""
    missed: Mapping[str, AbsentRuns] = field(default_factory=dict)
    """By input: its objects that are not stored, where only asking for them could tell."""


def told_apart(devices: Iterable[Device]) -> dict[str, str]:
    """Return devices' specs by their identities; with their hosts where there are several."""
    found = {device.identity: device for device in devices}
    several = len({(device.boot, device.host) for device in found.values()}) > 1
    return {
        identity: f"{device.spec} on {device.host}" if several else device.spec
        for identity, device in found.items()
    }


@dataclass(frozen=True)
class Attempts:
    """What a run began more than once."""

    stopped: tuple[str, ...] = ()
    """Addresses of workers that were removed, since they were not heard any more."""
    again: int = 0
    """Tasks that were begun anew, by the run or by Dask."""
    dropped: int = 0
    """Results of earlier attempts that came all the same, and were dropped."""

    def __add__(self, other: Attempts) -> Attempts:
        return Attempts(
            self.stopped + other.stopped, self.again + other.again, self.dropped + other.dropped
        )


def read_again(report: Report, other: Report) -> Report:
    """Add what another read of the same data reports: what it left out, the first one did too."""
    return replace(merge([report, replace(other, skipped={})]), elements=report.elements)


def bounded(timeline: Sequence[BlockTimes]) -> tuple[BlockTimes, ...]:
    """Put blocks in the order of their beginnings, and neighbours together if they are many."""
    made = sorted(timeline, key=lambda times: times.began)
    while len(made) > MOST_BLOCKS:
        pairs = [made[n : n + 2] for n in range(0, len(made), 2)]
        made = [pair[0] + pair[1] if len(pair) == 2 else pair[0] for pair in pairs]
    return tuple(made)


def merge(reports: Iterable[Report]) -> Report:
    """Add reports up."""
    elements = 0
    devices: dict[str, DeviceReport] = {}
    skipped: list[Skipped] = []
    missed: dict[str, list[AbsentRuns]] = {}
    laws: dict[str, bool] = {}
    requests = Requests()
    for report in reports:
        elements += report.elements
        skipped.append(report.skipped)
        requests += report.requests
        for name, moved in report.laws.items():
            laws[name] = laws.get(name, False) or moved
        for name, runs in report.missed.items():
            missed.setdefault(name, []).append(runs)
        for name, entry in report.devices.items():
            devices[name] = devices[name] + entry if name in devices else entry
    found = {name: missed_together(parts) for name, parts in missed.items()}
    return Report(elements, devices, total_skipped(skipped), laws, requests, found)

"""The report that a partial carries: times and counts, merged up the tree.

Each worker serves counters of the same at `/metrics` of its dashboard, next to Dask's, if package
prometheus_client is installed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from typing import Any

from chunkfold.bad_chunks import Skipped, total_skipped
from chunkfold.kernels import Device
from chunkfold.kernels.fold.profile import Profile, merged
from chunkfold.plural import counted
from chunkfold.sources.missing_objects import MissingRuns
from chunkfold.sources.missing_objects import together as missed_together
from chunkfold.stores.requests import Requests
from chunkfold.units import size_text

MOST_BLOCKS = 1000
"""Most blocks of a device whose times are kept one by one."""
_COUNTED = {
    "blocks": "Blocks folded",
    "bytes": "Decoded bytes folded, of chunks that are stored",
    "prepare_seconds": "Seconds until kernels were chosen",
    "read_seconds": "Seconds of reading, over all threads",
    "decode_seconds": "Seconds of decoding, over all threads",
    "upload_seconds": "Seconds of copying to the device, by its clock",
    "fold_seconds": "Seconds of kernels, by the device's clock",
    "skipped_elements": "Elements of chunks that could not be read and were left out",
}
_making = threading.Lock()
"""Two blocks may end at the same time, and a counter can be made only once."""


@dataclass(frozen=True)
class BlockTimes:
    """The times of a block on a device, in seconds."""

    began: float
    """Start, in seconds since 1970, by the worker's clock."""
    seconds: float
    """Duration, from its start to its partials."""
    prepare_s: float
    """Choice of kernels: the first blocks on a device wait until these were tried."""
    read_s: float
    """Reading, added over all threads."""
    decode_s: float
    """Decoding, added over all threads; in `read_s` if zarr does both."""
    upload_s: float
    """Copying to the device, by its clock; 0 where it reads the host's memory."""
    fold_s: float
    """Kernels, by the device's clock."""
    nbytes: int
    """Decoded bytes of stored chunks that were folded."""

    def __add__(self, later: BlockTimes) -> BlockTimes:
        """Return the times of both blocks as one that ran from the first start to the last end."""
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
    """The work of one device in a run."""

    device: Device
    variant: str
    """Variant of the kernels that folded elements."""
    tuning: str
    workers: tuple[str, ...]
    """Addresses of its workers; empty in the calling process."""
    blocks: int = 0
    nbytes: int = 0
    """Decoded bytes of stored chunks that were folded."""
    read_s: float = 0.0
    """Seconds of reading and decoding, added over all threads."""
    smaller: int = 1
    """By how much some reads were smaller than planned, since the device had little memory."""
    timeline: tuple[BlockTimes, ...] = ()
    """Its blocks; neighbours are joined if these are more than `MOST_BLOCKS`."""
    profile: Profile = field(default_factory=dict)

    def __repr__(self) -> str:
        where = f" on {', '.join(self.workers)}" if self.workers else ""
        return (
            f"<DeviceReport {self.device.spec}{where}: {counted(self.blocks, 'block')}, "
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
            max(self.smaller, other.smaller),
            bounded_timeline(self.timeline + other.timeline),
            merged([self.profile, other.profile]),
        )


@dataclass(frozen=True)
class Report:
    """The report of a partial."""

    elements: int
    """Number of elements folded into it."""
    devices: Mapping[str, DeviceReport]
    """Reports of devices by their identity."""
    skipped: Skipped = field(default_factory=dict)
    laws: Mapping[str, bool] = field(default_factory=dict)
    """For each monoid whose laws were tried on data: whether any element changed an accumulator."""
    requests: Requests = field(default_factory=Requests)
    """Requests of its workers to servers."""
    missed: Mapping[str, MissingRuns] = field(default_factory=dict)
    """By input: its missing objects, if its store cannot list."""


def distinct_names(devices: Iterable[Device]) -> dict[str, str]:
    """Return devices' specs by their identities; with their hosts if these are several."""
    found = {device.identity: device for device in devices}
    several = len({(device.boot, device.host) for device in found.values()}) > 1
    return {
        identity: f"{device.spec} on {device.host}" if several else device.spec
        for identity, device in found.items()
    }


@dataclass(frozen=True)
class LedgerReport:
    """The part of a run that its ledger had."""

    blocks: int = 0
    """Blocks of the run, of all its reads."""
    known: int = 0
    """Blocks that were not read, since the ledger had their partials."""
    kept: int = 0
    """Blocks whose partials were written to it."""
    damaged: int = 0
    """Entries and segments that could not be used: what they stood for was read."""
    oldest: datetime | None = None
    """Time when the oldest of the partials that were used was kept; None if none was."""

    def __add__(self, other: LedgerReport) -> LedgerReport:
        damaged = max(self.damaged, other.damaged)  # reads of a run share one ledger
        times = (one for one in (self.oldest, other.oldest) if one is not None)
        return LedgerReport(
            self.blocks + other.blocks,
            self.known + other.known,
            self.kept + other.kept,
            damaged,
            min(times, default=None),
        )


@dataclass(frozen=True)
class Attempts:
    """Counts of tasks that a run began more than once."""

    stopped: tuple[str, ...] = ()
    """Addresses of workers that were removed since they fell silent."""
    again: int = 0
    """Number of tasks that the run or Dask began again."""
    dropped: int = 0
    """Number of results of earlier attempts that came late, and were dropped."""

    def __add__(self, other: Attempts) -> Attempts:
        return Attempts(
            self.stopped + other.stopped, self.again + other.again, self.dropped + other.dropped
        )


def read_again(report: Report, other: Report) -> Report:
    """Add the report of another read of the same data, which skipped the same chunks."""
    return replace(merge([report, replace(other, skipped={})]), elements=report.elements)


def bounded_timeline(timeline: Sequence[BlockTimes]) -> tuple[BlockTimes, ...]:
    """Sort blocks by their starts, and join neighbours while they are more than `MOST_BLOCKS`."""
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
    missed: dict[str, list[MissingRuns]] = {}
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


def count_block(device: str, times: BlockTimes, skipped: int) -> None:
    """Count a block that is done; `device` is the UUID of its device."""
    amounts = {
        "blocks": 1,
        "bytes": times.nbytes,
        "prepare_seconds": times.prepare_s,
        "read_seconds": times.read_s,
        "decode_seconds": times.decode_s,
        "upload_seconds": times.upload_s,
        "fold_seconds": times.fold_s,
        "skipped_elements": skipped,
    }
    with _making:
        counters = _counters()
    for name, counter in counters.items():
        counter.labels(device).inc(max(0.0, amounts[name]))


@cache
def _counters() -> dict[str, Any]:
    try:
        from prometheus_client import Counter
    except ImportError:
        return {}
    return {
        name: Counter(f"chunkfold_{name}", f"{meaning}.", ["device"])
        for name, meaning in _COUNTED.items()
    }

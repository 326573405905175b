"""What a partial's making took: counted along, merged up the tree, bounded by the devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from chunkfold.kernels import Device
from chunkfold.kernels.profile import Profile, merged
from chunkfold.units import size_text

MOST_SKIPPED = 1000
"""Chunks left out that are named one by one."""


@dataclass(frozen=True, repr=False)
class DeviceReport:
    """What one device did in a run."""

    device: Device
    variant: str
    """Variant of the kernels that folded elements."""
    tuning: str
    worker: str
    """Address of the worker that owned it; empty in the calling process."""
    blocks: int = 0
    nbytes: int = 0
    """Decoded bytes folded."""
    read_s: float = 0.0
    """Seconds that its readers spent reading and decoding, over all threads."""
    profile: Profile = field(default_factory=dict)

    def __repr__(self) -> str:
        where = f" on {self.worker}" if self.worker else ""
        return (
            f"<DeviceReport {self.device.spec}{where}: {self.blocks} block(s), "
            f"{size_text(self.nbytes)}, {self.variant}>"
        )

    def __add__(self, other: DeviceReport) -> DeviceReport:
        return DeviceReport(
            self.device,
            self.variant,
            self.tuning,
            self.worker or other.worker,
            self.blocks + other.blocks,
            self.nbytes + other.nbytes,
            self.read_s + other.read_s,
            merged([self.profile, other.profile]),
        )


@dataclass(frozen=True)
class Report:
    """What is behind a partial."""

    elements: int
    """Elements folded into it."""
    devices: Mapping[str, DeviceReport]
    """By UUID."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Elements left out, by what was wrong with their chunks; those of "" had no room here."""


def merge(reports: Iterable[Report]) -> Report:
    """Add reports up."""
    elements = 0
    devices: dict[str, DeviceReport] = {}
    skipped: dict[str, int] = {}
    for report in reports:
        elements += report.elements
        for reason, count in report.skipped.items():
            key = reason if reason in skipped or len(skipped) < MOST_SKIPPED else ""
            skipped[key] = skipped.get(key, 0) + count
        for uuid, entry in report.devices.items():
            devices[uuid] = devices[uuid] + entry if uuid in devices else entry
    return Report(elements, devices, skipped)

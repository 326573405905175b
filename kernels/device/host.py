"""The devices of this host: list them, find them again, choose among them."""

from __future__ import annotations

import uuid
from dataclasses import replace
from functools import cache
from typing import Any

import pyopencl as cl

from chunkfold.kernels.device.device import SHORT_NAMES, Device, describe
from chunkfold.kernels.device.loader import platforms
from chunkfold.kernels.errors import DeviceError

KINDS = ("gpu", "cpu", "accelerator")
"""Kinds of devices, those used by default first."""
HOW_TO_GET_ONE = (
    "install your GPU's driver, or PoCL (Debian: pocl-opencl-icd), "
    "or Intel's CPU runtime: pip install intel-opencl-rt intel-cmplr-lib-rt"
)


def all_devices() -> tuple[Device, ...]:
    """Return every device of every platform of this host."""
    return tuple(device for device, _ in _listed())


@cache
def _listed() -> tuple[tuple[Device, cl.Device], ...]:
    found = []
    for platform in platforms():
        try:
            handles = platform.get_devices()
        except cl.Error:  # a platform without devices says so by failing
            continue
        found += [(describe(handle, i), handle) for i, handle in enumerate(handles)]
    return tuple(found)


def split(device: Device, parts: int) -> tuple[Device, ...]:
    """Describe `parts` equal sub-devices of a CPU device.

    Raises
    ------
    DeviceError
        If the device cannot be split so.
    """
    if device.kind != "cpu":
        raise DeviceError(f"{device} cannot be split in {parts}: it is a {device.kind}, not a cpu")
    if not 1 <= parts <= device.most_parts:
        raise DeviceError(
            f"{device} cannot be split in {parts}, only in 1 to {device.most_parts} parts"
        )
    namespace = uuid.UUID(device.uuid)
    return tuple(
        replace(
            device,
            part=(k, parts),
            uuid=str(uuid.uuid5(namespace, f"{k}/{parts}")),
            compute_units=device.compute_units // parts,
        )
        for k in range(parts)
    )


def handle_of(device: Device) -> cl.Device:
    """Return this process's handle of a device, found by UUID, else by its place.

    Raises
    ------
    DeviceError
        If the device is not there (any more).
    """
    for found, handle in _listed():
        if (found.platform, found.kind) != (device.platform, device.kind):
            continue
        # A part's UUID is derived from its parent's.
        if not device.part and found.uuid == device.uuid:
            return handle
        if device.part and split(found, device.part[1])[device.part[0]].uuid == device.uuid:
            return _part_of(handle, device.part)
    raise DeviceError(f"device {device} with UUID {device.uuid} is gone; {what_there_is()}")


def _part_of(handle: cl.Device, part: tuple[int, int]) -> cl.Device:
    k, parts = part
    units = handle.max_compute_units // parts
    equally: Any = [cl.device_partition_property.EQUALLY, units]
    return handle.create_sub_devices(equally)[k]


def devices(spec: str | None = None) -> list[Device]:
    """Return the devices of this host that a spec names.

    Parameters
    ----------
    spec
        "platform:device:type", each by index or (part of a) name, each possibly empty; or one of
        them alone (a name of a platform, else of a device), or a UUID, or "all". A kind alone
        ("cpu") takes each piece of hardware once. "/n" behind it splits each CPU device found in n,
        "/n#k" takes part k. None means the default: the GPUs if there are any, else one CPU device.

    Raises
    ------
    DeviceError
        If nothing matches; the message lists what there is.
    """
    if spec is None:
        return default_devices()[0]
    pattern, _, rest = spec.partition("/")
    found = [device for device in all_devices() if _matches(device, pattern.strip())]
    wanted = pattern.strip().lower()
    if wanted in KINDS:
        found = _one_each(found)[0]
    elif ":" not in pattern and wanted not in ("all", "*"):
        # PoCL's devices have their maker's name, too.
        found = [one for one in found if _named(pattern, one.platform)] or found
    if not found:
        raise DeviceError(f"no OpenCL device matches {spec!r}; {what_there_is()}")
    if not rest:
        return found
    count, _, which = rest.partition("#")
    if not (f"{count}{which}".isascii() and count.isdigit() and (which or "0").isdigit()):
        raise DeviceError(f"device {spec!r} should end in /n or /n#k, as in 'cpu/2#0'")
    parts = [part for device in found for part in split(device, int(count))]
    if not which:
        return parts
    chosen = [part for part in parts if part.part and part.part[0] == int(which)]
    if not chosen:
        raise DeviceError(
            f"device {spec!r} names part {which} of {count}; parts are numbered from 0"
        )
    return chosen


def _matches(device: Device, pattern: str) -> bool:
    if ":" not in pattern:
        if pattern.lower() in ("all", "*"):
            return True
        return (
            pattern.lower() in (device.uuid, device.kind)
            or _named(pattern, device.platform)
            or _named(pattern, device.name)
        )
    platform, _, rest = pattern.partition(":")
    name, _, kind = rest.partition(":")
    position = list(dict.fromkeys(d.platform for d in all_devices())).index(device.platform)
    return (
        (not platform or platform == str(position) or _named(platform, device.platform))
        and (not name or name == str(device.index) or _named(name, device.name))
        and (not kind or kind.lower() == device.kind)
    )


def _named(pattern: str, name: str) -> bool:
    wanted = pattern.strip().lower()
    called = f"{name} {SHORT_NAMES.get(name, '')}".lower()
    return bool(wanted) and not wanted.isdigit() and wanted in called


def default_devices() -> tuple[list[Device], dict[Device, str]]:
    """Choose the GPUs if there are any, else one CPU device; say why others are left out.

    Hardware that two drivers show counts once.

    Raises
    ------
    DeviceError
        If there is no OpenCL device at all.
    """
    everything = all_devices()
    if not everything:
        raise DeviceError(f"no OpenCL device was found; {HOW_TO_GET_ONE}")
    kinds = {device.kind for device in everything}
    wanted = next(kind for kind in KINDS if kind in kinds)
    chosen, left_out = _one_each([device for device in everything if device.kind == wanted])
    others = [device for device in everything if device.kind != wanted]
    left_out |= {other: f"a {other.kind}, while a {wanted} is available" for other in others}
    return chosen, left_out


def _one_each(found: list[Device]) -> tuple[list[Device], dict[Device, str]]:
    """Keep one device of each piece of hardware: that of the driver that can do most."""
    chosen: dict[str, Device] = {}
    left_out: dict[Device, str] = {}
    for device in sorted(found, key=lambda d: (d.version, len(d.extensions)), reverse=True):
        if device.hardware in chosen:
            left_out[device] = f"the same hardware as {chosen[device.hardware]}"
        else:
            chosen[device.hardware] = device
    return sorted(chosen.values(), key=found.index), left_out


def what_there_is() -> str:
    """Say which devices this host has, for messages."""
    found = all_devices()
    if not found:
        return f"this host has no OpenCL device: {HOW_TO_GET_ONE}"
    return "use one of: " + "; ".join(f"{device.spec} ({device.name})" for device in found)

"""List OpenCL devices, describe them as plain data, choose among them."""

from __future__ import annotations

import ctypes
import re
import socket
import uuid
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pyopencl as cl

from chunkfold.kernels.errors import DeviceError
from chunkfold.kernels.loader import platforms

_VERSION = re.compile(r"OpenCL (?:C )?(\d+)\.(\d+)")
_UUID_KHR = 0x106A  # CL_DEVICE_UUID_KHR; pyopencl has no name for it
_SHORT = {
    "Portable Computing Language": "pocl",
    "Intel(R) OpenCL": "intel",
    "NVIDIA CUDA": "nvidia",
    "AMD Accelerated Parallel Processing": "amd",
}
"""Platforms that people call by another name."""
_KINDS = {
    cl.device_type.GPU: "gpu",
    cl.device_type.CPU: "cpu",
    cl.device_type.ACCELERATOR: "accelerator",
}
HOW_TO_GET_ONE = (
    "install your GPU's driver, or PoCL (Debian: pocl-opencl-icd), "
    "or Intel's CPU runtime: pip install 'chunkfold[cpu]'"
)


@dataclass(frozen=True)
class Device:
    """An OpenCL device: what it is and what it claims. Holds no handle, travels anywhere."""

    platform: str
    index: int
    """Position among the platform's devices."""
    kind: str
    """gpu, cpu or accelerator."""
    name: str
    uuid: str
    """The driver's own where it has one, else derived from host, platform and position."""
    hardware: str
    """The same for two drivers that show the same hardware."""
    vendor: str
    driver: str
    version: tuple[int, int]
    c_versions: tuple[tuple[int, int], ...]
    """Every OpenCL C version it compiles, ascending."""
    extensions: frozenset[str]
    features: frozenset[str]
    """OpenCL C 3.0 feature macros."""
    compute_units: int
    max_work_group_size: int
    max_work_item_size: int
    """Along the first dimension."""
    preferred_multiple: int
    """Work-group sizes should be a multiple of this, where the device says so (3.0), else 1."""
    local_bytes: int
    global_bytes: int
    max_alloc_bytes: int
    unified_memory: bool
    """Whether device and host share memory."""
    max_sub_groups: int
    part: tuple[int, int] | None = None
    """(k, n) if this is the k-th of n equal parts of a device."""

    @property
    def spec(self) -> str:
        """The text that finds this device again on its host: platform:device:type[/n#k]."""
        part = f"/{self.part[1]}#{self.part[0]}" if self.part else ""
        platform = _SHORT.get(self.platform, self.platform)
        return f"{platform}:{self.index}:{self.kind}{part}"

    @property
    def fp64(self) -> bool:
        """Whether it claims float64."""
        return "cl_khr_fp64" in self.extensions or "__opencl_c_fp64" in self.features

    def __str__(self) -> str:
        return f"{self.name} ({self.spec})"


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


def describe(handle: cl.Device, index: int) -> Device:
    """Read a device's description off its handle."""
    kind = next((name for bit, name in _KINDS.items() if handle.type & bit), "accelerator")
    platform = handle.platform.name.strip()
    identity = _device_uuid(handle) or str(
        uuid.uuid5(uuid.NAMESPACE_OID, f"{socket.gethostname()}/{platform}/{index}/{handle.name}")
    )
    return Device(
        platform=platform,
        index=index,
        kind=kind,
        name=handle.name.strip(),
        uuid=identity,
        hardware=_hardware(handle, kind, identity),
        vendor=handle.vendor.strip(),
        driver=handle.driver_version.strip(),
        version=parse_version(handle.version),
        c_versions=_c_versions(handle),
        extensions=frozenset(handle.extensions.split()),
        features=frozenset(entry.name for entry in _optional(handle, "opencl_c_features", [])),
        compute_units=handle.max_compute_units,
        max_work_group_size=handle.max_work_group_size,
        max_work_item_size=handle.max_work_item_sizes[0],
        preferred_multiple=_optional(handle, "preferred_work_group_size_multiple", 1) or 1,
        local_bytes=handle.local_mem_size,
        global_bytes=handle.global_mem_size,
        max_alloc_bytes=handle.max_mem_alloc_size,
        unified_memory=bool(handle.host_unified_memory),
        max_sub_groups=_optional(handle, "max_num_sub_groups", 0),
    )


def parse_version(text: str) -> tuple[int, int]:
    """Read major and minor out of a version string of OpenCL or OpenCL C.

    >>> parse_version("OpenCL C 1.2 PoCL"), parse_version("OpenCL 3.0 CUDA 13.0.84")
    ((1, 2), (3, 0))
    """
    match = _VERSION.match(text)
    return (int(match[1]), int(match[2])) if match else (1, 0)


def _c_versions(handle: cl.Device) -> tuple[tuple[int, int], ...]:
    # OPENCL_C_VERSION alone understates: PoCL 3.1 reports 1.2 there and lists 3.0 here.
    listed = {
        (entry.version >> 22, entry.version >> 12 & 0x3FF)
        for entry in _optional(handle, "opencl_c_all_versions", [])
    }
    return tuple(sorted(listed | {parse_version(handle.opencl_c_version)}))


def _optional(handle: cl.Device, query: str, default: Any) -> Any:
    """Ask for what not every version or vendor answers."""
    try:
        return getattr(handle, query)
    except (cl.Error, AttributeError):
        return default


def _device_uuid(handle: cl.Device) -> str | None:
    """Ask the driver for cl_khr_device_uuid, through the loader inside pyopencl."""
    if "cl_khr_device_uuid" not in handle.extensions.split():
        return None
    ask = ctypes.CDLL(cl._cl.__file__).clGetDeviceInfo
    ask.argtypes = [
        ctypes.c_void_p, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p,
    ]  # fmt: skip
    answer = ctypes.create_string_buffer(16)
    failed = ask(handle.int_ptr, _UUID_KHR, 16, answer, None)
    return None if failed else str(uuid.UUID(bytes=answer.raw))


def _hardware(handle: cl.Device, kind: str, identity: str) -> str:
    """Name the hardware behind a device: its PCI address, the host's CPU, else the UUID."""
    if kind == "cpu":
        return f"cpu of {socket.gethostname()}"
    bus, slot = _optional(handle, "pci_bus_id_nv", None), _optional(handle, "pci_slot_id_nv", None)
    if bus is not None:
        return f"pci {_optional(handle, 'pci_domain_id_nv', 0)}:{bus}:{slot}"
    topology = _optional(handle, "topology_amd", None)
    if topology is not None:
        return f"pci 0:{topology.bus}:{topology.device}"
    return identity


def split(device: Device, parts: int) -> tuple[Device, ...]:
    """Describe `parts` equal sub-devices of a CPU device.

    Raises
    ------
    DeviceError
        If the device cannot be split so.
    """
    if device.kind != "cpu" or not 1 <= parts <= device.compute_units:
        raise DeviceError(
            f"{device} cannot be split in {parts}: it is a {device.kind} "
            f"with {device.compute_units} compute units"
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
    base = replace(device, part=None)
    # A part's UUID is derived from its parent's, which its spec finds.
    for found, handle in _listed():
        whole = split(found, device.part[1])[device.part[0]] if device.part else found
        if whole.uuid == device.uuid and found.platform == base.platform:
            return _part_of(handle, device.part) if device.part else handle
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
        them alone; or a UUID. "/n" behind it splits each CPU device found in n, "/n#k" takes
        part k. None means the default: the GPUs if there are any, else one CPU device.

    Raises
    ------
    DeviceError
        If nothing matches; the message lists what there is.
    """
    if spec is None:
        return default_devices()[0]
    pattern, _, rest = spec.partition("/")
    found = [device for device in all_devices() if _matches(device, pattern.strip())]
    if not found:
        raise DeviceError(f"no OpenCL device matches {spec!r}; {what_there_is()}")
    if not rest:
        return found
    count, _, which = rest.partition("#")
    if not count.isdigit() or (which and not which.isdigit()):
        raise DeviceError(f"device {spec!r} should end in /n or /n#k, as in 'cpu/2#0'")
    parts = [part for device in found for part in split(device, int(count))]
    if not which:
        return parts
    chosen = [part for part in parts if part.part and part.part[0] == int(which)]
    if not chosen:
        raise DeviceError(f"device {spec!r} asks for part {which} of {count}; parts count from 0")
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
    called = f"{name} {_SHORT.get(name, '')}".lower()
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
    wanted = next(kind for kind in ("gpu", "cpu", "accelerator") if kind in kinds)
    chosen: dict[str, Device] = {}
    left_out: dict[Device, str] = {}
    # Where drivers compete for one piece of hardware, the one that can do most is taken.
    by_ability = sorted(everything, key=lambda d: (d.version, len(d.extensions)), reverse=True)
    for device in by_ability:
        if device.kind != wanted:
            left_out[device] = f"a {device.kind}, and there is a {wanted}"
        elif device.hardware in chosen:
            left_out[device] = f"the same hardware as {chosen[device.hardware]}"
        else:
            chosen[device.hardware] = device
    order = {device: n for n, device in enumerate(everything)}
    return sorted(chosen.values(), key=order.__getitem__), left_out


def what_there_is() -> str:
    """Say which devices this host has, for messages."""
    found = all_devices()
    if not found:
        return f"there is no OpenCL device here: {HOW_TO_GET_ONE}"
    return "there are: " + "; ".join(f"{device.spec} ({device.name})" for device in found)

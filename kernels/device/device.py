"""Descriptions of OpenCL devices, as plain data."""

from __future__ import annotations

import ctypes
import re
import socket
import struct
import uuid
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import pyopencl as cl

from chunkfold.kernels.device.capabilities import lacks, taken_away
from chunkfold.kernels.device.loader import entry_point

_VERSION = re.compile(r"OpenCL (?:C )?(\d+)\.(\d+)")
# pyopencl has no names for these:
_UUID_KHR = 0x106A  # CL_DEVICE_UUID_KHR
_PCI_KHR = 0x410F  # CL_DEVICE_PCI_BUS_INFO_KHR
_ROUNDS_DIVISION = cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
_BOOT = Path("/proc/sys/kernel/random/boot_id")
POCL = "Portable Computing Language"
SHORT_NAMES = {
    POCL: "pocl",
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


@dataclass(frozen=True, repr=False)
class Device:
    """An OpenCL device and its claims, without a handle: it can be sent to other hosts."""

    platform: str
    index: int
    """Position among the platform's devices."""
    kind: str
    """gpu, cpu or accelerator."""
    name: str
    uuid: str
    """The driver's own where it has one, else derived from host, platform and position. It names a
    device among its host's only: drivers of CPUs say the same of all that are of one model."""
    host: str
    """Name of its host."""
    boot: str
    """Boot id of its host's kernel: the names of hosts repeat, and the machine ids of clones do."""
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
    constant_bytes: int
    """Most that a program's constants may take."""
    unified_memory: bool
    """True: device and host share memory."""
    max_sub_groups: int
    rounds_division: bool
    """True: programs may ask for correctly rounded divisions and square roots of float32."""
    most_parts: int
    """Equal parts that it can be split in, at most; 1 if in none."""
    part: tuple[int, int] | None = None
    """(k, n) if this is the k-th of n equal parts of a device."""
    without: frozenset[str] = frozenset()
    """Capabilities that it is used without, whatever it claims."""
    pci: str = ""
    """Its PCI address, as Linux writes it ("0000:1b:00.0"); empty if its driver does not tell, and
    for CPUs."""

    @property
    def identity(self) -> str:
        """Return a UUID that no other device of any host has; it changes with each boot."""
        told = f"{self.boot}/{self.host}/{self.platform}/{self.uuid}"
        return str(uuid.uuid5(uuid.NAMESPACE_OID, told))

    @property
    def spec(self) -> str:
        """The text that finds this device again on its host: platform:device:type[/n#k]."""
        part = f"/{self.part[1]}#{self.part[0]}" if self.part else ""
        platform = SHORT_NAMES.get(self.platform, self.platform)
        return f"{platform}:{self.index}:{self.kind}{part}"

    def lacks(self, capability: str) -> str | None:
        """Say why it lacks one of `device.capabilities.CAPABILITIES`; None if it has it."""
        return lacks(self, capability)

    @property
    def fp64(self) -> bool:
        """Return True if it has float64."""
        return self.lacks("fp64") is None

    def __str__(self) -> str:
        return f"{self.name} ({self.spec})"

    def __repr__(self) -> str:
        return f"<Device {self.spec} {self.name!r} {self.uuid}>"

    def _repr_html_(self) -> str:
        """Show what it claims, as a notebook does."""
        told = {
            "spec": self.spec,
            "platform": f"{self.platform}, driver {self.driver}",
            "OpenCL": ".".join(map(str, self.version)),
            "compute units": f"{self.compute_units:,}",
            "memory": f"{self.global_bytes / 2**30:.1f} GiB",
            "float64": "yes" if self.fp64 else "no",
            "uuid": self.uuid,
        }
        rows = "".join(
            f"<tr><td>{what}</td><td>{escape(one)}</td></tr>" for what, one in told.items()
        )
        return f"<div><b>chunkfold.Device</b> {escape(self.name)}<table>{rows}</table></div>"


def describe(handle: cl.Device, index: int) -> Device:
    """Read a device's description off its handle."""
    kind = next((name for bit, name in _KINDS.items() if handle.type & bit), "accelerator")
    platform = handle.platform.name.strip()
    identity = _device_uuid(handle) or str(
        uuid.uuid5(uuid.NAMESPACE_OID, f"{socket.gethostname()}/{platform}/{index}/{handle.name}")
    )
    pci = "" if kind == "cpu" else _pci(handle)
    return Device(
        platform=platform,
        index=index,
        kind=kind,
        name=handle.name.strip(),
        uuid=identity,
        host=socket.gethostname(),
        boot=_boot_id(),
        hardware=_hardware(kind, pci) or identity,
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
        constant_bytes=handle.max_constant_buffer_size,
        unified_memory=bool(handle.host_unified_memory),
        max_sub_groups=_optional(handle, "max_num_sub_groups", 0),
        rounds_division=bool(handle.single_fp_config & _ROUNDS_DIVISION),
        most_parts=_most_parts(handle),
        without=taken_away(),
        pci=pci,
    )


@cache
def _boot_id() -> str:
    """Return the kernel's; nothing where it has none to show."""
    try:
        return _BOOT.read_text("ascii").strip()
    except OSError:
        return ""


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


def _most_parts(handle: cl.Device) -> int:
    """Return how many sub-devices of one compute unit each there can be."""
    equally = cl.device_partition_property.EQUALLY in _optional(handle, "partition_properties", [])
    most = _optional(handle, "partition_max_sub_devices", 1) if equally else 1
    return max(1, min(most, handle.max_compute_units))


def _optional(handle: cl.Device, query: str, default: Any) -> Any:
    """Ask for what not every version or vendor answers."""
    try:
        return getattr(handle, query)
    except (cl.Error, AttributeError):
        return default


def _device_uuid(handle: cl.Device) -> str | None:
    """Ask the driver for cl_khr_device_uuid."""
    answer = _answer(handle, "cl_khr_device_uuid", _UUID_KHR)
    return None if answer is None else str(uuid.UUID(bytes=answer))


def _answer(handle: cl.Device, extension: str, query: int) -> bytes | None:
    """Ask for the 16 bytes of an extension; None where the driver lacks it."""
    if extension not in handle.extensions.split():
        return None
    pointer, number, size = ctypes.c_void_p, ctypes.c_uint, ctypes.c_size_t
    ask = entry_point("clGetDeviceInfo", pointer, number, size, pointer, pointer)
    answer = ctypes.create_string_buffer(16)
    return None if ask(handle.int_ptr, query, 16, answer, None) else answer.raw


def _pci(handle: cl.Device) -> str:
    """Return the PCI address; empty if the driver does not tell."""
    answer = _answer(handle, "cl_khr_pci_bus_info", _PCI_KHR)
    if answer is not None:
        return pci_address(*struct.unpack("4I", answer))
    bus, slot = _optional(handle, "pci_bus_id_nv", None), _optional(handle, "pci_slot_id_nv", 0)
    if bus is not None:
        # A slot is a PCI device and its function (not documented; hwloc reads it so, too).
        return pci_address(_optional(handle, "pci_domain_id_nv", 0), bus, slot >> 3, slot & 7)
    found = _optional(handle, "topology_amd", None)
    return "" if found is None else pci_address(0, found.bus & 0xFF, found.device, found.function)


def pci_address(domain: int, bus: int, device: int, function: int) -> str:
    """Write a PCI address as Linux does.

    >>> pci_address(0, 27, 0, 0)
    '0000:1b:00.0'
    """
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"


def _hardware(kind: str, pci: str) -> str:
    """Name the hardware behind a device: the host's CPU, or its PCI address if that is known."""
    return f"cpu of {socket.gethostname()}" if kind == "cpu" else pci and f"pci {pci}"

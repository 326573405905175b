"""Capabilities that some devices lack: decided here, and here only.

`CHUNKFOLD_WITHOUT` takes some away, for tests and to find faults: "fp64,sub_groups".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Protocol

from chunkfold.kernels.errors import DeviceError

_DECODE_BYTES = 16 << 10
"""Local memory that kernels need which decode."""
VARIABLE = "CHUNKFOLD_WITHOUT"
_COLLECTIVES = "__opencl_c_work_group_collective_functions"
SUB_GROUP_EXTENSIONS = ("cl_khr_subgroups", "cl_intel_subgroups")


class Claims(Protocol):
    """A device's claims, and the capabilities that are taken away from it."""

    @property
    def version(self) -> tuple[int, int]: ...  # noqa: D102
    @property
    def extensions(self) -> frozenset[str]: ...  # noqa: D102
    @property
    def features(self) -> frozenset[str]: ...  # noqa: D102
    @property
    def max_sub_groups(self) -> int: ...  # noqa: D102
    @property
    def rounds_division(self) -> bool: ...  # noqa: D102
    @property
    def without(self) -> frozenset[str]: ...  # noqa: D102
    @property
    def local_bytes(self) -> int: ...  # noqa: D102


def _fp64(device: Claims) -> str | None:
    found = "cl_khr_fp64" in device.extensions or "__opencl_c_fp64" in device.features
    return None if found else "no cl_khr_fp64"


def _fp16(device: Claims) -> str | None:
    return None if "cl_khr_fp16" in device.extensions else "no cl_khr_fp16"


def _int64_atomics(device: Claims) -> str | None:
    name = "cl_khr_int64_base_atomics"
    return None if name in device.extensions else f"no {name}"


def _rounded_division(device: Claims) -> str | None:
    return None if device.rounds_division else "no CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT"


def _work_group_functions(device: Claims) -> str | None:
    if (2, 0) <= device.version < (3, 0) or _COLLECTIVES in device.features:
        return None
    return f"OpenCL {'.'.join(map(str, device.version))} without {_COLLECTIVES}"


def _sub_groups(device: Claims) -> str | None:
    if device.version >= (3, 0) and "__opencl_c_subgroups" in device.features:
        return None if device.max_sub_groups else "it reports no sub-groups"
    if device.extensions.intersection(SUB_GROUP_EXTENSIONS):
        return None
    return f"it lacks __opencl_c_subgroups, {', '.join(SUB_GROUP_EXTENSIONS)}"


def _device_decode(device: Claims) -> str | None:
    found = device.local_bytes
    return None if found >= _DECODE_BYTES else f"{found:,} bytes of local memory: too few"


def _native_feed(_: Claims) -> str | None:
    return None if native_library() else "not built: no C compiler when chunkfold was installed"


_RULES: Mapping[str, Callable[[Claims], str | None]] = {
    "fp64": _fp64,
    "int64_atomics": _int64_atomics,
    "rounded_division": _rounded_division,
    "sub_groups": _sub_groups,
    "work_group_functions": _work_group_functions,
    # Kernels read and write halves by functions that every device has: nothing depends on it.
    "fp16": _fp16,
    "device_decode": _device_decode,
    # This host has it rather than the device: a library that uploads files.
    "native_feed": _native_feed,
}
"""For each capability a function that says why a device lacks it; None if it has it."""
CAPABILITIES = tuple(_RULES)


def lacks(device: Claims, capability: str) -> str | None:
    """Say why a device lacks a capability; None if it has it."""
    if capability in device.without:
        return f"{VARIABLE} disables {capability}"
    return _RULES[capability](device)


def taken_away() -> frozenset[str]:
    """Return the capabilities that the environment takes away from all devices.

    Raises
    ------
    DeviceError
        If it names an unknown one.
    """
    given = os.environ.get(VARIABLE, "")
    names = frozenset(name.strip() for name in given.split(",") if name.strip())
    unknown = sorted(names.difference(CAPABILITIES))
    if unknown:
        raise DeviceError(
            f"{VARIABLE} is {given!r}, but no capability is called {unknown[0]!r}; use one of: "
            f"{', '.join(CAPABILITIES)}"
        )
    return names


_FOLDER = Path(__file__).parents[1] / "feed"


def native_library() -> Path | None:
    """Return the library's path; None if it was not built."""
    each = (_FOLDER / f"_feed{suffix}" for suffix in EXTENSION_SUFFIXES)
    return next((path for path in each if path.exists()), None)

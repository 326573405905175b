"""The table of kernel variants: which shapes suit a device, best first."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from chunkfold.kernels.accumulator import Accumulator
from chunkfold.kernels.cpu_shapes import cpu_shapes
from chunkfold.kernels.device import POCL, Device
from chunkfold.kernels.errors import DeviceError
from chunkfold.kernels.gpu_shapes import gpu_shapes
from chunkfold.kernels.tuning import VARIANTS, Tuning

Shape = Callable[[Device, Accumulator, str], tuple[Tuning, ...]]
_TABLE: dict[str, tuple[Shape, tuple[str, ...]]] = {
    "cpu": (cpu_shapes, ("tree", "work_group", "sub_group")),
    "gpu": (gpu_shapes, ("sub_group", "work_group", "tree")),
    "accelerator": (gpu_shapes, ("sub_group", "work_group", "tree")),
}
"""Per kind of device: the shapes that suit it, of which a measurement chooses, and its variants,
best first."""


def why_not(device: Device, accumulator: Accumulator, variant: str) -> str | None:
    """Say why a variant cannot fold this accumulator on this device by rule; None if it can.

    What the device lacks comes first: nothing helps against that.
    """
    if variant == "tree":
        return None
    lacks = _lacks(device, variant)
    if lacks:
        return lacks
    if accumulator.exact:
        return f"{variant}_reduce_add rounds, which exact sums do not: use mode 'fast'"
    if not accumulator.collective:
        return f"{variant}_reduce_<op> exists for add, min and max only"
    return None


def _lacks(device: Device, variant: str) -> str | None:
    """Say what a device lacks for a variant with built-ins."""
    if variant == "work_group":
        features, collective = device.features, "__opencl_c_work_group_collective_functions"
        if (2, 0) <= device.version < (3, 0) or collective in features:
            return None
        return f"OpenCL {_dotted(device.version)} without {collective}"
    if device.version >= (3, 0) and "__opencl_c_subgroups" in device.features:
        return None if device.max_sub_groups else "it reports no sub-groups"
    if {"cl_khr_subgroups", "cl_intel_subgroups"} & device.extensions:
        return None
    return "it has neither __opencl_c_subgroups, cl_khr_subgroups nor cl_intel_subgroups"


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def language_options(device: Device) -> tuple[str, ...]:
    """Return the -cl-std option for a device: 3.0 where it is listed, 2.0 on 2.x, else none."""
    if device.version >= (3, 0) and (3, 0) in device.c_versions:
        return ("-cl-std=CL3.0",)
    if (2, 0) in device.c_versions:
        return ("-cl-std=CL2.0",)
    return ()


def build_options(device: Device) -> tuple[str, ...]:
    """Return what every program is compiled with; CHUNKFOLD_BUILD_OPTIONS adds to it."""
    # PoCL's compiler writes to standard error how many warnings there were, past every caller.
    quiet = ("-w",) if device.platform == POCL else ()
    return (
        *language_options(device),
        *quiet,
        *os.environ.get("CHUNKFOLD_BUILD_OPTIONS", "").split(),
    )


def language_pragmas(device: Device, variant: str) -> str:
    """Return the pragmas that a variant's built-ins need before OpenCL C 3.0."""
    if variant != "sub_group" or language_options(device) == ("-cl-std=CL3.0",):
        return ""
    names = [n for n in ("cl_khr_subgroups", "cl_intel_subgroups") if n in device.extensions]
    return "".join(f"#pragma OPENCL EXTENSION {name} : enable\n" for name in names)


def tiers(device: Device, accumulator: Accumulator) -> Iterator[tuple[Tuning, ...]]:
    """Yield the tunings to try on a device, best first; those of a tier are equals by the table.

    The last is the simplest there is.
    """
    shape, variants = _TABLE[device.kind]
    for variant in variants:
        if why_not(device, accumulator, variant) is None:
            yield shape(device, accumulator, variant)
    yield (shape(device, accumulator, "tree")[0].plain(),)


def forced(device: Device, accumulator: Accumulator, variant: str) -> tuple[Tuning, ...]:
    """Return the tunings of one variant, equals by the table.

    Raises
    ------
    DeviceError
        If the device cannot do it; the message says what it lacks.
    """
    if variant not in VARIANTS:
        raise DeviceError(f"no variant is called {variant!r}; there are: {', '.join(VARIANTS)}")
    reason = why_not(device, accumulator, variant)
    if reason:
        raise DeviceError(f"variant {variant!r} cannot be used on {device}: {reason}")
    return _TABLE[device.kind][0](device, accumulator, variant)

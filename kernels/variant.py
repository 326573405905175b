"""The table of kernel variants: which shapes suit a device, best first."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from chunkfold.kernels.accumulator import Accumulator
from chunkfold.kernels.capabilities import SUB_GROUP_EXTENSIONS
from chunkfold.kernels.cpu_shapes import cpu_shapes
from chunkfold.kernels.device import POCL, Device
from chunkfold.kernels.errors import DeviceError
from chunkfold.kernels.gpu_shapes import gpu_shapes
from chunkfold.kernels.tuning import VARIANTS, Tuning

Shape = Callable[[Device, Accumulator, str], tuple[Tuning, ...]]


class _Row(NamedTuple):
    """What suits a kind of device."""

    shapes: Shape
    """Those of which a measurement chooses."""
    variants: tuple[str, ...]
    """Best first."""
    why: str
    """Why they stand in this order."""


_ALONE = "a CPU's work-items stream alone, so that a group has nothing to put together"
_TOGETHER = "built-ins put a group's work-items together without local memory, or with little"
_TABLE = {
    "cpu": _Row(cpu_shapes, ("tree", "work_group", "sub_group"), _ALONE),
    "gpu": _Row(gpu_shapes, ("sub_group", "work_group", "tree"), _TOGETHER),
    "accelerator": _Row(gpu_shapes, ("sub_group", "work_group", "tree"), _TOGETHER),
}
"""By kind of device."""
_NEEDS = {"work_group": "work_group_functions", "sub_group": "sub_groups"}
"""What devices must be capable of, for a variant with built-ins."""


def why_not(device: Device, accumulator: Accumulator, variant: str) -> str | None:
    """Say why a variant cannot fold this accumulator on this device by rule; None if it can.

    What the device lacks comes first: nothing helps against that.
    """
    if variant == "tree":
        return None
    lacks = device.lacks(_NEEDS[variant])
    if lacks:
        return lacks
    if accumulator.exact:
        return f"{variant}_reduce_add rounds, which exact sums do not: use mode 'fast'"
    if not accumulator.collective:
        return f"{variant}_reduce_<op> exists for add, min and max only"
    return None


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
    names = [name for name in SUB_GROUP_EXTENSIONS if name in device.extensions]
    return "".join(f"#pragma OPENCL EXTENSION {name} : enable\n" for name in names)


def tiers(device: Device, accumulator: Accumulator) -> Iterator[tuple[Tuning, ...]]:
    """Yield the tunings to try on a device, best first; those of a tier are equals by the table.

    The last is the simplest there is.
    """
    row = _TABLE[device.kind]
    others: list[str] = []
    """What speaks against variants that stand before."""
    for variant in row.variants:
        against = why_not(device, accumulator, variant)
        if against is None:
            why = "; ".join(others) or f"the table's first: {row.why}"
            yield _because(why, row.shapes(device, accumulator, variant))
        others.append(f"not {variant}: {against or 'no kernel of it works here'}")
    plainest = (row.shapes(device, accumulator, "tree")[0].plain(),)
    yield _because("the simplest there is, since nothing else works here", plainest)


def _because(why: str, shapes: Iterable[Tuning]) -> tuple[Tuning, ...]:
    return tuple(shape.because(variant=why) for shape in shapes)


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
    return _because("it was asked for", _TABLE[device.kind].shapes(device, accumulator, variant))

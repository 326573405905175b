"""The table of kernel variants: which shapes suit a device, best first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.device.device import Device
from chunkfold.kernels.errors import DeviceError
from chunkfold.kernels.program.options import VARIANTS, Tuning
from chunkfold.kernels.tuning.cpu_shapes import cpu_shapes
from chunkfold.kernels.tuning.gpu_shapes import gpu_shapes

Shape = Callable[[Device, Accumulator, str], tuple[Tuning, ...]]


class _Row(NamedTuple):
    """The shapes and variants of a kind of device."""

    shapes: Shape
    """Returns shapes among which a measurement chooses."""
    variants: tuple[str, ...]
    """Best first."""
    why: str
    """Why they stand in this order."""


_ALONE = "a CPU's work-items stream by themselves, so that a group has nothing to put together"
_TOGETHER = "built-ins put a group's work-items together without local memory, or with little"
_TABLE = {
    "cpu": _Row(cpu_shapes, ("tree", "work_group", "sub_group"), _ALONE),
    "gpu": _Row(gpu_shapes, ("sub_group", "work_group", "tree"), _TOGETHER),
    "accelerator": _Row(gpu_shapes, ("sub_group", "work_group", "tree"), _TOGETHER),
}
"""Rows by kind of device."""
_NEEDS = {"work_group": "work_group_functions", "sub_group": "sub_groups"}
"""Capabilities that variants with built-ins need."""


def why_not(device: Device, accumulator: Accumulator, variant: str) -> str | None:
    """Say why a variant cannot fold this accumulator on this device by rule; None if it can.

    A capability that the device lacks comes first: it has no remedy.
    """
    if variant == "tree":
        return None
    lacks = device.lacks(_NEEDS[variant])
    if lacks:
        return lacks
    if accumulator.exact:
        return f"{variant}_reduce_add rounds, which exact sums do not: use mode 'fast'"
    if not accumulator.collective:
        return f"{variant}_reduce_<op> exists for add, min and max, and positions of extremes"
    return None


def tiers(device: Device, accumulator: Accumulator) -> Iterator[tuple[Tuning, ...]]:
    """Yield the tunings to try on a device, best first; those of a tier are equals by the table.

    The last is the simplest there is.
    """
    row = _TABLE[device.kind]
    if accumulator.in_order:
        one = row.shapes(device, accumulator, "tree")[0].in_order()
        yield _because("elements are folded in their order", [one])
        return
    others: list[str] = []
    """Reasons against the variants before."""
    for variant in row.variants:
        against = why_not(device, accumulator, variant)
        if against is None:
            why = "; ".join(others) or f"the table's first: {row.why}"
            yield _because(why, row.shapes(device, accumulator, variant))
        others.append(f"not {variant}: {against or 'no kernel of it works here'}")
    plainest = (row.shapes(device, accumulator, "tree")[0].plain(),)
    yield _because("the simplest one, because nothing else works here", plainest)


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
        raise DeviceError(f"no variant is called {variant!r}; use one of: {', '.join(VARIANTS)}")
    if accumulator.in_order:
        return next(tiers(device, accumulator))
    reason = why_not(device, accumulator, variant)
    if reason:
        raise DeviceError(f"variant {variant!r} cannot be used on {device}: {reason}")
    return _because("it was requested", _TABLE[device.kind].shapes(device, accumulator, variant))

"""Choose the compiler options of a device and its driver."""

from __future__ import annotations

import os

from chunkfold.kernels.device.capabilities import SUB_GROUP_EXTENSIONS
from chunkfold.kernels.device.device import POCL, Device

_ROUNDED_DIVISION = "-cl-fp32-correctly-rounded-divide-sqrt"
"""Without it OpenCL allows errors of 2.5 and 3 units in the last place."""


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
    rounded = () if device.lacks("rounded_division") else (_ROUNDED_DIVISION,)
    return (
        *language_options(device),
        *rounded,
        *quiet,
        *os.environ.get("CHUNKFOLD_BUILD_OPTIONS", "").split(),
    )


def division(device: Device) -> str:
    """Return the definition by which programs divide in float64, where that rounds as it should.

    A quotient or root of float32 that is rounded to 53 bits, and these to 24, is the correctly
    rounded one, for 53 >= 2 * 24 + 2 (Figueroa, "When is double rounding innocuous?", 1995).
    """
    in_double = device.fp64 and device.lacks("rounded_division")
    return "#define CHF_DIVIDES_IN_DOUBLE 1\n" if in_double else ""


def language_pragmas(device: Device, variant: str) -> str:
    """Return the pragmas that a variant's built-ins need before OpenCL C 3.0."""
    if variant != "sub_group" or language_options(device) == ("-cl-std=CL3.0",):
        return ""
    names = [name for name in SUB_GROUP_EXTENSIONS if name in device.extensions]
    return "".join(f"#pragma OPENCL EXTENSION {name} : enable\n" for name in names)

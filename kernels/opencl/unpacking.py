"""Emit how values are made of packed numbers."""

from __future__ import annotations

from chunkfold.kernels.accumulator.packing import Packing, alike_as_floats
from chunkfold.kernels.dtypes import STORED, literal

_MASKS = {"float": "int", "double": "long"}
"""Type of a mask that selects among values of a type."""


def held_type(stored: str) -> str:
    """Return the OpenCL C type of a number as it is read: narrow floats are widened."""
    return "float" if stored in ("float16", "bfloat16") else STORED[stored].storage


def unpacked_one(packing: Packing, read: str, stored: str, value: str) -> str:
    """Return the value of one number that was read."""
    wanted = STORED[value].value
    made = _scaled(packing, f"({wanted})({read})", value)
    missing = " || ".join(
        f"{read} == {first}" if first == last else f"({read} >= {first} && {read} <= {last})"
        for first, last in _missing(packing, stored)
    )
    return f"({missing} ? ({wanted})NAN : {made})" if missing else made


def unpacked_lanes(packing: Packing, read: str, converted: str, stored: str, value: str) -> str:
    """Return the values of lanes of numbers, given them as they were read and as values' dtype."""
    wanted, vector = STORED[value].value, f"CHF_VEC({held_type(stored)})"
    made = _scaled(packing, converted, value)
    missing = " | ".join(
        f"({read} == ({vector})({first}))"
        if first == last
        else f"(({read} >= ({vector})({first})) & ({read} <= ({vector})({last})))"
        for first, last in _missing(packing, stored)
    )
    if not missing:
        return made
    return f"select({made}, (CHF_VEC({wanted}))(NAN), CHF_TO({_MASKS[wanted]}, {missing}))"


def _scaled(packing: Packing, numbers: str, value: str) -> str:
    if packing.scale != 1.0:
        numbers = f"{numbers} * {literal(packing.scale, value)}"
    if packing.offset != 0.0:
        numbers = f"{numbers} + {literal(packing.offset, value)}"
    return numbers


def _missing(packing: Packing, stored: str) -> list[tuple[str, str]]:
    """Write the numbers that stand for nothing: where runs of them begin and end."""
    dtype = "float32" if held_type(stored) == "float" else stored
    runs = alike_as_floats(packing.missing, stored)
    return [(literal(first, dtype), literal(last, dtype)) for first, last in runs]

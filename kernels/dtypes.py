"""NumPy dtypes and their OpenCL C counterparts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from chunkfold.kernels.errors import DeviceError, MonoidError


@dataclass(frozen=True)
class Stored:
    """How elements of one dtype stand in memory and what `lift` sees of them."""

    storage: str
    """OpenCL C type of the buffer's elements."""
    value: str
    """OpenCL C type of the value handed to `lift`."""


STORED: Mapping[str, Stored] = MappingProxyType(
    {
        "bool": Stored("uchar", "uchar"),
        "int8": Stored("char", "char"),
        "uint8": Stored("uchar", "uchar"),
        "int16": Stored("short", "short"),
        "uint16": Stored("ushort", "ushort"),
        "int32": Stored("int", "int"),
        "uint32": Stored("uint", "uint"),
        "int64": Stored("long", "long"),
        "uint64": Stored("ulong", "ulong"),
        # vload_half is core OpenCL, so float16 needs no cl_khr_fp16.
        "float16": Stored("half", "float"),
        "float32": Stored("float", "float"),
        "float64": Stored("double", "double"),
    }
)
"""The element dtypes that kernels read."""

FIELD: Mapping[str, str] = MappingProxyType(
    {
        "int32": "int",
        "uint32": "uint",
        "int64": "long",
        "uint64": "ulong",
        "float32": "float",
        "float64": "double",
    }
)
"""The dtypes an accumulator's field may have: those that OpenCL's collectives know."""


def stored_name(dtype: np.dtype) -> str:
    """Return the canonical name of an element dtype.

    Raises
    ------
    DeviceError
        If kernels cannot read elements of `dtype`.
    """
    name = dtype.newbyteorder("=").name if dtype.kind in "biuf" else str(dtype)
    if name not in STORED:
        raise DeviceError(
            f"dtype {str(dtype)!r} cannot be reduced; supported are {', '.join(STORED)}"
        )
    return name


def sum_field(value: np.dtype, fp64: bool) -> str:
    """NumPy's accumulator for sums, but float64 for every float where the device has it."""
    if value.kind == "f":
        return "float64" if fp64 else "float32"
    return "uint64" if value.kind == "u" else "int64"


def mean_field(value: np.dtype, fp64: bool) -> str:
    """Like `sum_field`, but wider integers go to a float, where no sum can wrap."""
    if value.kind in "biu" and value.itemsize <= 2:
        return sum_field(value, fp64)
    return "float64" if fp64 else "float32"


def order_field(value: np.dtype, fp64: bool) -> str:  # noqa: ARG001 # every rule's signature
    """An integer that sorts like the value (`order_low` and `order_high` in kernels/order.clh)."""
    kind = "uint" if value.kind == "u" else "int"
    return f"{kind}{64 if value.itemsize == 8 else 32}"


RULES: Mapping[str, Callable[[np.dtype, bool], str]] = MappingProxyType(
    {"sum": sum_field, "mean": mean_field, "order": order_field}
)
"""Field dtypes that depend on the element's dtype and on fp64, by name."""


def field_dtype(rule: str, value: np.dtype, fp64: bool) -> str:
    """Resolve a field's dtype, given literally or as the name of a rule."""
    return RULES[rule](value, fp64) if rule in RULES else rule


def from_order(keys: np.ndarray, value: np.dtype) -> np.ndarray:
    """Turn order keys back into values of dtype `value`; the inverse of kernels/order.clh.

    Both keys that stand for NaN (the lowest and the highest) decode to NaN.
    """
    if value.kind != "f":
        return keys.astype(value)
    mask = np.array(np.iinfo(keys.dtype).max, keys.dtype)
    shift = np.array(keys.dtype.itemsize * 8 - 1, keys.dtype)
    bits = keys ^ ((keys >> shift) & mask)
    floats: np.ndarray = bits.view(f"f{keys.dtype.itemsize}").astype(value)
    return floats


def literal_value(value: float | str, dtype: str) -> int | float:
    """Resolve "lowest" and "highest" of a field's dtype; numbers stay as they are."""
    if isinstance(value, str):
        if value not in ("lowest", "highest"):
            raise MonoidError(f"a zero is a number, 'lowest' or 'highest', not {value!r}")
        if dtype.startswith("float"):
            return -math.inf if value == "lowest" else math.inf
        limits = np.iinfo(dtype)
        return int(limits.min if value == "lowest" else limits.max)
    return value


def literal(value: float | str, dtype: str) -> str:
    """Write `value` as an OpenCL C constant of a field's dtype, bit for bit.

    `value` is a number, or "lowest" or "highest" of the dtype (infinities for floats).

    >>> literal(0.1, "float64"), literal(-1, "int64"), literal("highest", "uint32")
    ('0x1.999999999999ap-4', '-1L', '4294967295U')
    """
    number = literal_value(value, dtype)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return _float_literal(float(number), dtype)
    limits = np.iinfo(kind)
    if number != number // 1 or not limits.min <= number <= limits.max:
        raise MonoidError(f"{number!r} is no {dtype}: give an integer in its range")
    suffix = ("U" if kind.kind == "u" else "") + ("L" if kind.itemsize == 8 else "")
    if int(number) == limits.min and kind.kind == "i":
        # C has no negative literals, and the positive one would not fit.
        return f"(-{limits.max}{suffix} - 1)"
    return f"{int(number)}{suffix}"


def _float_literal(number: float, dtype: str) -> str:
    if math.isnan(number):
        return "NAN"
    if math.isinf(number):
        return "INFINITY" if number > 0 else "-INFINITY"
    if dtype == "float32" and abs(number) > float(np.finfo(np.float32).max):
        raise MonoidError(f"{number!r} is no float32: it is beyond the dtype's range")
    return float(np.dtype(dtype).type(number)).hex() + ("f" if dtype == "float32" else "")

"""NumPy dtypes and their OpenCL C counterparts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from chunkfold.kernels.errors import DeviceError, MonoidError

_TABLE = re.compile(r"int64\[([1-9][0-9]{0,5})\]")


@dataclass(frozen=True)
class StoredDtype:
    """The form of one dtype's elements in memory, and of the values that `lift` gets."""

    storage: str
    """OpenCL C type of the buffer's elements."""
    value: str
    """OpenCL C type of the value handed to `lift`."""
    itemsize: int
    """Bytes of an element."""
    swap: int
    """Bytes that change places where the byte order is foreign: of a part of a complex number."""


STORED: Mapping[str, StoredDtype] = MappingProxyType(
    {
        "bool": StoredDtype("uchar", "uchar", 1, 1),
        "int8": StoredDtype("char", "char", 1, 1),
        "uint8": StoredDtype("uchar", "uchar", 1, 1),
        "int16": StoredDtype("short", "short", 2, 2),
        "uint16": StoredDtype("ushort", "ushort", 2, 2),
        "int32": StoredDtype("int", "int", 4, 4),
        "uint32": StoredDtype("uint", "uint", 4, 4),
        "int64": StoredDtype("long", "long", 8, 8),
        "uint64": StoredDtype("ulong", "ulong", 8, 8),
        # vload_half is core OpenCL, so float16 needs no cl_khr_fp16.
        "float16": StoredDtype("half", "float", 2, 2),
        "bfloat16": StoredDtype("ushort", "float", 2, 2),
        "float32": StoredDtype("float", "float", 4, 4),
        "float64": StoredDtype("double", "double", 8, 8),
        "complex64": StoredDtype("float2", "float2", 8, 4),
        "complex128": StoredDtype("double2", "double2", 16, 8),
        # datetime64 and timedelta64 of any unit: NaT is the least integer.
        "time": StoredDtype("long", "long", 8, 8),
    }
)
"""The element dtypes that kernels read."""
SUPPORTED = ", ".join(STORED).replace("time", "datetime64, timedelta64")

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


def kind_of(dtype: np.dtype) -> str:
    """Return NumPy's kind of an element dtype; bfloat16, which NumPy calls void, is a float.

    >>> kind_of(np.dtype("<f4")), kind_of(np.dtype("M8[ns]"))
    ('f', 'M')
    """
    return "f" if dtype.name == "bfloat16" else dtype.kind


def stored_name(dtype: np.dtype) -> str:
    """Return the canonical name of an element dtype.

    Raises
    ------
    DeviceError
        If kernels cannot read elements of `dtype`.
    """
    kind = kind_of(dtype)
    name = dtype.name if kind in "biufc" else "time" if kind in "mM" else str(dtype)
    if name not in STORED:
        raise DeviceError(f"dtype {str(dtype)!r} cannot be reduced; supported are {SUPPORTED}")
    return name


def sum_field(value: np.dtype, fp64: bool) -> str:
    """NumPy's accumulator for sums, but float64 for every float where the device has it."""
    if kind_of(value) in "fc":
        return "float64" if fp64 else "float32"
    return "uint64" if value.kind == "u" else "int64"


def mean_field(value: np.dtype, fp64: bool) -> str:
    """Like `sum_field`, but wider integers go to a float, where no sum can wrap."""
    if value.kind in "biu" and value.itemsize <= 2:
        return sum_field(value, fp64)
    return real_field(value, fp64)


def real_field(value: np.dtype, fp64: bool) -> str:  # noqa: ARG001 # every rule's signature
    """float64 where the device has it, for values of any kind."""
    return "float64" if fp64 else "float32"


def order_field(value: np.dtype, fp64: bool) -> str:  # noqa: ARG001 # every rule's signature
    """An integer that sorts like the value (`order_low` and `order_high`)."""
    kind = "uint" if value.kind == "u" else "int"
    return f"{kind}{64 if value.itemsize == 8 else 32}"


def bits_field(value: np.dtype, fp64: bool) -> str:
    """An unsigned integer with the bits of the value (`bits`)."""
    return f"u{order_field(value, fp64).removeprefix('u')}"


def count_field(value: np.dtype, fp64: bool) -> str:  # noqa: ARG001 # every rule's signature
    """int64, for values of any kind."""
    return "int64"


COUNT = "count"
"""Rule of a field that counts elements: one number for all outputs, unless some are skipped."""
RULES: Mapping[str, Callable[[np.dtype, bool], str]] = MappingProxyType(
    {
        "sum": sum_field,
        "mean": mean_field,
        "real": real_field,
        "order": order_field,
        "bits": bits_field,
        COUNT: count_field,
    }
)
"""Field dtypes that depend on the element's dtype and on fp64, by name."""


def field_dtype(rule: str, value: np.dtype, fp64: bool) -> str:
    """Resolve a field's dtype, given literally or as the name of a rule."""
    return RULES[rule](value, fp64) if rule in RULES else rule


EXACT = "exact"
"""Dtype of fields that sum without rounding (kernels/exact/polynomials.py)."""


def is_table(rule: str) -> bool:
    """Return True for the dtype of a table of counters."""
    return rule == EXACT or table_entries(rule) > 0


def table_entries(dtype: str) -> int:
    """Return the number of counters of a table's dtype; 0 if it is no table's.

    >>> table_entries("int64[12]"), table_entries("int64")
    (12, 0)
    """
    match = _TABLE.fullmatch(dtype)
    return int(match[1]) if match else 0


def from_order(keys: np.ndarray, value: np.dtype, *, high: bool) -> np.ndarray:
    """Turn order keys back into values of a dtype; the inverse of `order_low` and `order_high`.

    `high`: the keys are `order_high`'s, which differ for times. Both keys of NaN, the lowest
    and the highest, decode to NaN.
    """
    if value.kind in "mM":
        times: np.ndarray = (keys.view(np.uint64) + np.uint64(high)).view(value)
        return times
    if kind_of(value) != "f":
        return keys.astype(value)
    mask = np.array(np.iinfo(keys.dtype).max, keys.dtype)
    shift = np.array(keys.dtype.itemsize * 8 - 1, keys.dtype)
    bits = keys ^ ((keys >> shift) & mask)
    floats: np.ndarray = bits.view(f"f{keys.dtype.itemsize}").astype(value)
    return floats


def to_order(value: float, dtype: np.dtype) -> int:
    """Turn a value of a number's dtype into its key, both zeros into one (`rank_low`, `rank_high`).

    >>> to_order(-0.0, np.dtype("f4")), to_order(-1.5, np.dtype("f4")), to_order(7, np.dtype("i2"))
    (0, -1069547521, 7)
    """
    if kind_of(dtype) != "f":
        return int(value)
    width = 8 if dtype.itemsize == 8 else 4
    bits = int(np.array(value or 0.0, f"f{width}").view(f"i{width}"))
    return bits if bits >= 0 else bits ^ int(np.iinfo(f"i{width}").max)


def number_text(value: float | str) -> str:
    """Write a number, or "lowest" or "highest", so that texts are equal only if bits are.

    >>> number_text(-0.0), number_text(7), number_text("lowest")
    ('-0x0.0p+0', '7', 'lowest')
    """
    return value.hex() if isinstance(value, float) else str(value)


def literal_value(value: float | str, dtype: str) -> int | float:
    """Resolve "lowest" and "highest" of a field's dtype, and texts of numbers."""
    if not isinstance(value, str):
        return value
    if value in ("lowest", "highest"):
        if dtype.startswith("float"):
            return -math.inf if value == "lowest" else math.inf
        limits = np.iinfo(dtype)
        return int(limits.min if value == "lowest" else limits.max)
    try:
        return int(value)
    except ValueError:
        return float.fromhex(value)


def literal(value: float | str, dtype: str) -> str:
    """Write `value` as an OpenCL C constant of a field's dtype, bit for bit.

    `value` is a number or its text, or "lowest" or "highest" of the dtype (infinities for floats).

    >>> literal(0.1, "float64"), literal(-1, "int64"), literal("highest", "uint32")
    ('0x1.999999999999ap-4', '-1L', '4294967295U')
    """
    number = literal_value(value, dtype)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return _float_literal(float(number), dtype)
    limits = np.iinfo(kind)
    if number != number // 1 or not limits.min <= number <= limits.max:
        raise MonoidError(f"{number!r} does not fit {dtype}: give an integer in its range")
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
        raise MonoidError(f"{number!r} does not fit float32: it is beyond the dtype's range")
    return float(np.dtype(dtype).type(number)).hex() + ("f" if dtype == "float32" else "")

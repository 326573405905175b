"""Types, conversions and comparisons in OpenCL C, of one value or a vector of CHF_LANES."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

CTYPES = {
    "int8": "char", "uint8": "uchar", "int16": "short", "uint16": "ushort", "int32": "int",
    "uint32": "uint", "int64": "long", "uint64": "ulong", "float32": "float", "float64": "double",
}  # fmt: skip
"""OpenCL C's names of dtypes."""


# NumPy makes a dtype's name anew each time that it is asked for, and takes long.
@cache
def ctype(dtype: np.dtype) -> str:
    """Return OpenCL C's name of a dtype that has one."""
    return CTYPES[dtype.name]


@cache
def has_type(dtype: np.dtype) -> bool:
    """Return True for dtypes that kernels have."""
    return dtype.kind == "b" or dtype.name in CTYPES


_SIGNED = {1: "char", 2: "short", 4: "int", 8: "long"}


@dataclass(frozen=True)
class Style:
    """Writes types, conversions and comparisons of one value, or lanes (kernels/cl/vectors.clh)."""

    lanes: bool

    def type(self, dtype: np.dtype) -> str:
        """Return a type; of truths that of the integer of 1 byte."""
        return self._vector("char" if dtype.kind == "b" else ctype(dtype))

    def truth_type(self, size: int) -> str:
        """Return the type that holds a truth in so many bytes."""
        return self._vector(_SIGNED[size])

    def _vector(self, name: str) -> str:
        return f"CHF_VEC({name})" if self.lanes else name

    def number(self, text: str, dtype: np.dtype) -> str:
        """Return a number in every lane."""
        return f"({self.type(dtype)})({text})"

    def to(self, dtype: np.dtype, text: str) -> str:
        """Convert: integers wrap, floats round to nearest."""
        name = ctype(dtype)
        return f"CHF_TO({name}, {text})" if self.lanes else f"({name})({text})"

    def saturated(self, dtype: np.dtype, text: str) -> str:
        """Convert floats to integers: the nearest of their range, towards 0."""
        name = ctype(dtype)
        return f"CHF_SATURATED({name}, {text})" if self.lanes else f"convert_{name}_sat({text})"

    def towards_zero(self, dtype: np.dtype, text: str) -> str:
        """Convert integers to floats that are never further from zero."""
        name = ctype(dtype)
        return f"CHF_TOWARDS_ZERO({name}, {text})" if self.lanes else f"convert_{name}_rtz({text})"

    def bits(self, dtype: np.dtype, text: str) -> str:
        """Take the bits for those of another dtype of the same size."""
        name = ctype(dtype)
        return f"CHF_AS({name}, {text})" if self.lanes else f"as_{name}({text})"

    def to_signed(self, size: int, text: str) -> str:
        """Convert to the signed integer of so many bytes."""
        name = _SIGNED[size]
        return f"CHF_TO({name}, {text})" if self.lanes else f"({name})({text})"

    def truth_as(self, size: int, held: int, text: str) -> str:
        """Widen or narrow a truth of `held` bytes."""
        return text if size == held else self.to_signed(size, text)

    def compared(self, size: int, a: str, sign: str, b: str) -> str:
        """Compare two values of so many bytes: all bits are set where it holds."""
        if self.lanes:
            return f"CHF_TRUTH({_SIGNED[size]}, {a} {sign} {b})"
        return f"({_SIGNED[size]})-({a} {sign} {b})"

    def chosen(self, mask: str, yes: str, no: str) -> str:
        """Choose by a truth that is as wide as the values."""
        return f"select({no}, {yes}, {mask})" if self.lanes else f"({mask} ? {yes} : {no})"


ONE, LANES = Style(lanes=False), Style(lanes=True)

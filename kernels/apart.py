"""Two arrays of which no dtype holds the elements of both: compared exactly, in 128 bits.

A signed integer and uint64, which NumPy compares exactly and subtracts in float64; and times in two
units, which NumPy converts modulo 2**64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_CALENDAR = ("Y", "M")
"""Units of datetimes that have no fixed number of days."""


@dataclass(frozen=True)
class Pair:
    """Expressions, OpenCL C, of elements x0 and x1 of two arrays."""

    same: str
    """Whether they are equal; NaT equals NaT."""
    low: str
    """How far they are apart: the low 64 bits, unsigned."""
    high: str
    """The high 64 bits."""
    missing: str
    """Whether either is NaT."""


def are_apart(dtypes: Sequence[np.dtype]) -> bool:
    """Whether two arrays are compared as such a pair.

    >>> are_apart([np.dtype("i1"), np.dtype("u8")]), are_apart([np.dtype("i1"), np.dtype("u4")])
    (True, False)
    """
    if len(dtypes) != 2:
        return False
    kinds = "".join(dtype.kind for dtype in dtypes)
    if kinds in ("mm", "MM"):
        return np.datetime_data(dtypes[0]) != np.datetime_data(dtypes[1])
    unsigned = dtypes[kinds.find("u")]
    return kinds in ("iu", "ui") and unsigned.itemsize == 8


def pair_of(dtypes: Sequence[np.dtype]) -> Pair:
    """Return how elements of two dtypes are compared: both of integers, or both of times."""
    (low0, high0), (low1, high1) = (_wide(number, dtypes) for number in range(2))
    numbers = f"{low0}, {high0}, {low1}, {high1}"
    same, missing = f"({low0} == {low1} && {high0} == {high1})", "0"
    if dtypes[0].kind in "mM":
        missing = "(x0 == LONG_MIN || x1 == LONG_MIN)"
        same = f"({missing} ? x0 == x1 : {same})"
    return Pair(same, f"apart_low({numbers})", f"apart_high({numbers})", missing)


def _wide(number: int, dtypes: Sequence[np.dtype]) -> tuple[str, str]:
    """Return the two halves of an element's value, in 128 bits with a sign."""
    name, factor = f"x{number}", 1
    if dtypes[number].kind in "mM":
        name, factor = _in_common(name, dtypes[number], common_time(dtypes))
    if factor == 1:
        high = "0L" if dtypes[number].kind == "u" else f"({name} < 0 ? -1L : 0L)"
        return f"(ulong){name}", high
    return f"((ulong){name} * {factor}UL)", f"mul_hi({name}, {factor}L)"


def common_time(dtypes: Sequence[np.dtype]) -> np.dtype:
    """Return the dtype of times in the least unit that both are multiples of.

    Raises
    ------
    TypeError, OverflowError
        Where NumPy does: timedeltas of months have no number of days; factors have 64 bits.
    """
    common = np.result_type(*dtypes).newbyteorder("=")
    fixed = [dtype for dtype in dtypes if np.datetime_data(dtype)[0] not in _CALENDAR]
    if len(fixed) == 1:  # where NumPy may take weeks, and cut months off
        common = np.result_type(*fixed, "M8[D]").newbyteorder("=")
    for dtype in dtypes:
        _in_common("x", dtype, common)
    return common


def _in_common(name: str, given: np.dtype, common: np.dtype) -> tuple[str, int]:
    """Return what times are in another unit: an expression, and what it is multiplied by."""
    (unit, count), (other, other_count) = np.datetime_data(given), np.datetime_data(common)
    if unit == "generic":
        return name, 1
    if unit in _CALENDAR and other not in _CALENDAR:
        months = count * (12 if unit == "Y" else 1)
        return f"days({name}, {months}L)", _ratio(1, "D", other, other_count)
    return name, _ratio(count, unit, other, other_count)


def _ratio(count: int, unit: str, other: str, other_count: int) -> int:
    one: Any = np.timedelta64
    whole = int(one(count, unit).astype(f"m8[{other}]").astype(np.int64))
    return whole // other_count

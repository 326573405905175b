"""Pairs of arrays whose elements no dtype holds: compared exactly, in 128 bits.

A signed integer and uint64, which NumPy compares exactly and subtracts in float64; and times in two
units, which NumPy converts modulo 2**64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunkfold.kernels.catalogue.integers import NAT
from chunkfold.kernels.expressions.library import high_product, where
from chunkfold.kernels.expressions.symbols import Symbol

_CALENDAR = ("Y", "M")
"""Units of datetimes that have no fixed number of days."""


@dataclass(frozen=True)
class MixedPair:
    """Two elements, compared in 128 bits: symbols."""

    same: Symbol
    """True if they are equal; NaT equals NaT."""
    low: Symbol
    """The low 64 bits of their distance, unsigned."""
    high: Symbol
    """The high 64 bits of their distance, unsigned."""
    missing: Symbol
    """True if either is NaT."""


def are_mixed(dtypes: Sequence[np.dtype]) -> bool:
    """Return True if no dtype holds the elements of two arrays.

    >>> are_mixed([np.dtype("i1"), np.dtype("u8")]), are_mixed([np.dtype("i1"), np.dtype("u4")])
    (True, False)
    """
    if len(dtypes) != 2:
        return False
    kinds = "".join(dtype.kind for dtype in dtypes)
    if kinds in ("mm", "MM"):
        return np.datetime_data(dtypes[0]) != np.datetime_data(dtypes[1])
    unsigned = dtypes[kinds.find("u")]
    return kinds in ("iu", "ui") and unsigned.itemsize == 8


def compare_mixed(dtypes: Sequence[np.dtype], x0: Symbol, x1: Symbol) -> MixedPair:
    """Compare elements of two dtypes: both of integers, or both of times."""
    (low0, high0), (low1, high1) = (_wide(x, number, dtypes) for number, x in enumerate((x0, x1)))
    same = (low0 == low1) & (high0 == high1)
    missing = low0 != low0
    if dtypes[0].kind in "mM":
        missing = (x0 == NAT) | (x1 == NAT)
        same = where(missing, x0 == x1, same)
    # A difference of 128 bits, without its sign.
    high = high0.astype(np.uint64) - high1.astype(np.uint64) - (low0 < low1)
    below = high.astype(np.int64) < 0
    low = where(below, low1 - low0, low0 - low1)
    return MixedPair(same, low, where(below, ~high + (low0 == low1), high), missing)


def _wide(x: Symbol, number: int, dtypes: Sequence[np.dtype]) -> tuple[Symbol, Symbol]:
    """Return the two halves of an element's value, in 128 bits with a sign."""
    factor = 1
    if dtypes[number].kind in "mM":
        x, factor = _in_common(x, dtypes[number], common_time(dtypes))
    if factor == 1:
        high = where(x < 0, np.int64(-1), np.int64(0))
        return x.astype(np.uint64), high
    return x.astype(np.uint64) * np.uint64(factor), high_product(x, factor)


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
        _factor(dtype, common)
    return common


def _in_common(x: Symbol, given: np.dtype, common: np.dtype) -> tuple[Symbol, int]:
    """Return times in another unit, as a symbol and its factor."""
    factor = _factor(given, common)
    months = _months(given)
    return (days(x, months) if months and not _months(common) else x), factor


def _months(dtype: np.dtype) -> int:
    """Return the months of a unit; 0 of those that have a fixed number of days."""
    unit, count = np.datetime_data(dtype)
    return count * {"Y": 12, "M": 1}.get(unit, 0)


def _factor(given: np.dtype, common: np.dtype) -> int:
    (unit, count), (other, other_count) = np.datetime_data(given), np.datetime_data(common)
    if unit == "generic":
        return 1
    if _months(given) and not _months(common):
        return _ratio(1, "D", other, other_count)
    return _ratio(count, unit, other, other_count)


def days(time: Symbol, months: int) -> Symbol:
    """Return days from 1970 to the beginning of a time that counts `months` as one.

    Years begin with March, so that leap days end them (Hinnant, "chrono-compatible low-level date
    algorithms", 2013). Times whose days 64 bits would not hold are taken as the last that they do.
    """
    most = 2**58 // months
    clipped: Symbol = np.clip(time, -most, most)  # type: ignore[assignment]
    since_march = clipped * months + (1970 * 12 - 2)
    era = since_march // 4800
    month = since_march - era * 4800
    year = month // 12
    day = (153 * (month % 12) + 2) // 5 + year * 365 + year // 4 - year // 100
    return era * 146097 + day - 719468


def _ratio(count: int, unit: str, other: str, other_count: int) -> int:
    one: Any = np.timedelta64
    whole = int(one(count, unit).astype(f"m8[{other}]").astype(np.int64))
    return whole // other_count

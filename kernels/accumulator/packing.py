"""Packed values: small numbers that stand for others, and numbers that stand for none.

CF conventions 1.11, sections 2.5.1 (missing data) and 8.1 (packed data). As in xarray a value is
made by one multiplication and one addition, each rounded, in the dtype of the values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from chunkfold.kernels.dtypes import kind_of


@dataclass(frozen=True)
class Packing:
    """Conversion of stored numbers to values: integers or floats."""

    scale: float = 1.0
    offset: float = 0.0
    missing: tuple[int | float, ...] = ()
    """Stored numbers whose value is NaN; they are numbers of the stored dtype, none is NaN.

    Integers of 64 bits are compared with them as float64, so those that round alike are too."""
    stored: str | None = None
    """Integer dtype as which the stored bits are read, if it is another of the same size."""
    widens: bool = False
    """True if values are float64 although neither scale nor offset changes the numbers."""

    @staticmethod
    def packs(dtype: np.dtype) -> bool:
        """Return whether elements of a dtype can be packed values."""
        return kind_of(dtype) in "iuf"

    @property
    def scales(self) -> bool:
        """True if there is a scale or an offset, even one that changes no number."""
        return self.widens or (self.scale, self.offset) != (1.0, 0.0)

    @property
    def makes_floats(self) -> bool:
        """True if values are more than the stored integers read with another sign."""
        return self.scales or bool(self.missing)

    @property
    def alike(self) -> Packing:
        """Return one of the same form with numbers that all have: kernels for it are as fast."""
        return replace(
            self,
            scale=self.scale if self.scale == 1.0 else 0.5,
            offset=self.offset and 2.0,
            missing=tuple(range(2, 2 + len(self.missing))),
        )

    def stored_dtype(self, given: np.dtype) -> np.dtype:
        """Return the dtype as which elements of an array are read."""
        return given if self.stored is None else np.dtype(self.stored).newbyteorder(given.byteorder)

    def value_dtype(self, given: np.dtype) -> np.dtype:
        """Return the dtype of values that lose nothing: xarray's rule.

        >>> short = np.dtype("i2")
        >>> Packing(0.01).value_dtype(short), Packing(missing=(0,)).value_dtype(short)
        (dtype('float64'), dtype('float32'))
        """
        if not self.makes_floats:
            return self.stored_dtype(given).newbyteorder("=")
        if self.scales:
            return np.dtype(np.float64)
        if given.kind in "iu":
            return np.dtype(np.float32 if given.itemsize <= 2 else np.float64)
        return given.newbyteorder("=")

    def values(self, elements: np.ndarray) -> np.ndarray:
        """Return the values that elements of an array stand for; they lose nothing."""
        held = elements.view(self.stored_dtype(elements.dtype))
        return self.unpacked(held, self.value_dtype(elements.dtype))

    def unpacked(self, elements: np.ndarray, value: np.dtype) -> np.ndarray:
        """Return the values of elements, which are of the stored dtype, as kernels do."""
        values: np.ndarray = elements.astype(value)
        if self.scale != 1.0:
            values *= value.type(self.scale)
        if self.offset != 0.0:
            values += value.type(self.offset)
        if self.missing:
            if elements.dtype.kind in "iu" and elements.dtype.itemsize == 8:
                elements = elements.astype(np.float64)
            missing = np.array(self.missing, elements.dtype)
            alone = len(missing) == 1
            lacking = elements == missing[0] if alone else np.isin(elements, missing)
            values[lacking] = np.nan
        return values

    def __str__(self) -> str:
        times = "" if self.scale == 1.0 else f" * {self.scale!r}"
        plus = f" {'-' if self.offset < 0 else '+'} {abs(self.offset)!r}" if self.offset else ""
        none = f"; missing: {', '.join(map(str, self.missing))}" if self.missing else ""
        return f"{self.stored or 'stored'}{times}{plus}{none}"


def alike_as_floats(numbers: Iterable[int | float], dtype: str) -> list[tuple[int | float, ...]]:
    """Return runs, first and last, of the numbers of a dtype that xarray takes for any of some.

    It compares integers as the floats that they become: of 64 bits as float64, which holds every
    number below 2**53 only.

    >>> alike_as_floats([5, -(2**63) + 2], "int64")
    [(5, 5), (-9223372036854775808, -9223372036854775296)]
    """
    if dtype not in ("int64", "uint64"):
        return [(number, number) for number in numbers]
    ends = np.iinfo(dtype)
    runs = (_rounded_alike(int(number)) for number in numbers)
    cut = ((max(first, int(ends.min)), min(last, int(ends.max))) for first, last in runs)
    return list(dict.fromkeys(cut))


def _rounded_alike(number: int) -> tuple[int, int]:
    """Return the first and the last integer that is the same float64 as a number."""
    held = float(number)
    if abs(held) < 2**53:
        return number, number
    below, above = (int(math.nextafter(held, to)) for to in (-math.inf, math.inf))
    first, last = (int(held) + below) // 2, (int(held) + above + 1) // 2
    # Ties round to even, so the integers in the middle may be another float.
    return first + (float(first) != held), last - (float(last) != held)

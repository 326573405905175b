"""Convert the operands of exact arithmetic: numbers, arrays of numbers, and powers."""

from __future__ import annotations

import math
import numbers
from fractions import Fraction
from typing import Any

import numpy as np

from chunkfold.kernels.accumulator.exact_tree import Leaf

MOST_POWER = 64
"""The highest power: it is multiplied out."""
_ARRAYS = "?bBhHiIlLqQefd"
"""NumPy's characters of dtypes whose arrays are exact numbers."""
SHAPES = "exact numbers of shape {} meet an array of shape {}"


def leaf_of(number: Any, outputs: int) -> Leaf | None:
    """Return a number, or an array of as many as there are outputs, as exact numbers."""
    if isinstance(number, np.ma.MaskedArray) or (
        isinstance(number, np.generic | np.ndarray) and number.dtype.char not in _ARRAYS
    ):
        raise TypeError(
            f"exact numbers meet {type(number).__name__} of {number.dtype}: give integers, floats "
            "of 64 bits at most, or a Fraction"
        )
    if isinstance(number, np.generic) or (isinstance(number, np.ndarray) and not number.shape):
        number = number.item()
    if isinstance(number, np.ndarray):
        if number.shape != (outputs,):
            raise ValueError(SHAPES.format((outputs,), number.shape))
        return Leaf(number.astype(np.int8) if number.dtype.kind == "b" else number)
    if isinstance(number, numbers.Rational):
        return Leaf(Fraction(number))
    if isinstance(number, float):
        return Leaf(Fraction(number) if math.isfinite(number) else np.full(outputs, number))
    return None


def twice_of(power: Any) -> int | None:
    """Return twice a power that is whole, or that and a half, of a moderate size."""
    plain = isinstance(power, int | float | np.integer | np.floating)
    if not plain or isinstance(power, bool) or not abs(power) <= MOST_POWER:
        return None
    return int(2 * power) if float(2 * power).is_integer() else None

"""Integers of any size as results: in the dtype that is wanted, or an error."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chunkfold.kernels.accumulator.sums import IntegerSums
from chunkfold.kernels.errors import RangeError
from chunkfold.kernels.monoid.finish_context import Context

DIGIT = 32
"""Bits of a digit."""
MASK = (1 << DIGIT) - 1
"""Mask of an integer's lowest digit."""


def fitted(sums: IntegerSums, context: Context, what: str) -> np.ndarray:
    """Return exact sums of integers in the dtype of sums or the one wanted."""
    first, second, *higher = sums.digits
    if not higher:
        second, higher = second & MASK, [second >> DIGIT]
    whole: np.ndarray = second << DIGIT | first  # the low 64 bits
    *middle, top = higher
    wanted = wanted_integer(context)
    if wanted in (np.int64, np.uint64):
        sign = np.where(whole < 0, -1, 0) if wanted == np.int64 else np.zeros_like(whole)
        fits = top == sign
        for digit in middle:
            fits &= digit == sign & MASK
        if fits.all():
            return whole.view(wanted)
    return within(sums.numbers(), wanted, f"{what} of {context.dtype}")


def wanted_integer(context: Context) -> np.dtype:
    """Return the dtype of integers that are results."""
    if context.result is not None and context.result.kind in "iuO":
        return context.result
    return np.dtype(np.uint64 if context.dtype.kind == "u" else np.int64)


def within(values: Sequence[int], wanted: np.dtype, what: str) -> np.ndarray:
    """Return Python's integers in a dtype that must hold them; `what` names them in the error."""
    if wanted.kind == "O":
        return np.array(values, object)
    limits = np.iinfo(wanted)
    beyond = [value for value in values if not limits.min <= value <= limits.max]
    if beyond:
        raise RangeError(
            f"the {what} is {beyond[0]}, which {wanted} cannot hold ({limits.min} to "
            f"{limits.max}); dtype='object' gives Python's integers, dtype='float64' rounds"
        )
    return np.array(values, wanted)

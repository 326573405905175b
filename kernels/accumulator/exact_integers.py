"""Exact numbers to the nearest integers: rounded once, not to a float first."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from chunkfold.kernels.accumulator.exact_array import ExactArray
from chunkfold.kernels.exact.pieces import pieces_of


def nearest_integers(exact: ExactArray | np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the nearest integers, of halves the even ones; NaN is 0, what is beyond the ends them.

    A float that is no half and below 2**52 is on the side of each half that the number is on that
    it is the nearest float of: that decides. For others the number itself is asked.

    Parameters
    ----------
    exact
        Numbers, or floats, which are the numbers that they are.
    dtype
        Of integers.

    Returns
    -------
    Of that dtype, one for each output.

    >>> nearest_integers(np.array([1.5, -2.5, np.nan, 300.0]), np.dtype("int8")).tolist()
    [2, -2, 0, 127]
    """
    floats = exact.rounded(np.float64) if isinstance(exact, ExactArray) else exact
    ends, whole = np.iinfo(dtype), np.rint(floats)
    above = whole >= float(ends.max)  # which is one more than 64 bits hold
    held = np.where(above | np.isnan(whole), 0, np.maximum(whole, ends.min)).astype(dtype)
    done = np.where(above, dtype.type(ends.max), held)
    if isinstance(exact, ExactArray):
        with np.errstate(invalid="ignore"):
            asked = (np.abs(floats) >= 2.0**52) | (np.abs(floats - np.trunc(floats)) == 0.5)
        for few in pieces_of(np.flatnonzero(asked)):
            done[few] = [_within(ends, value) for value in exact.numbers(few)]
    return done


def _within(ends: np.iinfo, value: Fraction | float) -> int:
    if isinstance(value, Fraction):
        return min(max(round(value), int(ends.min)), int(ends.max))
    return int(ends.max if value > 0 else ends.min)

"""How far the fast mode's float sums may be from the exact ones."""

from __future__ import annotations

import math

import numpy as np


def sum_bound(
    count: int, magnitude: float, result: float, dtype: np.dtype, *, fp64: bool = True
) -> float:
    """Return the greatest error of a sum of `count` floats, in any order of additions.

    Parameters
    ----------
    count
        Number of addends.
    magnitude
        Sum of their absolute values.
    result
        The exact sum, or one close to it.
    dtype
        Float dtype of the result, which is rounded to once.
    fp64
        Whether every device has float64: additions are float32 otherwise.

    Notes
    -----
    Additions are float64: at most (count - 1) u / (1 - (count - 1) u) times the magnitude, with
    u = 2**-53, or 2**-24 where they are float32 (Higham, "Accuracy and Stability of Numerical
    Algorithms", 2002, eq. 4.4).
    Rounding to the result's dtype adds half its spacing.
    """
    growth = max(count - 1, 0) * (2.0**-53 if fp64 else 2.0**-24)
    if growth >= 1:
        return math.inf
    rounding = float(np.finfo(dtype).eps) / 2 * (1 + 2.0**-50)
    return growth / (1 - growth) * magnitude * (1 + rounding) + rounding * abs(result)

"""Windows of arrays on the host, along every axis: those at the ends of axes are smaller."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def reduced_windows(function: np.ufunc, values: np.ndarray, windows: Sequence[int]) -> np.ndarray:
    """Reduce each window by a function of two arrays; return a new array in C order.

    `windows` are elements of a window along each axis, 1 or more; they may be more than there are.
    """
    for axis, window in enumerate(windows):
        before = (slice(None),) * axis
        made = values[(*before, slice(0, None, window))].copy()
        for place in range(1, min(window, values.shape[axis])):
            others = values[(*before, slice(place, None, window))]
            some = made[(*before, slice(0, others.shape[axis]))]
            function(some, others, out=some)
        values = made
    return values

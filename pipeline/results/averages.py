"""Means of coordinates, window by window: where results of windows are."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import numpy as np

NUMBERS = "biufmM"
"""Kinds of dtypes that have means."""
_MICROSECOND = dt.timedelta(microseconds=1)
_COARSE = ("D", "h", "m", "s", "ms", "us")


def has_means(values: np.ndarray) -> bool:
    """Return True if values have means: numbers and dates do, texts do not."""
    return values.dtype.kind in NUMBERS or all(
        one is None or hasattr(one, "calendar") or isinstance(one, dt.date) for one in values.flat
    )


def averaged(values: np.ndarray, windows: Sequence[int]) -> np.ndarray:
    """Return the means of so many values along each axis, of those that are not missing.

    A last window may be shorter; 0 leaves an axis as it is. Means of integers are float64, those of
    times are rounded down to nanoseconds, or to their unit where these do not reach as far. Dates
    that are objects, such as those of cftime, have microseconds; None is missing.

    >>> averaged(np.array([1, 2, 3, 4, 6]), [2]).tolist()
    [1.5, 3.5, 6.0]
    """
    if not any(windows):
        return values
    if values.dtype.kind == "O":
        return _of_dates(values, windows)
    missing = np.isnat(values) if values.dtype.kind in "mM" else np.isnan(values)
    counts = _sums((~missing).astype(np.int64), windows)
    if values.dtype.kind in "mM":
        return _of_times(values, missing, counts, windows)
    floats = values.astype(
        np.result_type(values, np.float32) if values.dtype.kind == "f" else float
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        sums = _sums(np.where(missing, 0, floats).astype(np.float64), windows)
        means: np.ndarray = (sums / counts).astype(floats.dtype)
    return means


def _of_times(
    values: np.ndarray, missing: np.ndarray, counts: np.ndarray, windows: Sequence[int]
) -> np.ndarray:
    if missing.all():
        return np.full(counts.shape, "NaT", values.dtype)
    unit, divisors = np.datetime_data(values.dtype)[0], np.maximum(counts, 1)
    first = values[~missing].min()
    apart = (np.where(missing, first, values) - first).astype(np.int64)
    sums = _sums(apart, windows)
    if unit in _COARSE and (sums % divisors).any() and _fit(values[~missing]):
        return _of_times(values.astype(f"{values.dtype.kind}8[ns]"), missing, counts, windows)
    means = sums // divisors
    found: np.ndarray = (first + means.astype(f"m8[{unit}]")).astype(values.dtype)
    found[counts == 0] = np.array("NaT", values.dtype)
    return found


def _of_dates(values: np.ndarray, windows: Sequence[int]) -> np.ndarray:
    there = (values == values) & (values != np.array(None))  # NaT is not itself
    counts = _sums(there.astype(np.int64), windows)
    found = np.full(counts.shape, None, object)
    if not there.any():
        return found
    first, apart = values[there][0], np.zeros(values.shape, object)
    apart[there] = [(one - first) // _MICROSECOND for one in values[there]]
    sums = _sums(apart, windows)
    for place in zip(*counts.nonzero(), strict=True):
        found[place] = first + _MICROSECOND * (sums[place] // int(counts[place]))
    return found


def _fit(times: np.ndarray) -> bool:
    """Return True if nanoseconds can hold the times."""
    extremes = np.array([times.min(), times.max()])
    finer = extremes.astype(f"{times.dtype.kind}8[ns]").astype(times.dtype)
    return bool((finer == extremes).all())


def _sums(values: np.ndarray, windows: Sequence[int]) -> np.ndarray:
    for axis, window in enumerate(windows):
        if window and values.shape[axis]:
            starts = np.arange(0, values.shape[axis], window)
            values = np.add.reduceat(values, starts, axis=axis)
    return values

"""The ranks next to a quantile, by each of NumPy's methods.

The first nine are those of Hyndman and Fan, "Sample Quantiles in Statistical Packages", The
American Statistician 50 (1996); `n` and `q` broadcast, ranks count from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import numpy as np

Ranks = tuple[np.ndarray, np.ndarray]
"""The lower rank, int64, and the quantile's position between it and the next, from 0 to 1."""


def _between(at: np.ndarray) -> Ranks:
    lower = np.floor(at)
    return lower.astype(np.int64), at - lower


def _continuous(alpha: float, beta: float, n: np.ndarray, q: np.ndarray) -> Ranks:
    return _between(n * q + (alpha + q * (1 - alpha - beta)) - 1)


def _linear(n: np.ndarray, q: np.ndarray) -> Ranks:
    return _between((n - 1) * q)


def _inverted_cdf(n: np.ndarray, q: np.ndarray) -> Ranks:
    lower, rest = _between(n * q - 1)
    return lower, np.where(rest == 0, 0.0, 1.0)


def _averaged_inverted_cdf(n: np.ndarray, q: np.ndarray) -> Ranks:
    lower, rest = _between(n * q - 1)
    return lower, np.where(rest == 0, 0.5, 1.0)


def _closest_observation(n: np.ndarray, q: np.ndarray) -> Ranks:
    lower, rest = _between(n * q - 1.5)
    return lower, np.where((rest == 0) & (lower % 2 == 1), 0.0, 1.0)


def _lower(n: np.ndarray, q: np.ndarray) -> Ranks:
    return np.floor((n - 1) * q).astype(np.int64), np.zeros(np.broadcast(n, q).shape)


def _higher(n: np.ndarray, q: np.ndarray) -> Ranks:
    return np.ceil((n - 1) * q).astype(np.int64), np.zeros(np.broadcast(n, q).shape)


def _midpoint(n: np.ndarray, q: np.ndarray) -> Ranks:
    lower, rest = _between((n - 1) * q)
    return lower, np.where(rest == 0, 0.0, 0.5)


def _nearest(n: np.ndarray, q: np.ndarray) -> Ranks:
    return np.around((n - 1) * q).astype(np.int64), np.zeros(np.broadcast(n, q).shape)


METHODS: Mapping[str, Callable[[np.ndarray, np.ndarray], Ranks]] = MappingProxyType(
    {
        "inverted_cdf": _inverted_cdf,
        "averaged_inverted_cdf": _averaged_inverted_cdf,
        "closest_observation": _closest_observation,
        "interpolated_inverted_cdf": partial(_continuous, 0.0, 1.0),
        "hazen": partial(_continuous, 0.5, 0.5),
        "weibull": partial(_continuous, 0.0, 0.0),
        "linear": _linear,
        "median_unbiased": partial(_continuous, 1 / 3, 1 / 3),
        "normal_unbiased": partial(_continuous, 3 / 8, 3 / 8),
        "lower": _lower,
        "higher": _higher,
        "midpoint": _midpoint,
        "nearest": _nearest,
    }
)
"""NumPy's methods by name."""
CHOOSE = ("inverted_cdf", "closest_observation", "lower", "higher", "nearest")
"""Methods whose results are elements, and have their dtype."""
_EXACT = 2**53
"""Integers up to this one are float64s."""


def ranks(method: str, n: np.ndarray, q: np.ndarray) -> Ranks:
    """Return the ranks next to quantiles of n elements, from 0 to n - 1.

    >>> [one.tolist() for one in ranks("linear", np.array([4]), np.array([0.5]))]
    [[1], [0.5]]
    """
    lower, towards = METHODS[method](n, q)
    most = np.maximum(n, 1) - 1
    towards = np.where((lower < 0) | (lower >= most), 0.0, towards)
    return np.clip(lower, 0, most), towards


def interpolated(
    low: np.ndarray, high: np.ndarray, towards: np.ndarray, *, mean: bool = False
) -> np.ndarray:
    """Interpolate between two values, in float64.

    The result is infinite between a finite and an infinite value, and NaN between two different
    infinities. With `mean` it is the mean of both halfway, rounded once, as in NumPy's median:
    NumPy's quantiles may differ from it by a last place.

    >>> low, high = np.array([-(2**63)]), np.array([2**63 - 1])
    >>> interpolated(low, high, np.array([0.5]), mean=True).tolist()
    [-0.5]
    >>> interpolated(np.array([1.0]), np.array([np.inf]), np.array([0.75])).tolist()
    [inf]
    """
    middle = _means(low, high) if mean else None
    low, high = low.astype(np.float64), high.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        step = high - low
        found = np.where(towards < 0.5, low + step * towards, high - step * (1 - towards))
        weighed = low * (1 - towards) + high * towards
        found = np.where(np.isfinite(step), found, weighed)
    if middle is not None:
        found = np.where(towards == 0.5, middle, found)
    chosen = np.where(towards == 0, low, np.where(towards == 1, high, found))
    return np.where(low == high, low, chosen)


def _means(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the means of two values each, rounded once to float64."""
    with np.errstate(invalid="ignore", over="ignore"):
        both = low.astype(np.float64) + high.astype(np.float64)
        halves = low.astype(np.float64) / 2 + high.astype(np.float64) / 2
    found: np.ndarray = np.where(np.isfinite(both), both / 2, halves)
    if low.dtype.kind in "iu" and low.dtype.itemsize == 8:
        wide = (low < -_EXACT) | (high > _EXACT)  # which float64 may not hold
        found[wide] = (low[wide].astype(object) + high[wide].astype(object)) / 2
    return found

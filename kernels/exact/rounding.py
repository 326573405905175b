"""Round exact values once: to nearest, ties to even, also where they are subnormal or infinite."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from chunkfold.kernels.exact.limbs import FORMATS, SPECIALS, integers, settled
from chunkfold.kernels.exact.rationals import Real

_DIGITS = 5
"""Limbs of a quotient that are formed: 96 bits at least."""
SLAB = 1 << 14
"""Outputs that are divided at a time: what is made of more does not fit a cache."""


def quotients(tables: np.ndarray, low: int, divisors: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Divide what settled tables hold by whole numbers, rounded once.

    Parameters
    ----------
    tables
        Of shape (outputs, entries); in units of 2**low.
    divisors
        Of shape (outputs,), above zero.
    dtype
        Of the results, which have shape (outputs,).
    """
    if len(divisors) and divisors.max() >= 1 << 32:
        pairs = zip(integers(tables), divisors.tolist(), strict=True)
        return np.array([rounded_ratio(value, n, low, dtype) for value, n in pairs], dtype)
    out = np.empty(len(tables), dtype)
    for at in range(0, len(tables), SLAB):
        slab = slice(at, at + SLAB)
        out[slab] = _divided(tables[slab], low, divisors[slab], dtype)
    return out


def _divided(tables: np.ndarray, low: int, divisors: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Divide by whole numbers below 2**32."""
    negative = tables[:, -SPECIALS - 1] < 0
    # Limbs of the magnitude, the highest first, with zeros behind for windows that reach there.
    signed = tables[:, :-SPECIALS]
    flipped = settled(np.pad(np.where(negative[:, None], -signed, signed), ((0, 0), (0, SPECIALS))))
    digits = np.pad(flipped[:, -SPECIALS - 1 :: -1].astype(np.uint64), ((0, 0), (0, _DIGITS)))
    count = digits.shape[1] - _DIGITS
    top = np.argmax(digits != 0, axis=1)
    rows = np.arange(len(digits))
    # Schoolbook division, limb by limb: the rest is below the divisor, so nothing overflows.
    rest = np.zeros(len(digits), np.uint64)
    by = divisors.astype(np.uint64)
    parts = np.empty((_DIGITS, len(digits)), np.uint64)
    for n in range(_DIGITS):
        current = rest << np.uint64(32) | digits[rows, top + n]
        parts[n], rest = current // by, current % by
    below = np.cumsum(digits[:, ::-1] != 0, axis=1)[:, ::-1]
    sticky = (rest != 0) | (below[rows, top + _DIGITS] > 0)
    # The quotient's first limb may be zero, its second is not.
    first = np.where(parts[0] != 0, 0, 1)
    high, mid, lower, last = (parts[np.minimum(first + n, _DIGITS - 1), rows] for n in range(4))
    sticky |= last != 0
    sticky |= (first == 0) & (parts[4] != 0)
    exponent = 32 * (count - 1 - top - first) + low - 64
    magnitude = _nearest(high, mid, lower, sticky, exponent, dtype)
    return np.where(negative, -magnitude, magnitude).astype(dtype)


def _nearest(
    high: np.ndarray,
    mid: np.ndarray,
    lower: np.ndarray,
    sticky: np.ndarray,
    exponent: np.ndarray,
    dtype: np.dtype,
) -> np.ndarray:
    """Round (high << 64 | mid << 32 | lower) * 2**exponent and a little more if it is sticky."""
    form = FORMATS[dtype.name]
    u = np.uint64
    zeros = u(32) - np.frexp(high.astype(np.float64))[1].astype(u)
    zeros = np.where(high == 0, u(0), zeros)
    bits = (high << (u(32) + zeros)) | (mid << zeros) | (lower >> (u(32) - zeros))
    sticky = sticky | ((lower << zeros & u(0xFFFFFFFF)) != 0)
    exponent = exponent + 32 - zeros.astype(np.int64)
    drop = np.clip(np.maximum(64 - form.precision, form.least - exponent), 0, 66)
    kept = np.where(drop < 64, bits >> np.minimum(drop, 63).astype(u), u(0))
    half = u(1) << np.clip(drop - 1, 0, 63).astype(u)
    odd = (kept & u(1)) != 0
    above = ((bits & (half - u(1))) != 0) | sticky | odd
    up = (drop <= 64) & ((bits & half) != 0) & above
    with np.errstate(over="ignore"):
        scaled: np.ndarray = np.ldexp((kept + up).astype(np.float64), exponent + drop)
        return scaled.astype(dtype)


def nearest(value: Real, dtype: np.dtype, *, rooted: bool = False) -> float:
    """Round one number to the nearest float, or the root that has its sign."""
    if not isinstance(value, Fraction):
        return value
    over, under = abs(value.numerator), value.denominator
    size = rounded_root(over, under, 0, dtype) if rooted else rounded_ratio(over, under, 0, dtype)
    return -size if value < 0 else size


def rounded_ratio(numerator: int, denominator: int, low: int, dtype: np.dtype) -> float:
    """Return numerator / denominator * 2**low, rounded once to a dtype."""
    size = abs(numerator)
    if not size:
        return 0.0
    shift = 70 - (size.bit_length() - denominator.bit_length())
    scaled = size << shift if shift > 0 else size
    quotient, rest = divmod(scaled, denominator << -shift if shift < 0 else denominator)
    rounded = _rounded(quotient, bool(rest), low - shift, dtype)
    return -rounded if numerator < 0 else rounded


def rounded_root(numerator: int, denominator: int, low: int, dtype: np.dtype) -> float:
    """Return the square root of numerator / denominator * 2**low, rounded once to a dtype."""
    if not numerator:
        return 0.0
    shift = max(0, 140 - (numerator.bit_length() - denominator.bit_length()))
    shift += (low - shift) % 2
    quotient, rest = divmod(numerator << shift, denominator)
    whole = math.isqrt(quotient)
    inexact = bool(rest) or whole * whole != quotient
    return _rounded(whole, inexact, (low - shift) // 2, dtype)


def _rounded(value: int, sticky: bool, exponent: int, dtype: np.dtype) -> float:
    """Round value * 2**exponent, and a little more if it is sticky; value has 64 bits at least."""
    form = FORMATS[dtype.name]
    drop = max(value.bit_length() - form.precision, form.least - exponent)
    kept, half = value >> drop, value >> (drop - 1) & 1
    if half and (sticky or value & ((1 << (drop - 1)) - 1) or kept & 1):
        kept += 1
    try:
        wide = math.ldexp(kept, exponent + drop)
    except OverflowError:
        return math.inf
    with np.errstate(over="ignore"):
        return float(np.float64(wide).astype(dtype))


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

"""The reference for exact results: rationals, rounded once, by comparing neighbours."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np


def nearest(value: Fraction, dtype: str) -> np.floating:
    """Return the float of a dtype that is nearest to a rational; of two, the even one."""
    kind = np.dtype(dtype).type
    most, beyond = _ends(kind)
    if abs(value) >= beyond:
        return kind(-math.inf if value < 0 else math.inf)
    with np.errstate(over="ignore", under="ignore"):
        guess = kind(float(min(max(value, -most), most)))
        near = [guess, np.nextafter(guess, kind(-np.inf)), np.nextafter(guess, kind(np.inf))]
    off = {float(one): abs(Fraction(float(one)) - value) for one in near if np.isfinite(one)}
    least = min(off.values())
    best = [kind(one) for one, distance in off.items() if distance == least]
    found = next((one for one in best if not _odd(one)), best[0])
    return kind(math.copysign(found, -1 if value < 0 else 1))  # what underflows keeps its sign


def _ends(kind: type[np.floating]) -> tuple[Fraction, Fraction]:
    """Return the greatest finite value, and the least one that rounds to infinity."""
    most = np.finfo(kind).max
    step = Fraction(float(most)) - Fraction(float(np.nextafter(most, kind(0))))
    return Fraction(float(most)), Fraction(float(most)) + step / 2


def _odd(value: np.floating) -> bool:
    return bool(np.array([value]).view(f"u{value.dtype.itemsize}")[0] & 1)


def nearest_root(value: Fraction, dtype: str) -> np.floating:
    """Return the float of a dtype that is nearest to the square root of a rational."""
    kind = np.dtype(dtype).type
    most, beyond = _ends(kind)
    if value >= beyond**2:
        return kind(np.inf)
    with np.errstate(over="ignore", under="ignore"):
        scale = max(0, (value.denominator.bit_length() - value.numerator.bit_length()) // 2) + 600
        root = Fraction(math.isqrt(int(value * 4**scale)), 2**scale)
        low = kind(float(min(root, most)))
        if Fraction(float(low)) > root:
            low = np.nextafter(low, kind(-np.inf))
        high = np.nextafter(low, kind(np.inf))
    if not np.isfinite(high):
        return low
    middle = ((Fraction(float(low)) + Fraction(float(high))) / 2) ** 2
    if value == middle:
        return high if _odd(low) else low
    return low if value < middle else high


def sum_of(values: list[float]) -> Fraction | float:
    """Return the exact sum, or what infinities and NaN make of it."""
    odd = [value for value in values if not math.isfinite(value)]
    return sum(odd) if odd else Fraction(sum(map(scaled, values)), 1 << 1074)


def scaled(value: float) -> int:
    """Return a float in units of the least one there is."""
    over, under = value.as_integer_ratio()
    return over << 1075 - under.bit_length()


def moments(values: list[float]) -> tuple[Fraction, Fraction]:
    """Return the exact sum and sum of squares of finite values."""
    whole = [scaled(value) for value in values]
    return Fraction(sum(whole), 1 << 1074), Fraction(sum(x * x for x in whole), 1 << 2148)


def expected(op: str, values: list[float], dtype: str, ddof: int = 0) -> np.floating:
    """Return what a reduction of floats should be, to the bit."""
    kind = np.dtype(dtype).type
    n = len(values)
    if op in ("sum", "mean", "norm1"):
        total = sum_of([abs(x) for x in values] if op == "norm1" else values)
        if isinstance(total, float):
            return kind(total)
        if op == "mean" and not n:
            return kind(np.nan)
        return nearest(total / n if op == "mean" else total, dtype)
    if not all(map(math.isfinite, values)):
        if op in ("var", "std"):
            return kind(np.nan)
        return kind(math.inf if not any(map(math.isnan, values)) else math.nan)
    first, second = moments(values)
    if op == "sumsq":
        return nearest(second, dtype)
    if op == "norm2":
        return nearest_root(second, dtype)
    spread = n * second - first * first
    if n - ddof <= 0:
        return kind(np.inf if spread and n else np.nan)
    variance = spread / (n * (n - ddof))
    return nearest(variance, dtype) if op == "var" else nearest_root(variance, dtype)

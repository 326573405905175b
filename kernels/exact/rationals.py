"""Arithmetic on rationals, infinities and NaN, as IEEE 754 has it for floats, without rounding."""

from __future__ import annotations

import math
from fractions import Fraction

Real = Fraction | float
"""A number, or a float that is none: infinite or NaN. There is no -0."""


def exact_number(value: float | Fraction) -> Real:
    """Return a number as the rational that it is."""
    return Fraction(value) if isinstance(value, int | Fraction) or math.isfinite(value) else value


def _sign(value: Real) -> float:
    """Return the sign of a number; NaN and infinities stay."""
    if isinstance(value, Fraction):
        return float((value > 0) - (value < 0))
    return value


def add(a: Real, b: Real) -> Real:
    """Return a + b."""
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a + b
    return _summand(a) + _summand(b)


def _summand(value: Real) -> float:
    """Return NaN and infinities, and 0 for numbers, which do not change them."""
    return 0.0 if isinstance(value, Fraction) else value


def negative(a: Real) -> Real:
    """Return -a."""
    return multiply(a, Fraction(-1))


def absolute(a: Real) -> Real:
    """Return the absolute value."""
    return a if not a < 0 else negative(a)


def multiply(a: Real, b: Real) -> Real:
    """Return a * b."""
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a * b
    return _sign(a) * _sign(b)


def divided_by(a: Real, b: Real) -> Real:
    """Return a / b; by 0 it is infinite, or NaN."""
    if b == 0:
        return _sign(a) * math.inf
    if isinstance(b, Fraction):
        return a / b if isinstance(a, Fraction) else a * _sign(b)
    if math.isinf(b):
        return Fraction(0) if isinstance(a, Fraction) else math.nan
    return b


def compared(a: Real, b: Real) -> float:
    """Return -1, 0 or 1 as a is less than, equal to or greater than b; NaN if either is."""
    if a != a or b != b:
        return math.nan
    return float((a > b) - (a < b))

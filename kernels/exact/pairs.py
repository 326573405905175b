"""Arithmetic on reals that are known nearly: pairs of doubles, with a bound of the error.

It decides nearly all results that finishes make of exact sums (Ziv, as in
kernels/exact/ziv_rounding.py); rationals decide the others (kernels/exact/rationals.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from chunkfold.kernels.exact import ziv_rounding
from chunkfold.kernels.exact.ziv_rounding import Estimate, two_product, two_sum

_LEAST, _MOST = 2.0**-900, 2.0**960
"""Magnitudes between which products, quotients and their errors are doubles."""
_TINY = 2.0**-1000
"""More than what products of tails lose where they are no doubles any more."""
_MORE = 1 + 2.0**-48
"""Makes bounds of what is computed with a few roundings."""


@dataclass(frozen=True)
class Pairs:
    """Reals `high + low`, give or take `within`, of shape (outputs,) or (1,) for all alike.

    Operators give pairs. Division by 0 is infinite, or NaN.
    """

    high: np.ndarray
    """The double nearest to that sum."""
    low: np.ndarray
    within: np.ndarray
    odd: np.ndarray
    """float64: infinite or NaN where the real is that, else 0."""
    certain: np.ndarray
    """bool: whether all of it holds."""

    @property
    def sign(self) -> np.ndarray:
        """-1, 0 or 1; the signs of infinities, and NaN; of what is not `signed` anything."""
        sign: np.ndarray = np.where(self.odd == 0, np.sign(self.high), self.odd)
        return sign

    @property
    def signed(self) -> np.ndarray:
        """Return True where the sign is known."""
        known = (self.odd != 0) | (np.abs(self.high) > 2 * self.within) | self.none
        signed: np.ndarray = self.certain & known
        return signed

    @property
    def none(self) -> np.ndarray:
        """Return True where the real is 0."""
        nothing: np.ndarray = (self.high == 0) & (self.within == 0) & (self.odd == 0)
        return nothing

    @property
    def estimate(self) -> Estimate:
        """The same, for the last rounding: a bound that changes the low double if it is any."""
        seen = np.maximum(self.within, np.abs(self.low) * 2.0**-50)
        within = np.where(self.within == 0, 0.0, seen)
        return Estimate(self.high + 0.0, self.low, within, self.certain)

    @property
    def root(self) -> Estimate:
        """The roots of what is not below 0, for the last rounding."""
        near = ziv_rounding.estimated_root(self.estimate)
        return replace(near, certain=near.certain & ((self.high > _LEAST) | self.none))

    def __neg__(self) -> Pairs:
        return Pairs(-self.high, -self.low, self.within, -self.odd, self.certain)

    def __abs__(self) -> Pairs:
        sign = np.where(self.high < 0, -1.0, 1.0)
        certain = self.certain & (self.signed | (self.odd != 0))
        return Pairs(sign * self.high, sign * self.low, self.within, np.abs(self.odd), certain)

    def __add__(self, b: Pairs) -> Pairs:
        total, error = two_sum(self.high, b.high)
        tails, lost = two_sum(self.low, b.low)
        rest, lost_too = two_sum(error, tails)
        within = self.within + b.within + (np.abs(lost) + np.abs(lost_too))
        return _pairs(total, rest, within, self.odd + b.odd, self.certain & b.certain)

    def __mul__(self, b: Pairs) -> Pairs:
        product, error = two_product(self.high, b.high)
        one, other = self.high * b.low, self.low * b.high
        cross = one + other
        rest, lost = two_sum(error, cross)
        tails = (self.low != 0) | (b.low != 0)
        within = np.abs(lost) + (np.abs(one) + np.abs(other)) * 2.0**-51
        within = within + np.abs(self.low * b.low) + np.where(tails, _TINY, 0.0)
        within = within + self.within * (np.abs(b.high) * _MORE + b.within)
        within = within + b.within * np.abs(self.high) * 2
        size, nothing = np.abs(product), self.none | b.none
        inside = (size > _LEAST) & (size < _MOST)
        inside &= (np.abs(self.high) < _MOST) & (np.abs(b.high) < _MOST)
        odd, known = _odd(self, b, np.multiply)
        product, rest, within = (np.where(nothing, 0.0, one) for one in (product, rest, within))
        certain = self.certain & b.certain & (inside | nothing | (odd != 0)) & known
        return _pairs(product, rest, within, odd, certain)

    def __truediv__(self, b: Pairs) -> Pairs:
        nothing = b.none
        infinite = np.isinf(b.odd)
        by = np.where((b.high == 0) | infinite, 1.0, b.high)
        first = self.high / by
        divisor = Pairs(by, b.low, b.within, b.odd, b.certain)
        rest = self + -(_double(first) * divisor)
        second = rest.high / by
        left = rest + -(_double(second) * divisor)
        size = np.abs(by)
        within = (np.abs(left.high) + np.abs(left.low) + left.within) / size * (1 + 2.0**-18)
        odd, known = _odd(self, b, np.divide)
        zero = self.none | (infinite & (self.odd == 0))
        first, second, within = (np.where(zero, 0.0, one) for one in (first, second, within))
        # The rest may be too small for its error to be known; then it is for the rationals.
        fine = left.certain | zero
        fine &= (b.within < size * 2.0**-20) & ((np.abs(first) > _LEAST) | zero)
        certain = self.certain & b.certain & known & (fine | (odd != 0) | nothing)
        return _pairs(first, second, within, odd, certain)


def _pairs(
    high: np.ndarray, low: np.ndarray, within: np.ndarray, odd: np.ndarray, certain: np.ndarray
) -> Pairs:
    """Normalise, and see that nothing has left the range of doubles."""
    high, low = two_sum(high, low)
    inside = np.abs(high) < _MOST  # sums, however small, are doubles and have errors that are
    ordinary = odd == 0
    high, low, within = (np.where(ordinary, one, 0.0) for one in (high, low, within))
    return Pairs(high, low, within * _MORE, odd, certain & (inside | ~ordinary))


def of_terms(terms: Sequence[np.ndarray], wide: np.ndarray) -> Pairs:
    """Take expansions, whose terms are settled; those that are `wide` are not known."""
    high, *tail = terms
    low = tail[0] if tail else np.zeros_like(high)
    within = np.zeros_like(high)
    for term in tail[1:]:
        within = within + np.abs(term)
    odd = np.where(np.isfinite(high), 0.0, high)
    return _pairs(high, low, within, odd, ~wide)


def of_numbers(numbers: np.ndarray) -> Pairs:
    """Take integers, or floats as the numbers that they are."""
    high = numbers.astype(np.float64)
    low = np.zeros_like(high)
    if numbers.dtype.kind in "iu":
        low = _behind(numbers, high)
    odd = np.where(np.isfinite(high), 0.0, high)
    return _pairs(high, low, np.zeros_like(high), odd, np.ones(high.shape, bool))


def _behind(whole: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return what rounding to doubles took from integers."""
    if not len(whole) or max(int(whole.max()), -int(whole.min())) < 1 << 53:
        return np.zeros_like(high)
    return np.array([n - int(h) for n, h in zip(whole.tolist(), high.tolist(), strict=True)], float)


def of_one(number: Fraction) -> Pairs:
    """Take one number, for all outputs."""
    try:
        high = float(number)
    except OverflowError:
        high = np.inf
    certain = bool(np.isfinite(high))
    rest = number - Fraction(high) if certain else Fraction(0)
    low = float(rest)
    within = float(abs(rest - Fraction(low))) * _MORE + (_TINY if rest != Fraction(low) else 0)
    leading = np.array([high if certain else 0.0])
    return _pairs(leading, np.array([low]), np.array([within]), np.zeros(1), np.array([certain]))


def _double(high: np.ndarray) -> Pairs:
    """Take finite doubles as they are."""
    nothing = np.zeros_like(high)
    return Pairs(high, nothing, nothing, nothing, nothing == 0)


def _odd(
    a: Pairs, b: Pairs, function: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return what is no number of a product or quotient, and whether that is known."""
    special = (a.odd != 0) | (b.odd != 0)
    if function is np.divide:
        special = special | b.none
    if not special.any():
        return np.zeros(special.shape), np.ones(special.shape, bool)
    made = function(a.sign + 0.0, b.sign + 0.0)
    odd = np.where(special & ~np.isfinite(made), made, 0.0)
    return odd, ~special | (a.signed & b.signed)


def unless_negative(a: Pairs) -> Pairs:
    """Return what is not below 0; NaN for others."""
    odd = np.where(a.signed & (a.sign < 0), np.nan, a.odd)
    return Pairs(a.high, a.low, a.within, odd, a.certain & a.signed)


def chosen_pairs(condition: np.ndarray, a: Pairs, b: Pairs) -> Pairs:
    """Return a where a condition holds, else b."""
    parts = zip(
        (a.high, a.low, a.within, a.odd, a.certain),
        (b.high, b.low, b.within, b.odd, b.certain),
        strict=True,
    )
    return Pairs(*(np.where(condition, one, other) for one, other in parts))

"""Arithmetic on expansions that knows its error: results that are certain to round right.

Rounding exact sums by integers takes microseconds an output. Nearly all are decided by a leading
double and an estimate of what is left, with a bound: only the others need the integers (Ziv, "Fast
evaluation of elementary mathematical functions with correctly rounded last bit", 1991).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_SPLIT = 134217729.0  # 2**27 + 1
_LEAST, _MOST = 2.0**-900, 2.0**960
"""Magnitudes between which products, quotients and their errors are doubles."""
KNOWN = 2.0**-51
"""Relative error of a leading double that has been rounded twice, by half a unit each."""
_ROUNDED = ("float16", "float32", "float64")
"""Dtypes that NumPy rounds doubles to in one step."""


@dataclass(frozen=True)
class Estimate:
    """Reals: `value + off`, give or take `within`; value is the double nearest to that sum."""

    value: np.ndarray
    off: np.ndarray
    within: np.ndarray
    certain: np.ndarray
    """bool: whether that holds; outside the range of doubles it does not."""

    def rounded(self, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        """Round to nearest; return the results, and which of them are certain."""
        if dtype.name not in _ROUNDED:
            return np.zeros(len(self.value), dtype), np.zeros(len(self.value), bool)
        low, high = self.off - self.within, self.off + self.within
        if dtype == np.float64:
            sure = (self.value + low == self.value) & (self.value + high == self.value)
            return self.value, sure & self.certain
        # Towards zero, and odd unless exact: then another rounding, to fewer bits, is as the first.
        sure = (low > 0) | (high < 0) | ((self.off == 0) & (self.within == 0))
        bits = self.value.view(np.int64)
        bits = bits - ((self.off != 0) & ((self.off < 0) == (self.value > 0)))
        return (bits | (self.off != 0)).view(np.float64).astype(dtype), sure & self.certain


def narrowed(leading: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Round reals of which only leading doubles are known, to `KNOWN` of them, to fewer bits.

    Return the results, and which of them are certain: of both ends of the interval they are alike.
    """
    if dtype.name not in _ROUNDED:
        return np.zeros(len(leading), dtype), np.zeros(len(leading), bool)
    low, high = (leading * (1 - KNOWN)).astype(dtype), (leading * (1 + KNOWN)).astype(dtype)
    return low, (low == high) & ((np.abs(leading) > _LEAST) | (leading == 0))


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sum and its error (Knuth, *The Art of Computer Programming* 2, 4.2.2)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the product and its error (Dekker, "A floating-point technique", 1971)."""
    product = a * b
    (ah, al), (bh, bl) = _halves(a), _halves(b)
    return product, ((ah * bh - product) + ah * bl + al * bh) + al * bl


def _halves(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    wide = _SPLIT * a
    high = wide - (wide - a)
    return high, a - high


def estimated_quotient(
    terms: Sequence[np.ndarray], by: np.ndarray, within: np.ndarray | float = 0.0
) -> Estimate:
    """Divide sums of terms, known to `within`, by doubles that are whole and above zero."""
    first, *tail = terms
    value = first / by
    product, error = two_product(value, by)
    rest = (first - product) - error
    size = np.abs(rest)
    for term in reversed(tail):
        rest, lower = two_sum(rest, term)
        rest = rest + lower
        size = size + np.abs(term)
    size = np.where(size == 0, 0.0, size * 2.0**-49) + within
    total, off = two_sum(value, rest / by)
    inside = (np.abs(first) < _MOST) & (np.abs(value) > _LEAST) & (by < 2.0**53)
    return Estimate(total, off, size / by * (1 + 2.0**-50), inside | (first == 0))


def estimated_root(of: Estimate) -> Estimate:
    """Take square roots of what is not negative."""
    value = np.sqrt(of.value)
    product, error = two_product(value, value)
    rest = ((of.value - product) - error) + of.off
    scale = np.where(value == 0, 1.0, 2 * value)
    step = rest / scale
    within = of.within + np.abs(rest) * 2.0**-50 + step * step * 2
    total, off = two_sum(value, step)
    return Estimate(total, off, within / scale * (1 + 2.0**-50), of.certain)


def leading_spread(n: np.ndarray, s: Sequence[np.ndarray], q: Sequence[np.ndarray]) -> np.ndarray:
    """Return n * sum(q) - sum(s)**2 of counts and expansions, NaN where it is not known well.

    Else to 3/4 of 2**-52, so that of a quotient of it, and of the root of that, `KNOWN` holds: half
    a unit is the last addition's, and the rest is less than 2**-100 of both products, of which so
    much as 2**46 may cancel. Terms behind the second, and what the sum of small ones loses, are
    less than 2**-102 of them.
    """
    (more, more_off), (less, less_off) = two_product(n, q[0]), two_product(s[0], s[0])
    value, off = two_sum(more, -less)
    value = value + (off + ((more_off - less_off) + (n * q[1] - 2 * s[0] * s[1])))
    size = more + less
    known = (size < 2.0**46 * value) & (size < _MOST)
    known &= (more > _LEAST) & ((less > _LEAST) | (s[0] == 0))
    return np.where(known, value, np.nan)


def spread(n: np.ndarray, s: Sequence[np.ndarray], q: Sequence[np.ndarray]) -> Estimate:
    """Return n * sum(q) - sum(s)**2 of counts and expansions: products and errors, distilled."""
    fine = np.ones(len(n), bool)
    parts = []
    s = [term for term in s if term.any()]
    pairs = [(n, term) for term in q if term.any()]
    pairs += [(-a if a is b else -2 * a, b) for k, a in enumerate(s) for b in s[k:]]
    for a, b in pairs:
        product, error = two_product(a, b)
        size = np.abs(product)
        fine &= (a == 0) | (b == 0) | ((size > _LEAST) & (size < _MOST))
        parts += [product, error]
    if not parts:
        nothing = np.zeros(len(n))
        return Estimate(nothing, nothing, nothing, fine)
    for _ in range(3):
        for k in range(len(parts) - 1, 0, -1):
            parts[k - 1], parts[k] = two_sum(parts[k - 1], parts[k])
    rest = size = np.zeros(len(n))
    for part in reversed(parts[1:]):
        rest, size = rest + part, size + np.abs(part)
    return Estimate(*two_sum(parts[0], rest), size * (len(parts) * 2.0**-52), fine)

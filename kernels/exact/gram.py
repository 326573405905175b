"""Exact sums of products of every pair of rows: numbers are cut into digits that BLAS adds up.

Digits stand on one grid of powers of two, so that products of two are integers, and so are sums of
some of them, which a float64 holds (Ozaki, Ogita, Oishi and Rump, "Error-free
transformations of matrix multiplication by using fast routines of matrix multiplication and its
applications", Numerical Algorithms 59, 2012).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

DIGIT = 18
"""Bits of a digit: 2 ** (2 * 19 + 15) is 2**53, as two digits of an integer may be added."""
MOST = 1 << 15
"""Columns whose products are added up at a time."""
_SETTLED = 1 << 9
"""Times that such sums fit an int64."""
DigitArrays = dict[int, np.ndarray]
"""Whole numbers as float64, by their places: units of 2 ** (DIGIT * place)."""


class Gram:
    """Sums of products of so many rows, and of each row: of columns that come in any order."""

    def __init__(self, rows: int) -> None:
        self.odd = np.zeros(rows, bool)
        """Rows with infinities or NaN, whose sums are not kept."""
        self.columns = 0
        self._sums: dict[tuple[int, int], np.ndarray] = {}
        self._added: dict[tuple[int, int], np.ndarray] = {}
        self._times = 0

    def add(self, rows: np.ndarray) -> None:
        """Take columns in: (rows, columns), of truths, integers or floats."""
        for first in range(0, rows.shape[1], MOST):
            self._add(rows[:, first : first + MOST])
        self.columns += rows.shape[1]

    def _add(self, rows: np.ndarray) -> None:
        digits: DigitArrays = {0: np.zeros((len(rows) + 1, rows.shape[1]))}
        digits[0][-1] = 1  # sums are products with ones
        for terms in _floats(rows):
            finite = np.isfinite(terms)
            self.odd |= ~finite.all(axis=1)
            for place, found in _digits(np.where(finite, terms, 0)):
                if place not in digits:
                    digits[place] = np.zeros_like(digits[0])
                digits[place][:-1] += found
        places = sorted(digits)
        for n, one in enumerate(places):
            for other in places[n:]:
                made = (digits[one] @ digits[other].T).astype(np.int64)
                held = self._added.get((one, other))
                self._added[one, other] = made if held is None else held + made
        self._times += 1
        if self._times == _SETTLED:
            self._settle()

    def _settle(self) -> None:
        for pair, added in self._added.items():
            whole = added.astype(object)
            self._sums[pair] = self._sums[pair] + whole if pair in self._sums else whole
        self._added, self._times = {}, 0

    def sums(self) -> tuple[np.ndarray, np.ndarray, int]:
        """Return sums of products, of rows, and their unit.

        Returns
        -------
        Python's integers of shape (rows, rows) in units of 2 ** (2 * low), and of shape (rows,) in
        units of 2**low; and low.
        """
        self._settle()
        least = min((one for one, _ in self._sums), default=0)
        rows = len(self.odd)
        total = np.zeros((rows + 1, rows + 1), object)
        for (one, other), sums in self._sums.items():
            both = sums if one == other else sums + sums.T
            total = total + both * (1 << DIGIT * (one + other - 2 * least))
        alone = np.array([int(value) >> -DIGIT * least for value in total[-1, :-1]], object)
        return total[:-1, :-1], alone, DIGIT * least


def _floats(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Yield float64 that make numbers together, each without rounding."""
    if rows.dtype.kind in "iu" and rows.dtype.itemsize == 8:
        yield np.ldexp((rows >> 32).astype(np.float64), 32)
        yield (rows & 0xFFFFFFFF).astype(np.float64)
    else:
        yield rows.astype(np.float64)


def _digits(values: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the digits of float64, and their places, from the highest on."""
    rest = values
    while (most := float(np.abs(rest).max(initial=0))) > 0:
        place = (int(np.frexp(most)[1]) - 1) // DIGIT
        digit = np.trunc(np.ldexp(rest, -DIGIT * place))
        yield place, digit
        rest = rest - np.ldexp(digit, DIGIT * place)

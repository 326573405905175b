"""Histograms whose bins hold sums of weights: exact, as integers that are added in any order.

A weight is a few digits of 24 bits, and a bin has a counter for each digit that any weight may have
(Kulisch, "Computer Arithmetic and Validity", 2008, ch. 8). 2**38 weights fit a counter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from chunkfold.kernels.catalogue.finish_functions import with_shares
from chunkfold.kernels.catalogue.integer_results import within
from chunkfold.kernels.dtypes import kind_of
from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.exact.limbs import SPECIALS, specials
from chunkfold.kernels.exact.rounding import quotients
from chunkfold.kernels.expressions.library import signed_bits, where
from chunkfold.kernels.expressions.symbols import Symbol
from chunkfold.kernels.monoid.accumulate import SymbolFunction
from chunkfold.kernels.monoid.finish_context import Context, Fields
from chunkfold.kernels.monoid.monoid import Monoid
from chunkfold.kernels.monoid.specialise import Specialised, for_each_dtype

DIGIT = 24
"""Bits of a digit; four of them are three limbs."""
_MASK = (1 << DIGIT) - 1
_MOST_COUNTERS = 999_999
Placed = tuple[Symbol | int, Symbol | int]
"""A counter of a bin, -1 for none, and its addend."""


@dataclass(frozen=True)
class WeightDigits:
    """The counters that hold sums of weights of a dtype."""

    count: int
    """Digits; behind them floats have counters of NaN, infinity and minus infinity."""
    low: int
    """Digit 0's least bit is 2**low."""
    floats: bool

    @property
    def counters(self) -> int:
        """Counters of a bin."""
        return self.count + SPECIALS * self.floats


def digits_of(dtype: np.dtype) -> WeightDigits:
    """Return the counters for weights of a dtype, as kernels have its values."""
    if kind_of(dtype) == "f":
        mantissa, top, low = (52, 2045, -1074) if dtype.itemsize == 8 else (23, 253, -149)
        return WeightDigits(top // DIGIT + mantissa // DIGIT + 2, low, floats=True)
    return WeightDigits(-(-8 * dtype.itemsize // DIGIT), 0, floats=False)


def weight_digits(w: Symbol) -> list[Placed]:
    """Return the addends of a weight, by the counters of its bin."""
    if w.dtype.kind != "f":
        return _of_integer(w)
    held, mantissa = signed_bits(w), 52 if w.dtype.itemsize == 8 else 23
    size = held & int(np.iinfo(held.dtype).max)
    exponent, fraction = size >> mantissa, size & ((1 << mantissa) - 1)
    whole = where(exponent > 0, fraction | (1 << mantissa), fraction).astype(np.int64)
    at: Any = np.maximum(exponent, 1).astype(np.int64) - 1
    first: Any = (at * 2731) >> 16  # at // 24, of what is below 2**13
    shift = at - first * DIGIT
    sign = where(held < 0, np.int64(-1), np.int64(1))
    pieces = [(whole >> n) & _MASK for n in range(0, mantissa + 1, DIGIT)]
    parts: list[Any] = [np.int64(0)] * (len(pieces) + 1)
    for n, piece in enumerate(pieces):
        moved = piece << shift
        parts[n] = parts[n] + (moved & _MASK)
        parts[n + 1] = parts[n + 1] + (moved >> DIGIT)
    odd = exponent == int(np.iinfo(held.dtype).max) >> mantissa
    kind = where(fraction != 0, np.int64(0), where(held < 0, np.int64(2), np.int64(1)))
    beyond = kind + digits_of(w.dtype).count
    found: list[Placed] = [(where(odd, beyond, first), where(odd, np.int64(1), sign * parts[0]))]
    for n, part in enumerate(parts[1:], start=1):
        found.append((where(odd | (part == 0), np.int64(-1), first + n), sign * part))
    return found


def _of_integer(w: Symbol) -> list[Placed]:
    """Return the addends of an integer; the last digit has the sign."""
    wide = w.astype(np.uint64 if w.dtype.kind == "u" else np.int64)
    last = digits_of(w.dtype).count - 1
    lower: list[Placed] = [
        (n, ((wide >> (DIGIT * n)) & _MASK).astype(np.int64)) for n in range(last)
    ]
    return [*lower, (last, (wide >> (DIGIT * last)).astype(np.int64))]


def weighing(bins: int, bin_of: SymbolFunction, ends: Any, *, density: bool) -> Monoid:
    """Return the histogram whose bins hold sums of weights.

    `bin_of` returns an element's bin, -1 for none; `ends` returns the bins of sums and their edges.

    Raises
    ------
    MonoidError
        If there are too many bins.
    """

    def of(dtype: np.dtype, specialised: Specialised | None = None) -> Monoid:
        each = digits_of(dtype).counters
        if bins * each > _MOST_COUNTERS:
            raise MonoidError(
                f"{bins:,} bins of weights of {dtype} are too many; take at most "
                f"{_MOST_COUNTERS // each:,}"
            )

        def lift(x: Symbol, w: Symbol) -> Any:
            number = bin_of(x) * np.int64(each)
            return [
                (where((number < 0) | (place < 0), np.int64(-1), number + place), amount)
                for place, amount in weight_digits(w)
            ]

        return Monoid(
            "weighted_density" if density else "weighted_histogram",
            inputs=2,
            weights=1,
            fields={"counts": f"int64[{bins * each}]"},
            zero=0,
            lift=lift,
            op="add",
            casts=False,
            last_axis=None if density else "bin",
            finish=partial(_finished, bins, ends, density=density),
            specialised=specialised,
        )

    return of(np.dtype(np.float64), for_each_dtype(of))


def _finished(
    bins: int, ends: Any, fields: Fields, context: Context, *, density: bool
) -> np.ndarray:
    counts = fields["counts"].reshape(len(fields["counts"]), bins, -1)
    sums = _sums(counts, context)
    left, right, held = ends(counts.any(axis=(0, 2)))
    if density:
        return with_shares(left, right, sums[:, held])
    records = np.empty(
        sums[:, held].shape, [("left", "f8"), ("right", "f8"), ("weight", sums.dtype)]
    )
    records["left"], records["right"], records["weight"] = left, right, sums[:, held]
    return records


def _sums(counts: np.ndarray, context: Context) -> np.ndarray:
    """Return the sums of (outputs, bins, counters): floats of the weights' dtype, or integers."""
    how, given = digits_of(_held(context.dtype)), context.inputs[1]
    rows = counts.reshape(-1, counts.shape[2])
    if kind_of(given) != "f":
        values = whole(rows[:, : how.count], how.low)
        wanted = np.dtype(np.uint64 if given.kind == "u" else np.int64)
        return within(values, wanted, f"sum of weights of {given}").reshape(counts.shape[:2])
    ones = np.ones(len(rows), np.int64)
    tables = np.concatenate([_limbs(rows[:, : how.count]), rows[:, how.count :]], axis=1)
    odd = specials(tables)
    done = quotients(tables, how.low, ones, given)
    return np.where(odd == 0, done, odd.astype(given)).astype(given).reshape(counts.shape[:2])


def _held(dtype: np.dtype) -> np.dtype:
    """Return the dtype that kernels hold values in: halves as float32."""
    return np.dtype(np.float32) if kind_of(dtype) == "f" and dtype.itemsize < 4 else dtype


def whole(rows: np.ndarray, low: int) -> Sequence[int]:
    """Return the integers of digits; weights that kernels had as floats are whole numbers."""
    values = [sum(digit << DIGIT * n for n, digit in enumerate(row)) for row in rows.tolist()]
    return [value >> -low for value in values]


def _limbs(digits: np.ndarray) -> np.ndarray:
    """Return limbs of 32 bits, settled, of digits of 24 that are not: (rows, limbs)."""
    count = -(-(digits.shape[1] + 2) // 4) * 4  # room for the carry
    out = np.zeros((len(digits), count), np.int64)
    carry = np.zeros(len(digits), np.int64)
    for n in range(count):
        now = carry + (digits[:, n] if n < digits.shape[1] else 0)
        out[:, n], carry = (now & _MASK, now >> DIGIT) if n < count - 1 else (now, carry)
    a, b, c, d = (out[:, n::4] for n in range(4))
    limbs = [a | (b & 0xFF) << 24, b >> 8 | (c & 0xFFFF) << 16, c >> 16 | d << 8]
    return np.stack(limbs, axis=2).reshape(len(digits), -1)

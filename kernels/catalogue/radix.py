"""Order statistics by radix: digits of integers that sort like the elements, counted read by read.

A read counts, for each output, how many elements have each value of a digit; the digit of a rank
follows from the counts, and the next read counts the next digit of those elements alone whose
digits so far are the rank's (Mahmoud, "Sorting: A Distribution Theory", 2000, ch. 6). Integers are
counted, so results are the same for any chunks, devices and workers, and memory does not grow with
the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from chunkfold.kernels.dtypes import from_order, kind_of
from chunkfold.kernels.expressions.library import rank_high, where
from chunkfold.kernels.expressions.symbols import Symbol
from chunkfold.kernels.monoid.monoid import Monoid

TABLE_BYTES = 128 << 20
"""Most bytes of the counters of all outputs."""
MOST_COUNTERS = 999_999
"""Most counters of a table."""
WHOLE_BITS, DIGIT_BITS = 19, 16
"""Most bits of a key that are one digit; and of a digit, where a key has several."""


@dataclass(frozen=True)
class Radix:
    """The digits that the keys of a dtype are cut into."""

    dtype: np.dtype
    """Dtype of the elements."""
    widths: tuple[int, ...]
    """Bits of each digit, the highest first: one for each read."""

    @classmethod
    def of(cls, dtype: np.dtype, outputs: int, counters: int = 1) -> Radix:
        """Choose digits for so many outputs: as few as tables of bounded size allow.

        `counters` is the number of counters of each value of a digit.
        """
        bits = _key_bits(dtype) - _unused_bits(dtype)
        room = TABLE_BYTES // (8 * counters * max(1, outputs))
        room = min(room, MOST_COUNTERS // counters)
        most = max(1, (room - 1).bit_length() - 1 if room > 2 else 1)
        if bits <= min(most, WHOLE_BITS):
            return cls(dtype, (bits,))
        each = min(most, DIGIT_BITS)
        full, rest = divmod(bits, each)
        return cls(dtype, (each,) * full + (rest,) * (rest > 0))

    @property
    def reads(self) -> int:
        """Return the number of reads of the data."""
        return len(self.widths)

    def entries(self, read: int) -> int:
        """Return the values of a read's digit."""
        return 1 << self.widths[read]

    def counting(self, name: str, **others: Any) -> Monoid:
        """Return a monoid that counts elements by their highest digit, and NaN behind those."""
        return Monoid(
            name,
            fields={"counts": f"int64[{self.entries(0) + (kind_of(self.dtype) == 'f')}]"},
            zero=0,
            lift=self.first_digit,
            op="add",
            **others,
        )

    def first_digit(self, x: Symbol) -> Symbol:
        """Return an element's highest digit; NaN has a number of its own, behind all digits."""
        number = (self._key(x) >> self.shift(0)).astype(np.int64)
        nan = np.int64(self.entries(0))
        return where(np.isnan(x), nan, number) if x.dtype.kind == "f" else number

    def digit(self, read: int, x: Symbol, found: Symbol, shift: Symbol) -> Symbol:
        """Return an element's digit of a later read; -1 if those before are not those of `found`.

        `shift` is an input too, so that all reads have one program.
        """
        key, width = self._key(x), self.widths[read]
        low = shift.astype(key.dtype)
        alike: Any = (key ^ self._key(found)) >> low >> width
        digit = ((key >> low) & (self.entries(read) - 1)).astype(np.int64)
        return where(alike == 0, digit, np.int64(-1))

    def values(self, digits: np.ndarray, reads: int, *, last: bool = False) -> np.ndarray:
        """Return the first or the last values of the digits which so many reads have found, uint64.

        They are numbers, infinities at most; floats of 16 bits are float32, as kernels have them.
        """
        below = self.shift(reads - 1)
        keys = np.left_shift(digits, np.uint64(below)) | np.uint64(last * ((1 << below) - 1))
        bits = _key_bits(self.dtype)
        offset = np.uint64(0 if self.dtype.kind == "u" else 1 << (bits - 1))
        signed = (keys - offset).astype(f"{'u' if self.dtype.kind == 'u' else 'i'}{bits // 8}")
        if kind_of(self.dtype) == "f":
            unused = np.array((1 << _unused_bits(self.dtype)) - 1, signed.dtype)
            signed = np.where(signed < 0, signed | unused, signed)
        return values_of(signed, self.dtype)

    def shift(self, read: int) -> int:
        """Return the number of a key's bits below a read's digit."""
        return sum(self.widths[read + 1 :]) + _unused_bits(self.dtype)

    def _key(self, x: Symbol) -> Symbol:
        """Return an unsigned integer that sorts like a value, both zeros alike."""
        key = rank_high(x)
        if key.dtype.kind == "u":
            return key
        least = 1 << (_key_bits(self.dtype) - 1)
        shifted: Symbol = key.astype(np.dtype(f"u{key.dtype.itemsize}")) + least
        return shifted


def tables_for_prefixes(prefixes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return one table for equal prefixes: (outputs, tables) prefixes, and each rank's table.

    `prefixes` are (outputs, ranks). An output with fewer tables than others repeats its first.
    """
    order = np.argsort(prefixes, axis=1, kind="stable")
    ordered = np.take_along_axis(prefixes, order, axis=1)
    numbers = np.zeros(ordered.shape, np.int64)
    numbers[:, 1:] = np.cumsum(ordered[:, 1:] != ordered[:, :-1], axis=1)
    table = np.empty_like(numbers)
    np.put_along_axis(table, order, numbers, axis=1)
    tables = np.repeat(ordered[:, :1], int(numbers.max(initial=0)) + 1, axis=1)
    np.put_along_axis(tables, numbers, ordered, axis=1)
    return tables, table


class Ranked(NamedTuple):
    """Elements of given ranks, by counts: arrays (outputs, ranks)."""

    digit: np.ndarray
    """The digit of the element with the rank; the last digit if there are too few elements."""
    below: np.ndarray
    """The rank among the elements with that digit."""
    held: np.ndarray
    """The number of elements with that digit."""
    total: np.ndarray
    """The number of counted elements."""


def ranked(tables: Sequence[np.ndarray], slot: np.ndarray, rank: np.ndarray) -> Ranked:
    """Find the digits of elements of given ranks, by the counts of each digit.

    Counts are added up by stretches of digits, and then in the one that has the rank: large tables
    are read once.

    Parameters
    ----------
    tables
        Counts by digit: int64, (outputs, digits) each.
    slot
        Which of them counts for each rank: (outputs, ranks).
    rank
        From 0 on: int64, (outputs, ranks).
    """
    outputs, digits = tables[0].shape
    width = 1 << (digits.bit_length() // 2)
    begins, within, every = np.arange(0, digits, width), np.arange(width), np.arange(outputs)
    stretches = np.stack([np.add.reduceat(table, begins, axis=1) for table in tables], axis=1)
    found = Ranked(*(np.empty(rank.shape, np.int64) for _ in Ranked._fields))
    for n in range(rank.shape[1]):
        own = slot[:, n]
        sums = stretches[every, own]
        at, left, _ = _passed(sums, rank[:, n])
        counts = np.empty((outputs, width), np.int64)
        for number, table in enumerate(tables):
            (rows,) = np.nonzero(own == number)
            counts[rows] = table[rows[:, None], begins[at[rows], None] + within]
        digit, found.below[:, n], found.held[:, n] = _passed(counts, left)
        found.digit[:, n] = begins[at] + digit
        found.total[:, n] = sums.sum(axis=1)
    return found


def _passed(counts: np.ndarray, rank: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where cumulative counts pass a rank, the rank left there, and the count there."""
    reached = np.cumsum(counts, axis=1)
    at = np.minimum((reached <= rank[:, None]).sum(axis=1), counts.shape[1] - 1)
    held = np.take_along_axis(counts, at[:, None], axis=1)[:, 0]
    through = np.take_along_axis(reached, at[:, None], axis=1)[:, 0]
    return at, rank - (through - held), held


def values_of(keys: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the values of `rank_high` keys: numbers or infinities.

    Floats of 16 bits are float32, as kernels have them.
    """
    if kind_of(dtype) != "f":
        return keys.astype(dtype)
    wide = np.dtype(f"f{keys.dtype.itemsize}")
    infinity = np.array(np.inf, wide).view(keys.dtype)
    lowest = infinity ^ np.iinfo(keys.dtype).max ^ np.iinfo(keys.dtype).min
    return from_order(np.clip(keys, lowest, infinity), wide, high=True)


def _key_bits(dtype: np.dtype) -> int:
    """Return the bits of a key: floats of 16 bits are float32 in kernels."""
    return max(32, 8 * dtype.itemsize) if kind_of(dtype) == "f" else 8 * dtype.itemsize


def _unused_bits(dtype: np.dtype) -> int:
    """Return the number of a key's lowest bits that are the same for all elements."""
    if kind_of(dtype) != "f" or dtype.itemsize > 2:
        return 0
    return 13 if dtype.name == "float16" else 16

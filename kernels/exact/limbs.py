"""Superaccumulators: the limbs of an exact sum, and the integer that they make.

A sum of floats is an integer times a power of two, however large and small they are. Kernels keep
it in limbs of 32 bits, each in a counter of 64 (Kulisch, *Computer Arithmetic and Validity*, 2008,
ch. 8), so that adding needs no carry for 2**31 deposits. Behind the limbs stand three counters: of
NaN, of infinity and of minus infinity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chunkfold.kernels.dtypes import kind_of

SPECIALS = 3
"""Counters behind the limbs: of NaN, infinity, minus infinity."""
MOST_DEPOSITS = 1 << 30
"""Deposits into one table after which its carries are due."""
_ROOM = 32
"""Bits for the number of values, and for how far they are apart."""
_MASK = 0xFFFFFFFF
_FEW = 16
"""Tables that are settled one by one."""


@dataclass(frozen=True)
class Format:
    """A binary floating-point format (IEEE 754, 3.3), or integers of some bits."""

    precision: int
    """Bits of a significand."""
    top: int
    """Every finite value is below 2**top, or of integers not above it."""
    whole: bool = False
    """True: values are integers."""

    @property
    def least(self) -> int:
        """Exponent of the least bit that a value may have: a subnormal's."""
        return 0 if self.whole else 3 - self.top - self.precision


FORMATS = {
    "float16": Format(11, 16),
    "bfloat16": Format(8, 128),
    "float32": Format(24, 128),
    "float64": Format(53, 1024),
}


@dataclass(frozen=True)
class Limbs:
    """The form of an exact sum: limbs, and the terms of an expansion before them."""

    low: int
    """The least bit of the first limb is 2**low."""
    count: int
    """Limbs: enough for 2**63 values; the last one has the sign."""
    terms: int
    """Doubles of the expansion that every element goes through; 0 without float64."""
    power: int
    """Power of a value that is summed: 1, or 2 for its square; 0 for other polynomials."""

    @property
    def kept(self) -> int:
        """Doubles of an expansion that has no limbs behind it: 159 bits at least.

        Ordinary values do not fill them, nor do most that are far off.
        """
        return max(3, self.terms + 1)

    @property
    def paired(self) -> bool:
        """Return True if addends may be too long for a double: squares of float64."""
        return self.power == 2 and self.low == 2 * FORMATS["float64"].least

    @property
    def format(self) -> Format | None:
        """The format whose values, or squares, are summed; None for other polynomials."""
        forms = FORMATS.values()
        of_power = (form for form in forms if self.power * form.least == self.low)
        return next(of_power, None) if self.power else None

    @property
    def entries(self) -> int:
        """Counters of the table."""
        return self.count + SPECIALS


def limbs_between(least: int, top: int, digits: int, power: int) -> Limbs:
    """Return the form of sums of multiples of 2**least below 2**top.

    Its terms hold sums of ordinary values of so many digits without an error: they have room for
    some more bits. 0 digits: devices have no doubles.
    """
    terms = 0 if not digits else 1 if digits <= 24 else -(-(digits + _ROOM) // 53)
    return Limbs(least, max(2, -(-(top - least + 64) // 32)), terms, power)


def part_of(dtype: np.dtype) -> np.dtype:
    """Return the dtype of a complex number's parts; that of others is their own.

    >>> part_of(np.dtype("complex64")), part_of(np.dtype("float16"))
    (dtype('float32'), dtype('float16'))
    """
    return np.dtype(f"float{4 * dtype.itemsize}") if kind_of(dtype) == "c" else dtype


def floats_of(dtype: np.dtype) -> np.dtype:
    """Return the dtype of means and the like: floats keep theirs, and others become float64.

    Complex numbers have that of their parts.
    """
    part = part_of(dtype)
    return part if kind_of(part) == "f" else np.dtype(np.float64)


def settled(tables: np.ndarray) -> np.ndarray:
    """Propagate the carries of tables (outputs, entries): each value then has one form.

    Limbs are below 2**32 and not negative, but for the last one, which has the sign; counters of
    what is no number are 0 or 1. The same as `chf_settle_limbs` in kernels/cl/limbs.clh.
    """
    if len(tables) <= _FEW:
        rows = [_settled_row(row) for row in tables.tolist()]
        return np.array(rows, np.int64).reshape(tables.shape)
    out = tables.copy()
    last = tables.shape[1] - SPECIALS - 1
    for n in range(last):
        out[:, n + 1] += out[:, n] >> 32
        out[:, n] &= _MASK
    out[:, -SPECIALS:] = out[:, -SPECIALS:] != 0
    return out


def _settled_row(row: list[int]) -> list[int]:
    """Settle one table: NumPy is slow on few."""
    out, carry = [], 0
    for limb in row[: -SPECIALS - 1]:
        carry += limb
        out.append(carry & _MASK)
        carry >>= 32
    return [*out, carry + row[-SPECIALS - 1], *(int(n != 0) for n in row[-SPECIALS:])]


def integers(tables: np.ndarray) -> list[int]:
    """Return the integers of settled tables (outputs, entries), in units of 2**low."""
    digits = tables[:, :-SPECIALS].astype(np.uint32)  # the sign's limb in two's complement
    width = 4 * digits.shape[1]
    raw = digits.astype("<u4").tobytes()
    return [
        int.from_bytes(raw[at : at + width], "little", signed=True)
        for at in range(0, len(raw), width)
    ]


def limb_tables(values: Sequence[int], odd: np.ndarray, limbs: Limbs) -> np.ndarray:
    """Return the settled tables that hold integers, in units of 2**low: as `integers` reads them.

    `odd` are the counters behind the limbs, (outputs, SPECIALS).
    """
    raw = b"".join(one.to_bytes(4 * limbs.count, "little", signed=True) for one in values)
    digits = np.frombuffer(raw, "<u4").reshape(-1, limbs.count)
    tables = np.empty((len(digits), limbs.entries), np.int64)
    tables[:, : limbs.count] = digits
    tables[:, limbs.count - 1] = digits[:, -1].astype(np.int32)  # which has the sign
    tables[:, limbs.count :] = odd != 0
    return tables


def specials(tables: np.ndarray) -> np.ndarray:
    """Return sums that are NaN or infinite, else 0: float64 of shape (outputs,)."""
    nan, above, below = (tables[:, -SPECIALS + n] > 0 for n in range(SPECIALS))
    out = np.zeros(len(tables))
    out[above] = np.inf
    out[below] = -np.inf
    out[nan | (above & below)] = np.nan
    return out

"""Quantiles within a relative tolerance, by one read: counts of log-linear buckets.

The guarantee is that of Masson, Rim and Lee, "DDSketch: a fast and fully-mergeable quantile sketch
with relative-error guarantees", PVLDB 12 (2019): each bucket's estimate is near all that it may
hold. Buckets are equal parts of each power of two, which bits of a float tell without a logarithm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from chunkfold.kernels.catalogue.quantile_methods import ranks
from chunkfold.kernels.dtypes import from_order, kind_of
from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.expressions.library import (
    order_high,
    order_low,
    signed_bits,
    towards_zero,
    where,
)
from chunkfold.kernels.expressions.symbols import Symbol
from chunkfold.kernels.monoid.finish_context import Context, Fields
from chunkfold.kernels.monoid.monoid import Monoid
from chunkfold.kernels.monoid.specialise import FoldedElements

AXIS = "quantile"
"""Name of the results' last axis, of several quantiles."""
_MOST_BITS = {4: 10, 8: 7}
"""Most bits of a mantissa that choose a bucket, by the bytes of floats: tables are limited."""
_MANTISSA = {4: 23, 8: 52}
_ROUNDING = 2.0**-23
"""Largest relative error of rounding a result to float32."""


def checked_rtol(rtol: Any) -> float:
    """Return a relative tolerance of quantiles.

    Raises
    ------
    MonoidError
        If it is not between 0 and 1.
    """
    number = isinstance(rtol, (int, float, np.number)) and not isinstance(rtol, bool)
    if not number or not 0 < rtol < 1:
        raise MonoidError(
            f"rtol of a sketch of quantiles is {rtol!r}; give a number between 0 and 1: 0.01 is "
            "within 1 %"
        )
    return float(rtol)


def _within(bits: int) -> float:
    """Return the largest relative error of an estimate if so many bits choose a bucket."""
    return 1 / ((2 << bits) + 1) + _ROUNDING


@dataclass(frozen=True)
class Sketch:
    """Makes the monoid of quantiles within a tolerance, for a dtype."""

    name: str
    q: tuple[float, ...]
    rtol: float
    single: bool
    """True: results have no axis of quantiles."""

    def declared(self) -> Monoid:
        """Return the reduction for elements of any dtype."""
        plain = self._monoid(np.dtype(np.float32), 0)
        return replace(
            plain,
            specialised=self,
            last_axis=None if self.single else AXIS,
            labels=() if self.single else self.q,
        )

    def __call__(self, elements: FoldedElements) -> Monoid:
        """Return the monoid.

        Raises
        ------
        MonoidError
            If there are too many buckets, or floats have so few bits that none are needed.
        """
        dtype = elements.dtype
        if kind_of(dtype) == "f" and dtype.itemsize < 4:
            raise MonoidError(
                f"a sketch of quantiles is not defined for {dtype}, whose values are few enough "
                "to count each of them: omit method='sketch', and quantiles are exact"
            )
        most = _MOST_BITS[_Buckets(dtype, 0).itemsize]
        bits = next((n for n in range(most + 1) if _within(n) <= self.rtol), None)
        if bits is None:
            least = math.ceil(_within(most) * 1e5) / 1e5
            raise MonoidError(
                f"rtol of a sketch of quantiles is {self.rtol!r}, and {dtype} has too many "
                f"buckets for less than {least:g}: give that, or omit method='sketch', and "
                "quantiles are exact"
            )
        return self._monoid(dtype, bits)

    def _monoid(self, dtype: np.dtype, bits: int) -> Monoid:
        buckets = _Buckets(dtype, bits)
        return Monoid(
            self.name,
            fields={"counts": f"int64[{buckets.entries}]", "lo": "order", "hi": "order"},
            zero={"counts": 0, "lo": "highest", "hi": "lowest"},
            lift={"counts": buckets.number, "lo": order_low, "hi": order_high},
            op={"counts": "add", "lo": "min", "hi": "max"},
            casts=False,
            kinds="iuf",
            finish=partial(self._finished, buckets),
        )

    def _finished(self, buckets: _Buckets, fields: Fields, context: Context) -> np.ndarray:
        """Return the estimates of the elements of the ranks; the first and the last are exact."""
        del context
        counts, dtype = fields["counts"], buckets.dtype
        n = counts.sum(axis=1)
        rank, _ = ranks("lower", n[:, None], np.array(self.q)[None, :])
        reached = np.cumsum(counts, axis=1)
        at = [np.searchsorted(*pair, side="right") for pair in zip(reached, rank, strict=True)]
        found = buckets.estimates()[np.minimum(at, buckets.entries - 1).reshape(rank.shape)]
        low = from_order(fields["lo"], dtype, high=False).astype(np.float64)[:, None]
        high = from_order(fields["hi"], dtype, high=True).astype(np.float64)[:, None]
        found = np.minimum(np.maximum(found, low), high)
        found = np.where(rank <= 0, low, np.where(rank >= n[:, None] - 1, high, found))
        nan = (n[:, None] == 0) | np.isnan(low)  # NaN is the least key, wherever it was counted
        values = np.where(nan, np.nan, found)
        values = values.astype(dtype if kind_of(dtype) == "f" else np.float64)
        return np.asarray(values[:, 0] if self.single else values)


@dataclass(frozen=True)
class _Buckets:
    """The buckets of a dtype's values, in their order: from -infinity's to infinity's.

    Integers have those of float32, towards zero: that changes no bucket.
    """

    dtype: np.dtype
    bits: int
    """Bits of a mantissa that choose a bucket."""

    @property
    def itemsize(self) -> int:
        """Bytes of the floats whose bits are read."""
        return 8 if kind_of(self.dtype) == "f" and self.dtype.itemsize == 8 else 4

    @property
    def zero(self) -> int:
        """The bucket of zero and of what is too small for a normal number: as many on each side."""
        exponents = {4: 254, 8: 2046}[self.itemsize]
        return (exponents << self.bits) + 1

    @property
    def entries(self) -> int:
        """Return the number of buckets."""
        return 2 * self.zero + 1

    def number(self, x: Symbol) -> Symbol:
        """Return the number of a value's bucket; for NaN infinity's or one out of range."""
        held = signed_bits(x if x.dtype.kind == "f" else towards_zero(x))
        size = held & int(np.iinfo(held.dtype).max)
        steps = (size >> (_MANTISSA[self.itemsize] - self.bits)).astype(np.int32)
        step = np.maximum(steps - ((1 << self.bits) - 1), 0)
        return where(held < 0, self.zero - step, self.zero + step)

    def estimates(self) -> np.ndarray:
        """Return each bucket's estimate, float64: equally far from both ends, relatively.

        Between ends a < b it is 2ab / (a + b), with a relative error of (b - a) / (b + a) at both.
        """
        parts = 1 << self.bits
        step = np.arange(self.zero - 1)
        mantissa = parts + step % parts
        bias = {4: 126, 8: 1022}[self.itemsize]
        middle = mantissa / parts * (2 * (mantissa + 1) / (2 * mantissa + 1))
        above = np.append(np.ldexp(middle, step // parts - bias), np.inf)
        return np.concatenate([-above[::-1], [0.0], above])

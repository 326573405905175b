"""Counts of each value: the mode, and the number of different values.

Elements of up to 16 bits are counted value by value. For others the number of different values is
estimated by HyperLogLog (Flajolet et al., "HyperLogLog: the analysis of a near-optimal cardinality
estimation algorithm", 2007), with the estimator of Ertl, "New cardinality estimation algorithms
for HyperLogLog sketches", arXiv:1702.01284, which needs no corrections of its bias.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from chunkfold.kernels.catalogue.radix import Radix
from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.expressions.library import rank_high, signed_bits, where
from chunkfold.kernels.expressions.symbols import Symbol
from chunkfold.kernels.monoid.monoid import Monoid
from chunkfold.kernels.monoid.specialise import FoldedElements

_BITS = range(4, 15)
"""Bits of a hash that choose a register."""
_HASH = 64


def approx_nunique(error: float = 0.01) -> Monoid:
    """Return the reduction that estimates the number of different values; NaN is none.

    The answer depends on the values alone: not on chunks, devices or order.

    Parameters
    ----------
    error
        Relative standard error, from 0.0082 to 0.26: two thirds of results are within it.

    Raises
    ------
    MonoidError
        If the error is out of that range.
    """
    given: Any = error
    able = isinstance(given, (int, float)) and 0 < given < 1
    bits = math.ceil(2 * math.log2(1.04 / error)) if able else _BITS.stop
    if bits not in _BITS:
        least, most = (1.04 / math.sqrt(1 << n) for n in (_BITS[-1], _BITS[0]))
        raise MonoidError(
            f"error of approx_nunique is {error!r}; give a share from {least:.4f} to {most:.2f}"
        )
    ranks = _HASH - bits + 1
    return Monoid(
        "approx_nunique",
        fields={"seen": f"int64[{ranks << bits}]"},
        zero=0,
        lift=lambda x: _register(x, bits),
        op="add",
        casts=False,
        finish=lambda fields, _: _estimates(fields["seen"], bits),
    )


def _register(x: Symbol, bits: int) -> Symbol:
    """Return the number of an element's register and rank; -1 for NaN."""
    hashed = _hash(rank_high(x).astype(np.int64).astype(np.uint64))
    register = (hashed & ((1 << bits) - 1)).astype(np.int64)
    rest: Any = hashed >> bits
    # The lowest bit that is set, as a float: its exponent counts the zeros below.
    lowest = rest & (~rest + 1)
    exponent = (signed_bits(lowest.astype(np.float32)) >> 23) - 127
    most = _HASH - bits
    rank = where(rest == 0, np.int64(most), exponent.astype(np.int64))
    number = register * (most + 1) + rank
    return where(np.isnan(x), np.int64(-1), number) if x.dtype.kind == "f" else number


def _hash(key: Symbol) -> Symbol:
    """Mix 64 bits: the finalizer of MurmurHash3."""
    mixed: Any = key
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        mixed = (mixed ^ (mixed >> 33)) * np.uint64(factor)
    done: Symbol = mixed ^ (mixed >> 33)
    return done


def _estimates(seen: np.ndarray, bits: int) -> np.ndarray:
    """Return the estimates of (outputs, counters)."""
    registers, ranks = 1 << bits, _HASH - bits + 1
    held = seen.reshape(-1, registers, ranks) > 0
    best = np.where(held.any(axis=2), ranks - np.argmax(held[:, :, ::-1], axis=2), 0)
    counts = np.stack([np.bincount(row, minlength=ranks + 1) for row in best])
    return np.array([_estimate(row, registers) for row in counts.tolist()], np.int64)


def _estimate(counts: list[int], registers: int) -> int:
    """Return Ertl's estimate, given the number of registers of each rank (0: empty ones)."""
    z = registers * _tau(1 - counts[-1] / registers)
    for count in reversed(counts[1:-1]):
        z = 0.5 * (z + count)
    z += registers * _sigma(counts[0] / registers)
    if z == 0:  # all registers hold the highest rank
        return np.iinfo(np.int64).max
    return 0 if math.isinf(z) else round(registers**2 / (2 * math.log(2) * z))


def _sigma(x: float) -> float:
    if x == 1:
        return math.inf
    y, z, before = 1.0, x, -1.0
    while z != before:
        x, before = x * x, z
        z, y = z + x * y, 2 * y
    return z


def _tau(x: float) -> float:
    if x in (0, 1):
        return 0.0
    y, z, before = 1.0, 1 - x, -1.0
    while z != before:
        x, before, y = math.sqrt(x), z, y / 2
        z -= (1 - x) ** 2 * y
    return z / 3


@dataclass(frozen=True)
class OfEachValue:
    """Makes the monoid that counts each value, for a dtype and a number of outputs."""

    name: str
    kinds: str
    on_empty: Literal["finish", "error"]
    finish: Callable[[Radix, np.ndarray], np.ndarray]
    """Returns the results, given the counts of values: (outputs, values)."""
    otherwise: str = ""
    """The remedy where elements have too many bits, if there is one besides a cast."""

    def _remedy(self, dtype: np.dtype, outputs: int) -> str:
        """Return the remedy for a dtype with too many values."""
        kind = "u" if dtype.kind == "u" else "i"
        names = (f"{kind}{nbytes}" for nbytes in (2, 1) if nbytes < dtype.itemsize)
        fits = (one for one in map(np.dtype, names) if Radix.of(one, outputs).reads == 1)
        small = next(fits, None) if dtype.kind in "iu" else None
        ways = [f"cast them by dtype={small.name!r}, if they fit"] if small else []
        return ", or ".join([*ways, self.otherwise or "reduce fewer outputs at a time"])

    def __call__(self, elements: FoldedElements) -> Monoid:
        """Return the monoid.

        Raises
        ------
        MonoidError
            If there are too many values, or outputs.
        """
        dtype, outputs = elements.dtype, elements.outputs
        radix = Radix.of(dtype, outputs)
        if radix.reads > 1:
            values = f"the {1 << 8 * dtype.itemsize:,} of {dtype}"
            raise MonoidError(
                f"{self.name!r} counts each value: {values} are too many for "
                f"{outputs:,} output(s); {self._remedy(dtype, outputs)}"
            )
        return radix.counting(
            self.name,
            kinds=self.kinds,
            casts=False,
            on_empty=self.on_empty,
            finish=lambda fields, _: self.finish(radix, fields["counts"][:, : radix.entries(0)]),
        )


def _commonest(radix: Radix, counts: np.ndarray) -> np.ndarray:
    """Return the most frequent value, the least of several."""
    return radix.values(np.argmax(counts, axis=1).astype(np.uint64), 1)


def _how_many(radix: Radix, counts: np.ndarray) -> np.ndarray:
    """Return the number of values with a count above 0."""
    del radix
    return np.asarray(np.count_nonzero(counts, axis=1), np.int64)


def _counting(asked: OfEachValue) -> Monoid:
    return replace(asked(FoldedElements(np.dtype(np.int16))), specialised=asked)


MODE = _counting(OfEachValue("mode", "iu", "error", _commonest))
NUNIQUE = _counting(
    OfEachValue("nunique", "iuf", "finish", _how_many, "approx_nunique estimates their number")
)

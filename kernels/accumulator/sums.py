"""Exact sums of many outputs on the host: expansions, and limbs where those do not hold them.

An expansion is a few doubles whose sum is the exact one. It has one form for each value: every
term is the float64 nearest to what it and those behind it add up to. Kernels see to that
(kernels/cl/expansions.clh); of a sum that an expansion cannot hold they leave NaN in the last
term: it is *lost*, until whoever has the elements adds them again in limbs. Such sums are then
*wide*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.partial import Partial, Wide, joined_wide
from chunkfold.kernels.exact.limbs import SPECIALS, Limbs, settled, specials
from chunkfold.kernels.exact.pieces import OutputsAt
from chunkfold.kernels.exact.rounding import quotients
from chunkfold.kernels.exact.ziv_rounding import two_sum

_MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class ExactSums:
    """One exact sum for each output."""

    limbs: Limbs
    terms: tuple[np.ndarray, ...]
    """Expansions, float64 of shape (outputs,) each, the largest first; none if all are wide."""
    wide: Wide

    @property
    def outputs(self) -> int:
        """Number of sums."""
        return len(self.terms[0] if self.terms else self.wide.at)

    @property
    def lost(self) -> np.ndarray:
        """Mask of outputs whose expansions overflowed: bool, (outputs,)."""
        last = self.terms[-1] if self.terms else np.zeros(self.outputs)
        return np.asarray(np.isnan(last))

    def finite_at(self, at: OutputsAt) -> np.ndarray:
        """Return which sums of a piece are of numbers alone: bool, (outputs,)."""
        if self.terms:
            return np.asarray(np.isfinite(self.terms[0][at]))
        return np.asarray(specials(self.wide.tables[at]) == 0)

    def tables(self, at: np.ndarray) -> np.ndarray:
        """Return the settled limbs of the outputs `at`: (outputs, entries)."""
        out = deposited([term[at] for term in self.terms], len(at), self.limbs)
        if len(self.wide.at):
            found = np.minimum(np.searchsorted(self.wide.at, at), len(self.wide.at) - 1)
            hits = self.wide.at[found] == at
            out[hits] = self.wide.tables[found[hits]]
        return out


class IntegerSums(ExactSums):
    """Exact sums of integers, as kernels keep them (integer_sums.py)."""

    digits: tuple[np.ndarray, ...]
    """Int64 of shape (outputs,), of 32 bits each, the lowest first; the last one has the sign, and
    64 bits."""

    def __init__(self, *digits: np.ndarray) -> None:
        limbs = Limbs(0, len(digits) + 2, len(digits) + 1, 1)
        vars(self).update(digits=digits, limbs=limbs, wide=_none_wide(limbs))

    @cached_property
    def terms(self) -> tuple[np.ndarray, ...]:
        """Expansions, made when they are first asked for."""
        *lower, last = self.digits
        parts = [*lower, last & _MASK, last >> 32]
        terms = [np.ldexp(part.astype(np.float64), 32 * n) for n, part in enumerate(parts)][::-1]
        for _ in terms[1:]:
            for n in range(len(terms) - 1, 0, -1):
                terms[n - 1], terms[n] = two_sum(terms[n - 1], terms[n])
        return tuple(terms)

    @property
    def outputs(self) -> int:
        """Number of sums."""
        return len(self.digits[0])

    @property
    def lost(self) -> np.ndarray:
        """Mask of none."""
        return np.zeros(self.outputs, bool)

    def with_added(self, number: int) -> IntegerSums:
        """Return them with a number added to each."""
        carry: int | np.ndarray = number
        digits = []
        for digit in self.digits[:-1]:
            whole = digit + (carry & _MASK)
            digits.append(whole & _MASK)
            carry = (carry >> 32) + (whole >> 32)
        return IntegerSums(*digits, self.digits[-1] + carry)

    def numbers(self) -> list[int]:
        """Return them as Python's integers."""
        rows = zip(*(digit.tolist() for digit in self.digits), strict=True)
        return [sum(digit << 32 * n for n, digit in enumerate(row)) for row in rows]


@dataclass(frozen=True)
class Rounding:
    """The way devices make results of exact sums, which go by what their slots begin with."""

    name: str
    """The statistic's."""
    dtype: str
    """The dtype of results."""
    sum: str
    squares: str | None
    """The sum of squares, where results are of both."""
    count: str | None
    """The slot that counts elements; None if all outputs have as many."""
    divided: bool
    root: bool
    ddof: float


@dataclass(frozen=True)
class Rounded:
    """Results of all outputs of a fold, as a device has rounded them."""

    values: Mapping[str, np.ndarray]
    """By statistic, (outputs,)."""
    nan: Mapping[str, int]
    """The number of results that are NaN of more elements than ddof, by statistic."""
    count: int | np.ndarray
    """As of the partial that they were made of."""


def exact_sums(partial: Partial, name: str, limbs: Limbs) -> ExactSums:
    """Return a partial's exact sum of a name, in whichever form it is."""
    table = partial.arrays.get(name)
    if table is not None:
        return ExactSums(limbs, (), Wide(np.arange(len(table)), table))
    terms = tuple(partial.arrays[f"{name}{n}"] for n in range(limbs.kept))
    return ExactSums(limbs, terms, partial.wide.get(name, _none_wide(limbs)))


def _none_wide(limbs: Limbs) -> Wide:
    return Wide(np.empty(0, np.int64), np.empty((0, limbs.entries), np.int64))


def any_lost(accumulator: Accumulator, partial: Partial) -> np.ndarray:
    """Return which outputs have lost any of their sums: bool, (outputs,)."""
    found = np.zeros(partial.outputs, bool)
    for name, field in accumulator.sums.items():
        assert field.limbs is not None
        found |= exact_sums(partial, name, field.limbs).lost
    return found


def deposited(terms: Sequence[np.ndarray], outputs: int, limbs: Limbs) -> np.ndarray:
    """Return the settled limbs of sums of doubles, (outputs, entries), as kernels deposit them."""
    table = np.zeros((outputs, limbs.entries), np.int64)
    rows = np.arange(outputs)
    for term in terms:
        for behind, odd in enumerate((np.isnan(term), term == np.inf, term == -np.inf)):
            table[odd, behind - SPECIALS] = 1
        fraction, exponent = np.frexp(np.where(np.isfinite(term), term, 0))
        whole = np.ldexp(np.abs(fraction), 53).astype(np.int64)
        at = exponent.astype(np.int64) - 53 - limbs.low
        whole >>= np.clip(-at, 0, 63)  # what has its least bit below limb 0's ends in zeros
        limb, shift = np.divmod(np.maximum(at, 0), 32)
        for number, piece in enumerate((whole & _MASK, whole >> 32)):
            moved = piece << shift
            for more, digits in enumerate((moved & _MASK, moved >> 32)):
                table[rows, limb + number + more] += np.where(fraction < 0, -digits, digits)
    return settled(table)


def expanded(tables: np.ndarray, limbs: Limbs) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the expansions of what settled limbs hold, and which of them hold all of it."""
    odd = specials(tables)
    rest = np.where(odd[:, None] == 0, tables, 0)
    ones, terms, fits = np.ones(len(tables), np.int64), [], np.ones(len(tables), bool)
    for _ in range(limbs.kept):
        term = quotients(rest, limbs.low, ones, np.dtype(np.float64))
        fits &= np.isfinite(term)
        term = np.where(np.isfinite(term), term, 0)
        rest = settled(rest - deposited([term], len(term), limbs))
        terms.append(term)
    fits &= ~rest.any(axis=1)
    terms[0] = np.where(odd == 0, terms[0], odd)
    return terms, fits


def rewritten(
    partial: Partial, name: str, limbs: Limbs, at: np.ndarray, tables: np.ndarray
) -> Partial:
    """Put what settled limbs hold in the place of the sums of outputs `at`, ascending."""
    terms, fits = expanded(tables, limbs)
    arrays = dict(partial.arrays)
    for number, term in enumerate(terms):
        array = arrays[f"{name}{number}"].copy()
        array[at] = np.where(fits, term, 0)
        arrays[f"{name}{number}"] = array
    old = exact_sums(partial, name, limbs).wide
    others = ~np.isin(old.at, at)
    wide = {key: value for key, value in partial.wide.items() if key != name}
    rows = joined_wide([Wide(old.at[others], old.tables[others]), Wide(at[~fits], tables[~fits])])
    if len(rows.at):
        wide[name] = rows
    return replace(partial, arrays=arrays, wide=wide)


def in_form_of(accumulator: Accumulator, partial: Partial) -> Partial:
    """Return a partial in the form of an accumulator: expansions as limbs, if that has these."""
    arrays, wide = dict(partial.arrays), dict(partial.wide)
    for name, field in accumulator.sums.items():
        assert field.limbs is not None
        if not field.terms and name not in arrays:
            sums = exact_sums(partial, name, field.limbs)
            for number in range(len(sums.terms)):
                del arrays[f"{name}{number}"]
            arrays[name] = sums.tables(np.arange(partial.outputs))
            wide.pop(name, None)
    return replace(partial, arrays=arrays, wide=wide)


def restored(
    accumulator: Accumulator, partial: Partial, places: np.ndarray, again: Partial
) -> Partial:
    """Put limbs in the place of sums that are lost; `again` has those of the outputs `places`."""
    for name, field in accumulator.sums.items():
        assert field.limbs is not None
        missing = exact_sums(partial, name, field.limbs).lost[places]
        if missing.any():
            rows = again.arrays[name][missing]
            partial = rewritten(partial, name, field.limbs, places[missing], rows)
    return partial


def remade(accumulator: Accumulator, combined: Partial, partials: Sequence[Partial]) -> Partial:
    """Combine those sums in limbs that `combined`'s expansions have lost, or never held.

    What one of the partials has lost stays so.
    """
    for name, field in accumulator.sums.items():
        if not field.terms:
            continue
        assert field.limbs is not None
        sums = [exact_sums(partial, name, field.limbs) for partial in partials]
        found = exact_sums(combined, name, field.limbs).lost
        for one in sums:
            found[one.wide.at] = True
        for one in sums:
            found &= ~one.lost
        at = np.flatnonzero(found)
        if len(at):
            whole = sum(one.tables(at) for one in sums)
            combined = rewritten(combined, name, field.limbs, at, settled(np.asarray(whole)))
    return combined

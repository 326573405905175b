"""Evaluate trees of exact sums: in pairs of doubles, or as rational numbers."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from chunkfold.kernels.accumulator.sums import ExactSums
from chunkfold.kernels.exact import pairs, rationals
from chunkfold.kernels.exact.limbs import integers, specials
from chunkfold.kernels.exact.pairs import Pairs
from chunkfold.kernels.exact.pieces import OutputsAt, pieces_of, slabs_of, unsure_of
from chunkfold.kernels.exact.rationals import Real
from chunkfold.kernels.exact.rounding import nearest


@dataclass(frozen=True, eq=False)
class Leaf:
    """Exact sums, an array of numbers, or one number for all outputs."""

    held: ExactSums | np.ndarray | Fraction

    @property
    def outputs(self) -> int | None:
        """Number of outputs; None if it is one number for all of them."""
        if isinstance(self.held, Fraction):
            return None
        return self.held.outputs if isinstance(self.held, ExactSums) else len(self.held)

    def near(self, at: OutputsAt) -> Pairs:
        """Return the numbers of some outputs nearly."""
        if isinstance(self.held, Fraction):
            return pairs.of_one(self.held)
        if isinstance(self.held, np.ndarray):
            return pairs.of_numbers(self.held[at])
        wide = np.zeros(self.held.outputs, bool)
        wide[self.held.wide.at] = True
        if self.held.terms:
            return pairs.of_terms([term[at] for term in self.held.terms], wide[at])
        nothing = np.zeros(len(wide[at]))
        return Pairs(nothing, nothing, nothing, nothing, nothing != 0)

    def exactly(self, at: np.ndarray) -> list[Real]:
        """Return the numbers of some outputs."""
        if isinstance(self.held, Fraction):
            return [self.held] * len(at)
        if isinstance(self.held, np.ndarray):
            return [rationals.exact_number(value) for value in self.held[at].tolist()]
        tables, unit = self.held.tables(at), Fraction(2) ** self.held.limbs.low
        found = zip(integers(tables), specials(tables).tolist(), strict=True)
        return [odd or value * unit for value, odd in found]


@dataclass(frozen=True, eq=False)
class Operation:
    """An operation on numbers; it is computed once, however often it is used."""

    name: str
    sources: tuple[ExactNode, ...]
    condition: np.ndarray | None = None
    """Condition of a choice: bool, (outputs,)."""


ExactNode = Leaf | Operation
_NEAR: Mapping[str, Callable[..., Pairs]] = {
    "add": operator.add,
    "negative": operator.neg,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "magnitude": abs,
    "unless_negative": pairs.unless_negative,
}
_EXACTLY: Mapping[str, Callable[..., Real]] = {
    "add": rationals.add,
    "negative": rationals.negative,
    "multiply": rationals.multiply,
    "divide": rationals.divided_by,
    "magnitude": rationals.absolute,
    "unless_negative": lambda a: math.nan if a < 0 else a,
}


def _walk(top: ExactNode) -> list[ExactNode]:
    """Return nodes, each behind its sources."""
    done: dict[int, ExactNode] = {}
    stack = [(top, False)]
    while stack:
        one, ready = stack.pop()
        if id(one) in done:
            continue
        if ready or isinstance(one, Leaf):
            done[id(one)] = one
            continue
        stack.append((one, True))
        stack += [(source, False) for source in one.sources]
    return list(done.values())


def near(top: ExactNode, at: OutputsAt) -> Pairs:
    """Return the numbers of some outputs nearly."""
    held: dict[int, Pairs] = {}
    for one in _walk(top):
        if isinstance(one, Leaf):
            held[id(one)] = one.near(at)
            continue
        given = [held[id(source)] for source in one.sources]
        if one.condition is not None:
            held[id(one)] = pairs.chosen_pairs(one.condition[at], *given)
        else:
            held[id(one)] = _NEAR[one.name](*given)
    return held[id(top)]


def exactly(top: ExactNode, at: np.ndarray) -> list[Real]:
    """Return the numbers of some outputs."""
    held: dict[int, list[Real]] = {}
    for one in _walk(top):
        if isinstance(one, Leaf):
            held[id(one)] = one.exactly(at)
            continue
        given = [held[id(source)] for source in one.sources]
        if one.condition is not None:
            chosen = zip(one.condition[at].tolist(), *given, strict=True)
            held[id(one)] = [yes if there else no for there, yes, no in chosen]
        else:
            function = _EXACTLY[one.name]
            held[id(one)] = [function(*row) for row in zip(*given, strict=True)]
    return held[id(top)]


def rounded(tree: ExactNode, outputs: int, wanted: np.dtype, *, rooted: bool) -> np.ndarray:
    """Round the numbers of all outputs to floats, once: shape (outputs,), dtype `wanted`.

    `rooted`: the signed square roots of what the tree is.
    """
    out = np.empty(outputs, wanted)

    def try_near(at: OutputsAt) -> np.ndarray:
        found = near(tree, at)
        known = abs(found).root if rooted else found.estimate
        done, certain = known.rounded(wanted)
        if rooted:
            certain = (certain | found.none) & found.signed
            done = np.where(found.high < 0, -done, done)
        odd = found.odd.astype(wanted)
        out[at] = np.where(found.odd == 0, done, odd)
        return np.where(found.odd == 0, certain, found.certain)

    for few in pieces_of(unsure_of(try_near, slabs_of(outputs))):
        out[few] = [nearest(one, wanted, rooted=rooted) for one in exactly(tree, few)]
    return out


def order(one: ExactNode, two: ExactNode, outputs: int) -> np.ndarray:
    """Return -1, 0 or 1 as numbers are less than, equal to or greater than others, or NaN.

    Float64 of shape (outputs,).
    """
    away = Operation("add", (one, Operation("negative", (two,))))
    out = np.empty(outputs)

    def try_near(at: OutputsAt) -> np.ndarray:
        found = near(away, at)
        out[at] = np.sign(found.high)
        signed: np.ndarray = found.signed & (found.odd == 0)
        return signed

    for few in pieces_of(unsure_of(try_near, slabs_of(outputs))):
        rows = zip(exactly(one, few), exactly(two, few), strict=True)
        out[few] = [rationals.compared(*row) for row in rows]
    return out


MOST_POWER = 64
"""The highest power: it is multiplied out."""
_ARRAYS = "?bBhHiIlLqQefd"
"""NumPy's characters of dtypes whose arrays are exact numbers."""
SHAPES = "exact numbers of shape {} meet an array of shape {}"


def leaf_of(number: Any, outputs: int) -> Leaf | None:
    """Return a number, or an array of as many as there are outputs, as exact numbers."""
    if isinstance(number, np.ma.MaskedArray) or (
        isinstance(number, np.generic | np.ndarray) and number.dtype.char not in _ARRAYS
    ):
        raise TypeError(
            f"exact numbers meet {type(number).__name__} of {number.dtype}: give integers, floats "
            "of 64 bits at most, or a Fraction"
        )
    if isinstance(number, np.generic) or (isinstance(number, np.ndarray) and not number.shape):
        number = number.item()
    if isinstance(number, np.ndarray):
        if number.shape != (outputs,):
            raise ValueError(SHAPES.format((outputs,), number.shape))
        return Leaf(number.astype(np.int8) if number.dtype.kind == "b" else number)
    if isinstance(number, numbers.Rational):
        return Leaf(Fraction(number))
    if isinstance(number, float):
        return Leaf(Fraction(number) if math.isfinite(number) else np.full(outputs, number))
    return None


def twice_of(power: Any) -> int | None:
    """Return twice a power that is whole, or that and a half, of a moderate size."""
    plain = isinstance(power, int | float | np.integer | np.floating)
    if not plain or isinstance(power, bool) or not abs(power) <= MOST_POWER:
        return None
    return int(2 * power) if float(2 * power).is_integer() else None

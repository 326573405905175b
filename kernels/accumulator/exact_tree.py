"""Evaluate trees of exact sums: in pairs of doubles, or as rational numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from chunkfold.kernels.accumulator.sums import ExactSums
from chunkfold.kernels.exact import pairs, rationals
from chunkfold.kernels.exact.limbs import integers, specials
from chunkfold.kernels.exact.pairs import Pairs
from chunkfold.kernels.exact.pieces import OutputsAt
from chunkfold.kernels.exact.rationals import Real


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

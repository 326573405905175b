"""See that a monoid is one: op commutes and associates, zero is its identity, streams agree.

Tried by NumPy in three ways: triples of accumulators that a fold can reach, made of small
dyadic numbers, whose sums and products are exact in floats; the same of telling elements
(`law_samples.telling`), where what rounding makes of a few additions is let pass; and sequences of
these, folded in many orders and partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.component import Component
from chunkfold.kernels.binding.law_samples import (
    EACH,
    ENDS,
    SEQUENCE,
    SHORT,
    InputArrays,
    extremes,
    is_float,
    missing,
    orders,
    sequences,
    small,
    telling,
)
from chunkfold.kernels.binding.law_trials import (
    EVERY,
    PLACES,
    counter_example,
    disagreement,
    folded,
    largest_of,
    other_result,
    rounding_of,
    triples_of,
    where_apart,
    where_oddly_apart,
)
from chunkfold.kernels.binding.reference import Reference, elements_of
from chunkfold.kernels.expressions.nodes import walk

_TRIPLES = 2048
_ORDER = (
    ("op is not commutative", "op(a, b)", "op(b, a)"),
    ("op is not associative", "op(op(a, b), c)", "op(a, op(b, c))"),
)
"""Laws that hold for named ops, however their sums are rounded."""
_IDENTITY = (
    ("zero is not op's identity", "op(zero, a)", "a"),
    ("zero is not op's identity", "op(a, zero)", "a"),
)
"""Laws that depend on what lift can reach: 0 is a maximum's identity where nothing is negative."""
_STREAMS = (("accumulate and op disagree", "a by accumulate", "a"),)
"""Laws of those that fold elements into a state of their own; `carry` is part of each step."""
_REMEDIES = {
    "None": "correct them, or give rtol if only rounding differs",
    "nan": "where data hold NaN results depend on their order: use skipna=True, or correct it",
    "-0.0": "where data hold -0.0 the sign of zeros depends on their order",
}
"""What helps, by the value that was tried."""
_TRIPLE_STEPS = 8
"""Operations, at most, between two places of a triple: each may round."""


@dataclass(frozen=True)
class Tried:
    """The outcome of trying the laws of a reduction."""

    broken: str = ""
    """The law that a component breaks, with the counter-example; empty if none was found."""
    unmoved: tuple[str, ...] = ()
    """Monoids with a component whose laws are not plain from the names of its ops, and which no
    element that was tried changes: that proves nothing."""


def try_laws(accumulator: Accumulator, data: Sequence[np.ndarray] | None = None) -> Tried:
    """Try the laws of the components whose laws are not known to hold.

    Parameters
    ----------
    data
        For each input as many elements as they stand in memory, of which none is missing; without
        them only those are tried that the monoid's own numbers suggest.
    """
    doubted = _doubted(accumulator)
    if not doubted:
        return Tried()
    tried = _Tried(replace(accumulator, components=doubted))
    if data is None:
        tried = _Tried(_of_values(tried.accumulator))
        broken = tried.triples(small(tried.accumulator), rounds=False)
        if broken:
            return Tried(broken)
        broken = tried.triples(extremes(tried.accumulator), rounds=True, near_ends=True)
        if broken:
            return Tried(broken)
    rows = telling(tried.accumulator, data)
    broken = tried.triples(rows, rounds=True) or tried.sequences(rows)
    return Tried(broken, tried.unmoved)


def depends_on_order_of(accumulator: Accumulator, value: float) -> str:
    """Say how results depend on the order of elements where some are NaN, or -0.0; else "".

    Only components are tried whose laws are not known to hold.
    """
    doubted = _doubted(accumulator)
    if not doubted or not any(map(is_float, accumulator.stored)) or any(accumulator.packings):
        return ""
    tried = _Tried(replace(accumulator, components=doubted))
    return tried.triples(missing(tried.accumulator, value), rounds=True, of=value)


def _doubted(accumulator: Accumulator) -> tuple[Component, ...]:
    """Return the components whose laws are not known to hold; tables add, which is lawful."""
    parts = accumulator.components
    return tuple(part for part in parts if part.rtol is not None and part.table is None)


def _of_values(accumulator: Accumulator) -> Accumulator:
    """Return the accumulator of unpacked values: missing ones, which are NaN, are no samples."""
    packings, pairs = accumulator.packings, zip(accumulator.stored, accumulator.value, strict=True)
    stored = (pair[packing is not None] for pair, packing in zip(pairs, packings, strict=True))
    return replace(accumulator, stored=tuple(stored), packings=(None,) * len(packings))


class _Tried:
    """The components of an accumulator that are tried, and whether they ever moved."""

    def __init__(self, accumulator: Accumulator) -> None:
        self.accumulator = accumulator
        self._moved = [False] * len(accumulator.components)

    @property
    def unmoved(self) -> tuple[str, ...]:
        """Monoids of components that no element has changed so far."""
        pairs = zip(self.accumulator.components, self._moved, strict=True)
        return tuple(
            dict.fromkeys(
                part.origin
                for part, moved in pairs
                if not moved and (part.state is not None or not _named(part))
            )
        )

    def triples(
        self, rows: InputArrays, *, rounds: bool, near_ends: bool = False, of: float | None = None
    ) -> str:
        """Try triples of accumulators of these elements; say what is wrong.

        Near the ends of the dtypes only what is of integers alone is tried: floats may overflow, or
        underflow, on the way. `of` looks for nothing but results that are NaN in one order, or
        zeros of one sign, and something else in another.
        """
        count = len(rows[0])
        rng = np.random.default_rng(0)
        triples = rng.integers(0, (count + 1) ** 2, (_TRIPLES, 3), np.uint64)
        triples[: _TRIPLES // 2] %= count + 1  # half of them of single elements
        elements = elements_of(self.accumulator, rows)
        for number, part in enumerate(self.accumulator.components):
            with np.errstate(all="ignore"):
                fields = triples_of(Reference(part), elements, triples)
            self._moved[number] |= _tells(fields)
            laws = (() if _named(part) else _ORDER) + _IDENTITY + (_STREAMS if part.state else ())
            largest = {name: largest_of(array) for name, array in fields.items()}
            least, plain = part.rtol or 0.0, _is_plain(part)
            if near_ends and any(one.dtype.kind == "f" for one in walk(part.trees)):
                continue
            laws = laws if of is None else _ORDER if not _named(part) else ()
            for law, left, right in laws:
                u, v = (
                    {name: array[PLACES.index(place)] for name, array in fields.items()}
                    for place in (left, right)
                )
                differ = np.zeros(_TRIPLES, bool)
                for name, (one, other) in _pairs(u, v):
                    if of is not None:
                        differ |= where_oddly_apart(one, other, of)
                        continue
                    rounding = _TRIPLE_STEPS * rounding_of(one) if rounds or plain else 0.0
                    rtol = max(least, rounding)
                    differ |= where_apart(one, other, rtol * largest[name])
                    if (law, left, right) in _IDENTITY and one.dtype.kind == "f":
                        differ &= ~np.isnan(other)  # which ops that are named drop
                    if rounds and one.dtype.kind == "f":
                        differ &= np.isfinite(largest[name])
                found = np.flatnonzero(differ)
                if found.size:
                    shown = counter_example(part, fields, law, left, right, int(found[0]))
                    return f"{shown}; {_REMEDIES[str(of)]}"
        return ""

    def sequences(self, rows: InputArrays) -> str:
        """Fold sequences of these elements in many orders; say what is wrong."""
        elements = sequences(rows)
        return self._orders(elements, SHORT) or self._orders(elements, SEQUENCE)

    def _orders(self, elements: InputArrays, length: int) -> str:
        taken = orders(length)
        looks = 2 * (length // EVERY)
        leaves = elements_of(self.accumulator, elements)
        for number, part in enumerate(self.accumulator.components):
            with np.errstate(all="ignore"):
                fields = folded(Reference(part), leaves, taken)
            self._moved[number] |= _tells(fields)
            for first in range(0, len(taken), EACH):
                some = {name: array[:, first : first + EACH] for name, array in fields.items()}
                for way in range(looks, looks + 1 + bool(part.state)):
                    order = other_result(part, some, looks, way, length)
                    if order is not None:
                        results = {n: (a[looks, 0], a[way, order]) for n, a in some.items()}
                        numbers = taken[first + order] & ~ENDS
                        how = "by accumulate, " if way > looks else ""
                        return disagreement(part, elements[0][numbers], results, how)
        return ""


def _named(part: Component) -> bool:
    """Return whether its ops commute and associate for all elements: `add`, `min`, `max`."""
    return all(isinstance(field.op, str) for field in part.fields)


_PLAIN = {
    "opaque",
    "constant", "input", "field", "index", "add", "subtract", "multiply", "negative", "absolute",
    "minimum", "maximum", "fmin", "fmax", "fma", "select", "cast", "less", "less_equal", "greater",
    "greater_equal", "equal", "not_equal", "bitwise_and", "bitwise_or", "bitwise_xor", "invert",
}  # fmt: skip
"""What rounds as `+`, `-` and `*` do, or not at all: no division, no function."""


def _tells(fields: Mapping[str, np.ndarray]) -> bool:
    """Return whether accumulators differ enough to prove a law: zero and one other prove nothing.

    Two are enough where fields are integers: those of booleans have no others.
    """
    floats = [array for array in fields.values() if array.dtype.kind == "f"]
    most = max(len(np.unique(array)) for array in floats or fields.values())
    return most > 2 or (most == 2 and not floats)


def _is_plain(part: Component) -> bool:
    """Return whether its ops do nothing but add, subtract, multiply and compare."""
    return all(one.op in _PLAIN for one in walk([f.op_tree for f in part.fields]))


def _pairs(
    u: Mapping[str, np.ndarray], v: Mapping[str, np.ndarray]
) -> Iterator[tuple[str, tuple[np.ndarray, np.ndarray]]]:
    return ((name, (u[name], v[name])) for name in u)

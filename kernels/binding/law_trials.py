"""Fold elements by NumPy in the ways that laws compare, and compare and describe the results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from chunkfold.kernels.accumulator.component import Component
from chunkfold.kernels.binding.law_samples import ENDS
from chunkfold.kernels.binding.reference import Reference
from chunkfold.kernels.expressions.nodes import INDEX, Node

PLACES = ("a", "b", "c", "op(a, b)", "op(b, a)", "op(op(a, b), c)", "op(a, op(b, c))",
           "op(zero, a)", "op(a, zero)", "a by accumulate")  # fmt: skip
"""What is made of each triple, in the order of rows."""
_Key = TypeVar("_Key")
EVERY = 16
"""Steps of a sequence of which one is looked at, for how large accumulators grow on the way."""


def triples_of(
    by: Reference, elements: Mapping[Node, np.ndarray], triples: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the fields of PLACES for each triple, (places, triples).

    Accumulator 0 is zero, 1 to `count` are those of single elements, the others op's of two of
    these: all can occur in a fold.
    """
    single = by.lift(elements)
    zero = by.zero(1)
    every = {name: np.concatenate([zero[name], array]) for name, array in single.items()}
    count = len(elements[INDEX])
    first, second = np.divmod(triples, count + 1)

    def reached(column: int) -> dict[str, np.ndarray]:
        one, other = ({n: a[side[:, column]] for n, a in every.items()} for side in (first, second))
        both = by.op(one, other)
        alone = first[:, column] == 0
        return {name: np.where(alone, other[name], both[name]) for name in both}

    a, b, c = map(reached, range(3))
    none = by.zero(len(triples))
    ab = by.op(a, b)
    places = [a, b, c, ab, by.op(b, a), by.op(ab, c), by.op(a, by.op(b, c)), by.op(none, a),
              by.op(a, none), _streamed(by, elements, first[:, 0], second[:, 0])]  # fmt: skip
    return {name: np.stack([np.broadcast_to(p[name], len(triples)) for p in places]) for name in a}


def _streamed(
    by: Reference, elements: Mapping[Node, np.ndarray], first: np.ndarray, second: np.ndarray
) -> Mapping[str, np.ndarray]:
    """Return accumulators of up to two elements by one stream."""
    if by.part.state is None:
        return by.zero(len(first))

    def taken(held: dict[str, np.ndarray], begun: np.ndarray, which: np.ndarray) -> Any:
        there = which > 0
        some = {leaf: array[np.maximum(which, 1) - 1] for leaf, array in elements.items()}
        now, begins = by.step(held, begun, some)
        return {n: np.where(there, now[n], held[n]) for n in held}, np.where(there, begins, begun)

    one, begun = taken(by.start(len(first)), np.zeros(len(first), bool), first)
    both, _ = taken(one, begun, second)
    return by.end(both)


def folded(
    by: Reference, elements: Mapping[Node, np.ndarray], taken: np.ndarray
) -> dict[str, np.ndarray]:
    """Fold elements in many orders, each in parts: a place each.

    An order names the elements, and by its highest bit those that end a part, which is folded by
    itself and then put to the parts before it. Returns of each order what the part and all before
    it were after every `EVERY` elements, and in the end the result: by op, and by streams.
    """
    count = len(taken)
    # A row for each step: to cut one is quick, and to gather one in each step is not.
    numbers, ends = (taken.T & ~ENDS).astype(np.int64), (taken.T & ENDS) != 0
    steps = _gathered(by.lift(elements), numbers)
    nothing = by.zero(count)
    part = total = streamed = nothing
    stream = by.part.state is not None
    fresh = by.start(count) if stream else {}
    state, begun = fresh, np.zeros(count, bool)
    given = _gathered(elements, numbers) if stream else {}
    looks: list[Mapping[str, np.ndarray]] = []
    for at, any_ends in enumerate(ends.any(axis=1)):
        part = by.op(part, {name: array[at] for name, array in steps.items()})
        if stream:
            some = {leaf: array[at] for leaf, array in given.items()}
            state, begun = by.step(state, begun, some)
        if (at + 1) % EVERY == 0:
            looks += [part, total]
        if any_ends:
            last = ends[at]
            total = _where(last, by.op(total, part), total)
            part = _where(last, nothing, part)
            if stream:
                streamed = _where(last, by.op(streamed, by.end(state)), streamed)
                state, begun = _where(last, fresh, state), begun & ~last
    looks += [total, streamed]
    return {name: np.stack([np.broadcast_to(o[name], count) for o in looks]) for name in total}


def _gathered(held: Mapping[_Key, np.ndarray], numbers: np.ndarray) -> dict[_Key, np.ndarray]:
    return {key: array[numbers] for key, array in held.items()}


def _where(
    places: np.ndarray, yes: Mapping[str, np.ndarray], no: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    return {name: np.where(places, yes[name], no[name]) for name in no}


_SHOWN = 6
"""Elements of a sequence that a counter-example shows."""


def rounding_of(values: np.ndarray) -> float:
    """Return what one rounding may change, relative; 0 of integers."""
    return float(np.finfo(values.dtype).eps) if values.dtype.kind == "f" else 0.0


def largest_of(values: np.ndarray) -> np.ndarray:
    """Return the largest magnitude met on the way, as float64; NaN where one is NaN."""
    largest: np.ndarray = np.abs(values.astype(np.float64)).max(axis=0)
    return largest


def where_apart(u: np.ndarray, v: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Return where two differ by more than that; NaN equals NaN."""
    differ = np.asarray((u != v) & ~((u != u) & (v != v)))
    if u.dtype.kind == "f":
        with np.errstate(invalid="ignore", over="ignore"):
            differ &= ~(np.abs(u.astype(np.float64) - v.astype(np.float64)) <= most)
    return differ


def where_oddly_apart(one: np.ndarray, other: np.ndarray, of: float) -> np.ndarray:
    """Return where one result is NaN and the other not; or both are 0, of unlike signs."""
    if one.dtype.kind != "f":
        return one != other if of != of else np.zeros(one.shape, bool)
    if of != of:
        return np.asarray(np.isnan(one) != np.isnan(other))
    return np.asarray((one == 0) & (other == 0) & (np.signbit(one) != np.signbit(other)))


def counter_example(
    part: Component,
    fields: Mapping[str, np.ndarray],
    law: str,
    left: str,
    right: str,
    triple: int,
) -> str:
    """Tell a triple of accumulators that breaks a law."""

    def shown(place: str) -> str:
        row = PLACES.index(place)
        return ", ".join(f"{name}={array[row, triple].item()!r}" for name, array in fields.items())

    used = sorted(set(re.findall(r"\b[abc]\b", f"{left} {right}")))
    known = "; ".join(f"{name} is ({shown(name)})" for name in used)
    return (
        f"monoid {part.origin!r}: {law}: where {known}, {left} is ({shown(left)}), but {right} is "
        f"({shown(right)})"
    )


def other_result(
    part: Component, fields: Mapping[str, np.ndarray], plain: int, way: int, length: int
) -> int | None:
    """Return an order whose result, by one way, is not that of the first order, by op.

    Orders in which anything overflows are passed over.
    """
    largest = {name: largest_of(array) for name, array in fields.items()}
    usable = np.logical_and.reduce([np.isfinite(one) for one in largest.values()])
    differ = np.zeros(usable.shape, bool)
    for name, array in fields.items():
        rtol = max(part.rtol or 0.0, length * rounding_of(array))
        most = rtol * np.maximum(largest[name], largest[name][0])
        differ |= where_apart(array[plain, 0], array[way], most)
    found = np.flatnonzero(differ & usable & usable[0])
    return int(found[0]) if found.size else None


def disagreement(
    part: Component,
    elements: np.ndarray,
    results: Mapping[str, tuple[np.generic, np.generic]],
    how: str,
) -> str:
    """Tell elements that give two results, each in an order of their own."""
    shown = ", ".join(map(str, elements[:_SHOWN]))
    one, other = (
        ", ".join(f"{name}={pair[side].item()!r}" for name, pair in results.items())
        for side in (0, 1)
    )
    return (
        f"monoid {part.origin!r}: its result depends on the order of elements: {len(elements):,} "
        f"of them (x is {shown}, ...) give ({one}) one after another, but ({other}) {how}in "
        "another order and in parts; correct them, or give rtol if only rounding differs"
    )

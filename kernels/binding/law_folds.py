"""Fold elements by NumPy in the ways that laws compare: triples of accumulators, many orders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

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

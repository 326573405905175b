"""Find the components that several statistics share: each is folded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chunkfold.kernels.accumulator.component import Component


def shared(
    parts: Sequence[Component], together: Sequence[Sequence[Component]]
) -> tuple[tuple[Component, ...], list[int]]:
    """Return what is folded for `parts`, and for each of them which of that.

    Each of `together` are components of one state, which pays where all of them are asked for:
    those of their fields that are folded without a state then have theirs.
    """
    for ways in together:
        if all(any(_folds(way, part) for part in parts) for way in ways):
            states = [[way.state for way in ways if _folds(way, part)] for part in parts]
            parts = [
                replace(part, state=state[0]) if state else part
                for part, state in zip(parts, states, strict=True)
            ]
    each = {part.identity: part for part in parts}
    numbers = {identity: number for number, identity in enumerate(each)}
    return tuple(each.values()), [numbers[part.identity] for part in parts]


def _folds(way: Component, part: Component) -> bool:
    """Return whether one component's state also folds the fields of another."""
    if part.state not in (None, way.state):
        return False
    return way.identity == replace(part, state=way.state).identity

"""Which components several statistics share: each is folded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chunkfold.kernels.component import Component


def shared(
    parts: Sequence[Component], together: Sequence[Sequence[Component]]
) -> tuple[Component, ...]:
    """Return what is folded for `parts`.

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
    return tuple({part.identity: part for part in parts}.values())


def home(part: Component, components: Sequence[Component]) -> int:
    """Return the number of the component that folds `part`, or else its fields."""
    identities = [one.identity for one in components]
    if part.identity in identities:
        return identities.index(part.identity)
    return next(number for number, one in enumerate(components) if _folds(one, part))


def _folds(one: Component, part: Component) -> bool:
    """Whether a component folds the fields of another, in its own way or as if by themselves."""
    if part.state not in (None, one.state):
        return False
    return one.identity == replace(part, state=one.state).identity

"""What of an accumulator is added up by key as integers: exact sums, sums of integers, counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from chunkfold.kernels.accumulator import Accumulator
from chunkfold.kernels.component import Component
from chunkfold.kernels.expressions.nodes import Node, constant_value
from chunkfold.kernels.limbs import FORMATS

WINDOWS = 3
"""Digits of an exact sum, at most: CHF_WINDOWS in kernels/keyed/digits.clh."""


def is_sum(part: Component) -> bool:
    """Whether every field of a component is a sum that integers hold.

    A state of its own does not matter: it is a faster way to the same.
    """
    if part.limbs is not None:
        return part.limbs.terms > 0
    return part.table is None and all(
        field.op == "add" and "int" in field.dtype for field in part.fields
    )


def is_count(lift: Node) -> bool:
    """Whether a sum adds 1 for each element."""
    return lift.op == "constant" and constant_value(lift) == 1


@dataclass(frozen=True)
class Sums:
    """The sums of an accumulator, and the words that they are in tables."""

    accumulator: Accumulator
    """Of nothing else, in the form with limbs."""

    @cached_property
    def exact(self) -> tuple[int, ...]:
        """Numbers of the components that are exact sums."""
        parts = enumerate(self.accumulator.components)
        return tuple(number for number, part in parts if part.limbs)

    @cached_property
    def wide(self) -> tuple[tuple[int, int], ...]:
        """Component and field of each other sum of 64 bits."""
        return tuple(place for place, lift in self._others if not is_count(lift))

    @cached_property
    def narrow(self) -> tuple[tuple[int, int], ...]:
        """Component and field of each count: 32 bits do for those of a work-group."""
        return tuple(place for place, lift in self._others if is_count(lift))

    @property
    def _others(self) -> list[tuple[tuple[int, int], Node]]:
        return [
            ((number, at), field.lift)
            for number, part in enumerate(self.accumulator.components)
            if not part.limbs
            for at, field in enumerate(part.fields)
        ]

    @property
    def words(self) -> int:
        """Words of 64 bits that each entry has in global memory, two halves each."""
        return 2 * (WINDOWS * len(self.exact) + len(self.wide) + len(self.narrow))

    def key_bytes(self, windows: int) -> int:
        """Bytes of local memory for each key."""
        return 8 * (windows * len(self.exact) + len(self.wide)) + 4 * len(self.narrow)

    @property
    def doubles(self) -> int:
        """Doubles that an element adds to an exact sum, at most."""
        parts = (self.accumulator.components[number] for number in self.exact)
        return max((2 if part.limbs and part.limbs.paired else 1 for part in parts), default=1)

    @property
    def digits(self) -> int:
        """Digits that hold an ordinary value."""
        return max((_digits(self.accumulator.components[n]) for n in self.exact), default=0)


def _digits(part: Component) -> int:
    limbs = part.limbs
    assert limbs is not None
    bits = limbs.degree * next(
        form.precision
        for form in FORMATS.values()
        if limbs.degree * form.least == limbs.low
    )
    return min(WINDOWS, -(-bits // 34))


def divided(
    accumulator: Accumulator, *, sums: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the numbers of the components that are added up as integers, and of the others.

    `sums`: whether any is to be. Components that share a state stay together.
    """
    parts = accumulator.components
    added = tuple(number for number, part in enumerate(parts) if sums and is_sum(part))
    return added, tuple(number for number in range(len(parts)) if number not in added)


def part_of(accumulator: Accumulator, numbers: Sequence[int]) -> Accumulator:
    """Return an accumulator of some components of another."""
    return replace(accumulator, components=tuple(accumulator.components[n] for n in numbers))


def as_sums(accumulator: Accumulator, numbers: Sequence[int]) -> Sums:
    """Return some components as sums alone, without states."""
    of = part_of(accumulator, numbers).with_limbs()
    parts = tuple(replace(part, state=None) for part in of.components)
    return Sums(replace(of, components=parts))



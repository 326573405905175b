"""Lay out the components that work-items share by key: integer sums, extremes, counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.component import Component
from chunkfold.kernels.accumulator.traits import Deposit, traits_of
from chunkfold.kernels.device.device import Device
from chunkfold.kernels.kinds.exact_digits import MOST_DIGITS, ordinary_digits
from chunkfold.kernels.kinds.kind import KeyedPlace

_ARRAYS = {
    Deposit.EXTREME64: "extremes64", Deposit.COUNT: "counts", Deposit.EXTREME32: "extremes32",
}  # fmt: skip
"""Members of `contribution_t` that hold other things than sums."""
FieldAt = tuple[int, str]
"""The number of a component, and the name of a field of it, or of its state."""


def is_shared(device: Device, part: Component, *, many: bool) -> bool:
    """Return whether work-items share a component's accumulator: integers, added or compared.

    Counters, positions and sums of floats that may round are shared if there are `many` work-items:
    not each has room for its own.
    """
    traits = traits_of(part)
    if many and device.fp64 and traits.exact is not None:
        return True
    adds = {what for what, _ in traits.deposits}
    if not many and adds & {Deposit.COUNTER, Deposit.INDEX}:
        return False
    wide = adds & {Deposit.EXTREME64, Deposit.INDEX}
    return bool(adds) and (not wide or _compares64(device))


def _compares64(device: Device) -> bool:
    """Return whether work-items can keep the greatest of 64-bit integers together."""
    extended = "cl_khr_int64_extended_atomics" in device.extensions
    return extended and device.lacks("int64_atomics") is None


@dataclass(frozen=True)
class SharedLayout:
    """The places of an accumulator's fields in shared tables (kernels/cl/keyed/shared.clh)."""

    accumulator: Accumulator
    """The shared components only, in the form with limbs."""

    @cached_property
    def places(self) -> Mapping[Deposit, tuple[FieldAt, ...]]:
        """The fields that add each kind of thing to tables."""
        found = {
            what: [(number, name) for number, kind, name in self._deposits if kind is what]
            for what in Deposit
        }
        return {what: tuple(places) for what, places in found.items()}

    @property
    def _deposits(self) -> list[tuple[int, Deposit, str]]:
        return [
            (number, what, name)
            for number, part in enumerate(self.accumulator.components)
            for what, name in traits_of(part).deposits
        ]

    @property
    def exact(self) -> tuple[FieldAt, ...]:
        """Exact sums, as digits."""
        return self.places[Deposit.DIGITS]

    @property
    def sums(self) -> tuple[FieldAt, ...]:
        """Sums of 64 bits, of fields and then of states."""
        return self.places[Deposit.SUM] + self.places[Deposit.STATE]

    @cached_property
    def word_of(self) -> Mapping[FieldAt, int]:
        """The number of each field's first word in an entry of global memory."""
        single = (Deposit.EXTREME64, Deposit.COUNT, Deposit.EXTREME32, Deposit.INDEX)
        others = [*self.sums, *(at for what in single for at in self.places[what])]
        digits = MOST_DIGITS * len(self.exact)
        words = {at: MOST_DIGITS * n for n, at in enumerate(self.exact)}
        return words | {at: n for n, at in enumerate(others, digits)}

    def place_of(self, number: int) -> KeyedPlace:
        """Return where what a component adds is in tables."""
        words = {name: word for (own, name), word in self.word_of.items() if own == number}
        targets = {name: f"p->sums[{word}]" for name, word in words.items()}
        for what, array in _ARRAYS.items():
            for n, (own, name) in enumerate(self.places[what]):
                if own == number:
                    targets[name] = f"p->{array}[{n}]"
        return KeyedPlace(
            targets,
            words,
            exact=sum(own < number for own, _ in self.exact),
            counter=sum(own < number for own, _ in self.places[Deposit.COUNTER]),
            table=sum(one.entries for one in self.accumulator.tables if one.component < number),
        )

    @property
    def words(self) -> int:
        """Words of 64 bits of each entry in global memory."""
        return 2 * (len(self.word_of) + (MOST_DIGITS - 1) * len(self.exact))

    def key_bytes(self, digits: int) -> int:
        """Bytes of local memory for each key."""
        wide = digits * len(self.exact) + len(self.sums) + len(self.places[Deposit.EXTREME64])
        narrow = len(self.places[Deposit.COUNT]) + len(self.places[Deposit.EXTREME32])
        return 8 * wide + 4 * narrow

    @property
    def doubles(self) -> int:
        """Doubles that an element adds to an exact sum, at most."""
        parts = (self.accumulator.components[number] for number, _ in self.exact)
        return max((2 if part.limbs and part.limbs.paired else 1 for part in parts), default=1)

    @property
    def ordinary_digits(self) -> int:
        """Digits that hold an ordinary value; 1 if there is no exact sum."""
        parts = (self.accumulator.components[number] for number, _ in self.exact)
        return max(map(ordinary_digits, parts), default=1)


def split_shareable(
    device: Device, accumulator: Accumulator, *, many: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the numbers of the components that work-items share, and of the others."""
    parts = enumerate(accumulator.components)
    shared = tuple(number for number, part in parts if is_shared(device, part, many=many))
    every = range(len(accumulator.components))
    return shared, tuple(number for number in every if number not in shared)


def with_components(accumulator: Accumulator, numbers: Sequence[int]) -> Accumulator:
    """Return an accumulator of some components of another."""
    return replace(accumulator, components=tuple(accumulator.components[n] for n in numbers))


def shared_of(accumulator: Accumulator, numbers: Sequence[int]) -> SharedLayout:
    """Return some components, which work-items can share; with a state where that is shared."""
    of = with_components(accumulator, numbers)
    exact = tuple(traits_of(part).exact or part for part in of.components)
    of = replace(of, components=exact).with_limbs()
    parts = tuple(
        part if traits_of(part).shares_state else replace(part, state=None)
        for part in of.components
    )
    return SharedLayout(replace(of, components=parts))

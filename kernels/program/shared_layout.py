"""What of an accumulator work-items share by key: sums as integers, extremes, counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.component import BoundField, Component, exact_field
from chunkfold.kernels.accumulator.indices import is_position
from chunkfold.kernels.device.device import Device
from chunkfold.kernels.exact.limbs import FORMATS, Format, Limbs
from chunkfold.kernels.exact.polynomials import PolynomialError
from chunkfold.kernels.expressions.nodes import constant_value, walk
from chunkfold.kernels.program.joins import emptied, joins
from chunkfold.kernels.program.opencl_code import defined

MOST_DIGITS = defined("keyed/digits.clh", "CHF_MOST_DIGITS")
"""Digits of an exact sum, at most."""
_BITS = 34
"""Bits that a digit has at least where up to 2**28 elements are added."""
FieldAt = tuple[int, int]
"""The number of a component, and of a field of it."""


def is_shared(device: Device, part: Component, *, many: bool) -> bool:
    """Whether work-items share a component's accumulator: integers that are added or compared.

    Or its state, if that is sums of integers. Counters, positions and sums of floats that may round
    are shared if there are `many` work-items: there is no room for each one's own.
    """
    if part.limbs is not None:
        return _in_digits(part.limbs)
    if part.table is not None:
        return many
    if is_position(part):
        return many and _compares64(device)
    if many and device.fp64 and exact_form(part) is not None:
        return True
    return _shares_fields(device, part) or bool(summed_state(part))


def exact_form(part: Component) -> Component | None:
    """Return a sum of floats, or of their squares, that may round as one that does not; else None.

    To add floats up together work-items need integers, whose sums are exact.
    """
    (field, *others) = part.fields
    if others or part.state or part.limbs or field.op != "add" or "float" not in field.dtype:
        return None
    read = {one.arg[0]: one.dtype for one in walk([field.lift]) if one.op == "input"}
    values = [read.get(n, np.dtype(np.float64)) for n in range(1 + max(read, default=0))]
    try:
        exact = replace(part, fields=(exact_field(field.name, field.lift, values),))
    except PolynomialError:
        return None
    return exact if exact.limbs is not None and _in_digits(exact.limbs) else None


def _shares_fields(device: Device, part: Component) -> bool:
    """Whether work-items can share fields as they are, whatever state a component has."""
    compares = _compares64(device)
    return all(
        field.op == "add" or (field.op in ("min", "max") and (compares or "32" in field.dtype))
        for field in part.fields
    ) and all("int" in field.dtype for field in part.fields)


def _compares64(device: Device) -> bool:
    """Whether work-items can keep the greatest of 64-bit integers together."""
    extended = "cl_khr_int64_extended_atomics" in device.extensions
    return extended and device.lacks("int64_atomics") is None


def summed_state(part: Component) -> tuple[str, ...]:
    """Return the fields of a component's state, if the state of many elements is the sum of theirs.

    They are 64 bits each; a narrower one that a step always empties into them is left out.
    """
    state = part.state
    if state is None or state.first:
        return ()
    gone, added = emptied(state), joins(state)
    kept = tuple(name for name, _, _ in state.fields if name not in gone)
    sums = all(tree.op == "add" and tree.dtype.kind in "iu" for tree in added.values())
    wide = all(state.dtypes[name] in ("int64", "uint64") for name in kept)
    return kept if added and sums and wide else ()


def _counts(field: BoundField) -> bool:
    """Whether a sum adds 1 for each element: 32 bits do for those of a work-group."""
    return field.op == "add" and field.lift.op == "constant" and constant_value(field.lift) == 1


@dataclass(frozen=True)
class SharedLayout:
    """Where the fields of an accumulator are in shared tables (kernels/cl/keyed/shared.clh)."""

    accumulator: Accumulator
    """Of nothing else, in the form with limbs."""

    @cached_property
    def exact(self) -> tuple[int, ...]:
        """Numbers of the components that are exact sums."""
        parts = enumerate(self.accumulator.components)
        return tuple(number for number, part in parts if part.limbs)

    @cached_property
    def sums(self) -> tuple[FieldAt, ...]:
        """Other sums, of 64 bits."""
        return tuple(p for p, f in self._others if f.op == "add" and not _counts(f))

    @cached_property
    def states(self) -> tuple[tuple[int, str], ...]:
        """Numbers of the components whose states are summed, and their fields: 64 bits each."""
        parts = enumerate(self.accumulator.components)
        return tuple((number, name) for number, part in parts for name in summed_state(part))

    @cached_property
    def extremes64(self) -> tuple[FieldAt, ...]:
        """Extremes of 64 bits."""
        return tuple(p for p, f in self._others if f.op != "add" and "64" in f.dtype)

    @cached_property
    def counts(self) -> tuple[FieldAt, ...]:
        """Counts of elements."""
        return tuple(p for p, f in self._others if _counts(f))

    @cached_property
    def extremes32(self) -> tuple[FieldAt, ...]:
        """Extremes of 32 bits."""
        return tuple(p for p, f in self._others if f.op != "add" and "32" in f.dtype)

    @cached_property
    def counters(self) -> tuple[int, ...]:
        """Numbers of the components that are counters: those stand beside limbs."""
        parts = enumerate(self.accumulator.components)
        return tuple(number for number, part in parts if part.table and not part.limbs)

    @cached_property
    def indices(self) -> tuple[int, ...]:
        """Numbers of the components that are positions: their extremes are among the others."""
        parts = enumerate(self.accumulator.components)
        return tuple(number for number, part in parts if is_position(part))

    @property
    def _others(self) -> list[tuple[FieldAt, BoundField]]:
        return [
            ((number, at), field)
            for number, part in enumerate(self.accumulator.components)
            if part.table is None and part.state is None
            for at, field in enumerate(part.fields)
            if isinstance(field.op, str)
        ]

    @property
    def words(self) -> int:
        """Words of 64 bits of each entry in global memory."""
        single = (
            *(self.sums, self.states, self.extremes64, self.counts, self.extremes32),
            self.indices,
        )
        return 2 * (MOST_DIGITS * len(self.exact) + sum(map(len, single)))

    def key_bytes(self, digits: int) -> int:
        """Bytes of local memory for each key."""
        wide = digits * len(self.exact) + len(self.sums) + len(self.states) + len(self.extremes64)
        return 8 * wide + 4 * (len(self.counts) + len(self.extremes32))

    @property
    def doubles(self) -> int:
        """Doubles that an element adds to an exact sum, at most."""
        parts = (self.accumulator.components[number] for number in self.exact)
        return max((2 if part.limbs and part.limbs.paired else 1 for part in parts), default=1)

    @property
    def ordinary_digits(self) -> int:
        """Digits that hold an ordinary value; 1 if there is no exact sum."""
        return max((ordinary_digits(self.accumulator.components[n]) for n in self.exact), default=1)


def ordinary_digits(part: Component) -> int:
    """Return how many digits hold an ordinary value of an exact sum."""
    limbs = part.limbs
    assert limbs is not None
    form = _form(limbs)
    assert form is not None
    return min(MOST_DIGITS, -(-limbs.power * form.precision // _BITS))


def _in_digits(limbs: Limbs) -> bool:
    """Whether what an exact sum is of goes into digits: doubles, or their squares."""
    return limbs.terms > 0 and _form(limbs) is not None


def _form(limbs: Limbs) -> Format | None:
    """Return the format whose values, or squares, are summed; None for other polynomials."""
    forms = FORMATS.values()
    of_power = (form for form in forms if limbs.power * form.least == limbs.low)
    return next(of_power, None) if limbs.power else None


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


def shared_of(device: Device, accumulator: Accumulator, numbers: Sequence[int]) -> SharedLayout:
    """Return some components, which work-items can share; with a state where that is shared."""
    of = with_components(accumulator, numbers)
    exact = tuple(exact_form(part) or part for part in of.components)
    of = replace(of, components=exact).with_limbs()
    parts = tuple(
        replace(part, state=None) if part.limbs or _shares_fields(device, part) else part
        for part in of.components
    )
    return SharedLayout(replace(of, components=parts))

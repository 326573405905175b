"""How a question's accumulators are made of those of another question, which keeps more axes.

Sums of a map are made of those of its points. Gray et al., "Data Cube" (1997), call that rolling
up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from chunkfold.kernels import Accumulator, Partial
from chunkfold.kernels.accumulator.accumulator import Slot
from chunkfold.kernels.accumulator.component import ELEMENTS, BoundField, Component

_COPIES = 6
"""Of the other's accumulators, while they are combined."""


@dataclass(frozen=True)
class RollUp:
    """How a question's accumulators are made of those of another, which keeps more axes."""

    number: int
    """Of the other, among the questions of a plan."""
    apart: tuple[int, ...]
    """Axes that this one reduces, and the other keeps."""
    combined: int
    """Accumulators of the other that there are."""
    folded: Accumulator
    """This one's, in the form that the other's have."""
    arrays: Mapping[str, str | None]
    """The other's array that each of its arrays is; None: how many elements there are."""
    sums: Mapping[str, str]
    """The same of exact sums, by the names that their arrays begin with."""
    counts: str | None
    """The other's array that counts elements; None if its partials know."""

    @property
    def nbytes(self) -> int:
        """Bytes of a block's accumulators of the other, and of copies, while they are combined."""
        return _COPIES * self.combined * self.folded.nbytes

    def of(self, partial: Partial) -> Partial:
        """Return what a partial of the other's has of this one."""
        known = partial.count if self.counts is None else partial.arrays[self.counts]
        counts = np.array(np.broadcast_to(known, partial.outputs), np.int64)
        arrays = {
            own: counts if name is None else partial.arrays[name]
            for own, name in self.arrays.items()
        }
        wide = {own: partial.wide[name] for own, name in self.sums.items() if name in partial.wide}
        return Partial(arrays, wide, counts)


def roll_up(
    accumulator: Accumulator,
    other: Accumulator,
    number: int,
    apart: tuple[int, ...],
    combined: int,
    *,
    counted: bool,
) -> RollUp | None:
    """Return how an accumulator is made of another's; None if it is not.

    Each of its components must be one of the other's, and read nothing of where elements are.

    Parameters
    ----------
    number, apart, combined
        Fields of a `RollUp`.
    counted
        Whether the other's partials know how many elements they are of.
    """
    own = accumulator if other.in_limbs else accumulator.for_outputs(2)
    inputs = own.stored, own.value, own.swapped, own.packings
    if inputs != (other.stored, other.value, other.swapped, other.packings):
        return None
    if own.uses_index or (other.in_limbs and not accumulator.in_limbs):
        return None
    numbers = {_identity(part): n for n, part in reversed([*enumerate(other.components)])}
    elements = numbers.get(_identity(Component("", (ELEMENTS,))))
    counts = None if counted or elements is None else Slot(elements, ELEMENTS).name
    if not counted and counts is None:
        return None
    homes = [numbers.get(_identity(part)) for part in own.components]
    arrays: dict[str, str | None] = {}
    for slot in own.slots:
        home, part = homes[slot.component], own.components[slot.component]
        if home is not None:
            field = other.components[home].fields[part.fields.index(slot.field)]
            arrays[slot.name] = replace(slot, component=home, field=field).name
        elif _identity(part) == _identity(Component("", (ELEMENTS,))):
            arrays[slot.name] = counts
        else:
            return None
    sums = {}
    for n, home in enumerate(homes):
        if home is not None and own.components[n].limbs:
            sums[_first(own, n)] = _first(other, home)
    return RollUp(number, apart, combined, own, arrays, sums, counts)


def _first(accumulator: Accumulator, number: int) -> str:
    """Return the name that the arrays of a component's first field begin with."""
    return Slot(number, accumulator.components[number].fields[0]).name


def _identity(part: Component) -> object:
    """Return what two components share that are the same but for their form, and for names."""
    named = all(isinstance(field.op, str) for field in part.fields) and part.state is None
    fields = tuple(_limbed(field, named=named) for field in part.fields)
    return replace(part, fields=fields).identity


def _limbed(field: BoundField, *, named: bool) -> BoundField:
    limbed = field.with_limbs()
    return replace(limbed, name="") if named else limbed

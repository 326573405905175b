"""The accumulator that kernels fold into: every dtype decided, plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from chunkfold.kernels.accumulator.component import ELEMENTS, BoundField, Component
from chunkfold.kernels.accumulator.packing import Packing
from chunkfold.kernels.accumulator.traits import traits_of
from chunkfold.kernels.dtypes import STORED
from chunkfold.kernels.expressions.nodes import INDEX, constant, walk
from chunkfold.kernels.monoid.trees import COLLECTIVES


@dataclass(frozen=True)
class Slot:
    """One array of a partial."""

    component: int
    field: BoundField
    term: int | None = None
    """Which double it is of an expansion; None if it is a whole field."""

    @property
    def name(self) -> str:
        """Unique within an accumulator."""
        term = "" if self.term is None else self.term
        return f"c{self.component}_{self.field.name}{term}"

    @property
    def member(self) -> str:
        """Name of the slot in kernels, within the component's accumulator."""
        return self.field.name if self.term is None else f"a[{self.term}]"

    @property
    def dtype(self) -> np.dtype:
        """Dtype of the array."""
        return np.dtype(self.field.dtype)

    @property
    def entries(self) -> int:
        """Items of the array for each output."""
        return self.field.entries or 1

    def shape(self, outputs: int) -> tuple[int, ...]:
        """Shape of the array: tables have a second axis."""
        return (outputs,) if self.field.entries is None else (outputs, self.entries)


@dataclass(frozen=True)
class Accumulator:
    """All that kernels need to know of a reduction: plain data, picklable, hashable."""

    stored: tuple[str, ...]
    """Dtype of each input's elements in memory."""
    value: tuple[str, ...]
    """Dtype that `lift` sees, for each input."""
    components: tuple[Component, ...]
    swapped: tuple[bool, ...]
    """Whether each input's elements stand in the byte order that is not the device's."""
    packings: tuple[Packing | None, ...]
    """How values are made of each input's elements, if they are not what is stored."""

    @property
    def origins(self) -> str:
        """The monoids it serves, for messages."""
        return ", ".join(dict.fromkeys(component.origin for component in self.components))

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """Arrays of a partial."""
        return (*self.scalars, *self.tables)

    @cached_property
    def scalars(self) -> tuple[Slot, ...]:
        """Arrays of one item an output, widest first so that each is aligned behind the others."""
        slots = [
            Slot(number, field, term)
            for number, component in enumerate(self.components)
            if component.table is None
            for field in component.fields
            for term in (range(field.terms) if field.terms else [None])
        ]
        return tuple(sorted(slots, key=lambda slot: -slot.dtype.itemsize))

    @cached_property
    def tables(self) -> tuple[Slot, ...]:
        """Arrays of counters."""
        return tuple(
            Slot(number, component.table)
            for number, component in enumerate(self.components)
            if component.table is not None
        )

    def for_outputs(self, outputs: int) -> Accumulator:
        """Return the form for so many outputs: many have expansions, for limbs are large."""
        return self if outputs == 1 else self._with(BoundField.with_terms)

    def with_limbs(self) -> Accumulator:
        """Return the form whose exact sums hold whatever is added: tables of limbs."""
        return self._with(BoundField.with_limbs)

    def _with(self, form: Callable[[BoundField], BoundField]) -> Accumulator:
        parts = [replace(c, fields=tuple(map(form, c.fields))) for c in self.components]
        return replace(self, components=tuple(parts))

    @property
    def alike(self) -> Accumulator:
        """Return one whose kernels differ in packings' numbers at most: they are tuned alike."""
        return replace(self, packings=tuple(one and one.alike for one in self.packings))

    def for_passes(self) -> Accumulator:
        """Return what the passes see of it: no elements, so that many have the same passes."""
        if self.exact:
            return self
        parts = [
            Component(c.origin, tuple(map(_without_elements, c.fields))) for c in self.components
        ]
        return Accumulator(("uint8",), ("uint8",), tuple(parts), (False,), (None,))

    @cached_property
    def sums(self) -> Mapping[str, BoundField]:
        """The exact sums, by the names that their slots begin with."""
        return {
            Slot(number, part.fields[0]).name: part.fields[0]
            for number, part in enumerate(self.components)
            if part.limbs
        }

    @cached_property
    def exact(self) -> bool:
        """True if any sum is exact."""
        return any(part.limbs for part in self.components)

    @cached_property
    def in_limbs(self) -> bool:
        """True if any table holds limbs, which must not overflow."""
        return any(slot.field.limbs for slot in self.tables)

    @cached_property
    def deposits(self) -> int:
        """Deposits into one table that an element counts for (`limbs.MOST_DEPOSITS`)."""
        return max((field.deposits for field in self.sums.values()), default=1)

    @property
    def state_bytes(self) -> int:
        """Bytes of what a stream of elements is folded into; of exact sums the expansions."""
        tables = (f.limbs.terms if f.limbs else f.entries or 0 for f in self._table_fields)
        return self.scalar_bytes + 8 * sum(tables)

    @property
    def item_bytes(self) -> int:
        """Bytes of what a work-item hands to its group: of exact sums also where limbs are."""
        terms = (f.limbs.terms + 1 for f in self._table_fields if f.limbs)
        return self.scalar_bytes + 8 * sum(terms)

    @property
    def _table_fields(self) -> tuple[BoundField, ...]:
        return tuple(slot.field for slot in self.tables)

    @cached_property
    def scalar_bytes(self) -> int:
        """Bytes of one accumulator's scalars."""
        return sum(slot.dtype.itemsize for slot in self.scalars)

    @property
    def entries(self) -> int:
        """Counters of one accumulator's tables."""
        return sum(slot.entries for slot in self.tables)

    @property
    def nbytes(self) -> int:
        """Bytes of one accumulator in a partial."""
        return sum(slot.entries * slot.dtype.itemsize for slot in self.slots)

    @property
    def constant_bytes(self) -> int:
        """Bytes of the tables that trees look things up in."""
        trees = [tree for component in self.components for tree in component.trees]
        return sum(len(one.arg[0]) for one in walk(trees) if one.op in ("lookup", "search"))

    @property
    def itemsizes(self) -> tuple[int, ...]:
        """Bytes of one element of each input."""
        return tuple(STORED[name].itemsize for name in self.stored)

    @property
    def element_bytes(self) -> int:
        """Bytes of one element, over all inputs."""
        return sum(self.itemsizes)

    @property
    def collective(self) -> bool:
        """True if built-in functions of OpenCL merge the accumulators of work-items."""
        scalars = [part for part in self.components if part.table is None]
        return not self.exact and all(
            traits_of(part).is_position or all(field.op in COLLECTIVES for field in part.fields)
            for part in scalars
        )

    @cached_property
    def holders(self) -> tuple[int, ...]:
        """For each component the number of the one that holds its state: the first with the same.

        Two monoids whose `accumulate` differs in its end alone fold one state.
        """
        first: dict[object, int] = {}
        return tuple(
            number if part.stream is None else first.setdefault(part.stream, number)
            for number, part in enumerate(self.components)
        )

    @cached_property
    def uses_index(self) -> bool:
        """True if any tree reads the index."""
        return any(traits_of(part).reads_index for part in self.components)

    @cached_property
    def in_order(self) -> bool:
        """True if elements of each output are folded one by one, in their order."""
        return any(part.in_order for part in self.components)

    @cached_property
    def takes_first(self) -> bool:
        """True if components that read the index keep the first of equal elements."""
        return all(traits_of(part).takes_first for part in self.components)


def _without_elements(field: BoundField) -> BoundField:
    # By the index alone positions are known.
    lift = INDEX if field.lift is INDEX else constant(0, np.dtype(field.dtype))
    return replace(field, lift=lift, adds=())


COUNTS = Accumulator(
    stored=("uint8",),
    value=("uint8",),
    components=(Component("counts", (ELEMENTS,)),),
    swapped=(False,),
    packings=(None,),
)
"""What a table's counters are to the passes: sums, one to an output. Also what kernels fold where
there is nothing else to fold, so that they say how many elements they saw."""

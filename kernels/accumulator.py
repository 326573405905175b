"""The accumulator that kernels fold into: every dtype decided, plain data."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from chunkfold.kernels.dtypes import STORED
from chunkfold.kernels.monoid import COLLECTIVES, Number

_INDEX = re.compile(r"\bi\b")


@dataclass(frozen=True)
class BoundField:
    """A field with its dtype decided."""

    name: str
    dtype: str
    zero: Number | str
    lift: str
    op: str


@dataclass(frozen=True)
class BoundState:
    """An `Accumulate` with its dtypes decided; starts in the order of the state's fields."""

    fields: tuple[tuple[str, str, Number | str], ...]
    """Name, dtype and start of each state field."""
    step: str | tuple[tuple[str, str], ...]
    """Statements, or each state field and its expression, in order."""
    end: tuple[tuple[str, str], ...]
    """Accumulator field and its expression."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The sources of `step`."""
        return (self.step,) if isinstance(self.step, str) else tuple(t for _, t in self.step)


@dataclass(frozen=True)
class Component:
    """The smallest part of an accumulator that folds by itself."""

    origin: str
    """The monoid it came from, for messages."""
    fields: tuple[BoundField, ...]
    state: BoundState | None = None
    skipna: bool = False
    rtol: float | None = None
    """Tolerance within which its laws must hold; None if they are known to."""

    @property
    def identity(self) -> object:
        """What two components must share to be one."""
        return (self.fields, self.state, self.skipna)


@dataclass(frozen=True)
class Slot:
    """One array of a partial."""

    component: int
    field: BoundField

    @property
    def name(self) -> str:
        """Unique within an accumulator."""
        return f"c{self.component}_{self.field.name}"

    @property
    def dtype(self) -> np.dtype:
        """Dtype of the array."""
        return np.dtype(self.field.dtype)


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

    @property
    def origins(self) -> str:
        """The monoids it serves, for messages."""
        return ", ".join(dict.fromkeys(component.origin for component in self.components))

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Arrays of a partial, widest first so that each is aligned behind the others."""
        slots = [
            Slot(number, field)
            for number, component in enumerate(self.components)
            for field in component.fields
        ]
        return tuple(sorted(slots, key=lambda slot: -slot.dtype.itemsize))

    @property
    def nbytes(self) -> int:
        """Bytes of one accumulator in a partial."""
        return sum(slot.dtype.itemsize for slot in self.slots)

    @property
    def element_bytes(self) -> int:
        """Bytes of one element, over all inputs."""
        return sum(STORED[name].itemsize for name in self.stored)

    @property
    def collective(self) -> bool:
        """Whether every op is one that devices have built-ins for."""
        return all(slot.field.op in COLLECTIVES for slot in self.slots)

    @property
    def uses_index(self) -> bool:
        """Whether any source reads the global index `i`."""
        texts = [slot.field.lift for slot in self.slots]
        texts += [text for c in self.components if c.state is not None for text in c.state.texts]
        return any(_INDEX.search(text) for text in texts)

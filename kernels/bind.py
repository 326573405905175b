"""Bind monoids to dtypes: one accumulator for several statistics, shared where they agree."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chunkfold.kernels.dtypes import field_dtype, stored_name
from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.monoid import COLLECTIVES, Fields, Monoid, Number

_KINDS = {"b": "bool", "i": "signed integers", "u": "unsigned integers", "f": "floats"}
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
    step: str
    end: tuple[tuple[str, str], ...]
    """Accumulator field and its expression."""


@dataclass(frozen=True)
class Component:
    """The smallest part of an accumulator that folds by itself."""

    origin: str
    """The monoid it came from, for messages."""
    fields: tuple[BoundField, ...]
    state: BoundState | None = None

    @property
    def identity(self) -> object:
        """What two components must share to be one."""
        return (self.fields, self.state)


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
        return sum(np.dtype(name).itemsize for name in self.stored)

    @property
    def collective(self) -> bool:
        """Whether every op is one that devices have built-ins for."""
        return all(slot.field.op in COLLECTIVES for slot in self.slots)

    @property
    def uses_index(self) -> bool:
        """Whether any source reads the global index `i`."""
        texts = [slot.field.lift for slot in self.slots]
        texts += [c.state.step for c in self.components if c.state is not None]
        return any(_INDEX.search(text) for text in texts)


@dataclass(frozen=True)
class Statistic:
    """One monoid's view of a shared accumulator."""

    monoid: Monoid
    slots: Mapping[str, str]
    """Slot that holds each of the monoid's fields."""
    value: np.dtype
    """Dtype of the values that were lifted."""
    result: np.dtype | None
    """Dtype the caller asked for, if any."""

    def finish(self, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """Finish the root partial's arrays into one result per output."""
        fields: Fields = {name: arrays[slot] for name, slot in self.slots.items()}
        shape = next(iter(fields.values())).shape
        try:
            done = np.asarray(self.monoid.finish(fields, self.value))
        except Exception as error:
            raise MonoidError(
                f"finish of {self.monoid.name!r} raised {type(error).__name__}: {error}"
            ) from error
        if done.shape != shape:
            raise MonoidError(
                f"finish of {self.monoid.name!r} made shape {done.shape} of fields of shape {shape}"
            )
        return done if self.result is None else done.astype(self.result)


@dataclass(frozen=True)
class Bound:
    """Monoids bound to dtypes: what devices fold, and how each result is read off it."""

    accumulator: Accumulator
    statistics: tuple[Statistic, ...]


def bind(
    monoids: Sequence[Monoid],
    dtypes: Sequence[np.dtype],
    *,
    dtype: np.dtype | None = None,
    fp64: bool = True,
) -> Bound:
    """Decide every dtype and lay several monoids over one accumulator.

    Parameters
    ----------
    monoids
        Reductions of the same inputs, folded in one pass.
    dtypes
        Element dtype of each input.
    dtype
        Cast elements to this first, and results at the end, as NumPy's `dtype=` does.
    fp64
        Whether every device of the run has float64.

    Raises
    ------
    MonoidError
        If the number of inputs, or an element's kind, differs from what a monoid takes.
    DeviceError
        If a dtype is not supported.
    """
    value = tuple(np.dtype(stored_name(given if dtype is None else dtype)) for given in dtypes)
    components: dict[object, Component] = {}
    statistics = []
    for monoid in monoids:
        if monoid.inputs != len(dtypes):
            raise MonoidError(
                f"{monoid.name!r} takes {monoid.inputs} input(s), but {len(dtypes)} were given"
            )
        unfit = [str(given) for given in dtypes if given.kind not in monoid.kinds]
        if unfit:
            raise MonoidError(
                f"{monoid.name!r} is not defined for {', '.join(unfit)}, "
                f"only for {', '.join(_KINDS[kind] for kind in monoid.kinds)}"
            )
        slots: dict[str, str] = {}
        for component in _components(monoid, value[0], fp64):
            components.setdefault(component.identity, component)
            number = list(components).index(component.identity)
            slots |= {field.name: Slot(number, field).name for field in component.fields}
        statistics.append(Statistic(monoid, slots, value[0], dtype))
    accumulator = Accumulator(
        stored=tuple(stored_name(given) for given in dtypes),
        value=tuple(given.name for given in value),
        components=tuple(components.values()),
    )
    return Bound(accumulator, tuple(statistics))


def _components(monoid: Monoid, value: np.dtype, fp64: bool) -> list[Component]:
    """Split a monoid where its fields do not depend on each other."""
    assert isinstance(monoid.zero, Mapping)
    assert isinstance(monoid.lift, Mapping)
    assert isinstance(monoid.op, Mapping)
    fields = tuple(
        BoundField(
            name,
            field_dtype(rule, value, fp64),
            monoid.zero[name],
            monoid.lift[name],
            monoid.op[name],
        )
        for name, rule in monoid.fields.items()
    )
    if monoid.accumulate is not None:
        given = monoid.accumulate
        state = BoundState(
            fields=tuple(
                (name, field_dtype(rule, value, fp64), given.start[name])
                for name, rule in given.state.items()
            ),
            step=given.step,
            end=tuple(given.end.items()),
        )
        return [Component(monoid.name, fields, state)]
    if all(field.op in COLLECTIVES for field in fields):
        return [Component(monoid.name, (field,)) for field in fields]
    return [Component(monoid.name, fields)]

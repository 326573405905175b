"""Bind monoids to dtypes: one accumulator for several statistics, shared where they agree."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chunkfold.kernels.catalogue import is_known
from chunkfold.kernels.dtypes import STORED, field_dtype, kind_of, stored_name
from chunkfold.kernels.errors import DeviceError, MonoidError
from chunkfold.kernels.monoid import COLLECTIVES, Context, Fields, Monoid, Number

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


@dataclass(frozen=True)
class Statistic:
    """One monoid's view of a shared accumulator."""

    name: str
    monoid: Monoid
    slots: Mapping[str, str]
    """Slot that holds each of the monoid's fields."""
    value: np.dtype
    """Dtype of the values that were lifted."""
    result: np.dtype | None
    """Dtype the caller asked for, if any."""
    ddof: float

    def finish(
        self,
        arrays: Mapping[str, np.ndarray],
        shape: tuple[int, ...] = (),
        axes: tuple[int, ...] = (),
    ) -> np.ndarray:
        """Finish the root partial's arrays into one result per output.

        `shape` and `axes` are what was reduced (see `Context`).

        Raises
        ------
        MonoidError
            If the monoid's finish fails, or does not give one result per output.
        """
        fields: Fields = {name: arrays[slot] for name, slot in self.slots.items()}
        outputs = next(iter(fields.values())).shape
        try:
            context = Context(self.value, shape, axes, self.ddof)
            done = np.asarray(self.monoid.finish(fields, context))
        except MonoidError:
            raise
        except Exception as error:
            raise MonoidError(
                f"finish of {self.name!r} raised {type(error).__name__}: {error}"
            ) from error
        if done.shape[:1] != outputs:
            raise MonoidError(
                f"finish of {self.name!r} made shape {done.shape} of fields of shape {outputs}"
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
    ddof: float = 0,
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
    ddof
        Delta degrees of freedom of variances.

    Raises
    ------
    MonoidError
        If the number of inputs, or an element's kind, differs from what a monoid takes.
    DeviceError
        If a dtype is not supported.
    """
    value = _common(dtypes) if dtype is None else dtype.newbyteorder("=")
    for given in dtypes:
        if not _castable(given, value):
            raise MonoidError(f"elements of {given} cannot be cast to {value}")
    components: dict[object, Component] = {}
    statistics = []
    for named in monoids:
        if named.inputs != len(dtypes):
            raise MonoidError(
                f"{named.name!r} reduces {_counted(named.inputs)}, but {len(dtypes)} given: "
                "name as many sources"
            )
        monoid = named.for_dtype(value)
        slots: dict[str, str] = {}
        for component in _components(monoid, value, fp64):
            components.setdefault(component.identity, component)
            number = list(components).index(component.identity)
            slots |= {field.name: Slot(number, field).name for field in component.fields}
        result = dtype if monoid.casts else None
        statistics.append(Statistic(named.name, monoid, slots, value, result, ddof))
    accumulator = Accumulator(
        stored=tuple(stored_name(given) for given in dtypes),
        value=(stored_name(value),) * len(dtypes),
        components=tuple(components.values()),
        swapped=tuple(not given.isnative for given in dtypes),
    )
    return Bound(accumulator, tuple(statistics))


def _common(dtypes: Sequence[np.dtype]) -> np.dtype:
    """Return the dtype that holds the values of every input, as NumPy promotes them."""
    for given in dtypes:
        stored_name(given)
    try:
        common = np.result_type(*dtypes).newbyteorder("=")
        stored_name(common)
    except (TypeError, DeviceError):
        names = " and ".join(map(str, dtypes))
        raise MonoidError(f"no dtype holds both {names}; give one with dtype=") from None
    return common


def _counted(inputs: int) -> str:
    return "one array" if inputs == 1 else f"{inputs} arrays together"


def _castable(given: np.dtype, value: np.dtype) -> bool:
    """Whether kernels can make values of elements: numbers only, no part of them lost."""
    if given.newbyteorder("=") == value:
        return True
    kinds = kind_of(given), kind_of(value)
    if value.name == "bfloat16" or set(kinds) & set("mM"):
        return False
    return kinds[1] == "c" or "c" not in kinds


def _components(monoid: Monoid, value: np.dtype, fp64: bool) -> list[Component]:
    """Split a monoid where its fields do not depend on each other."""
    assert isinstance(monoid.zero, Mapping)
    assert isinstance(monoid.lift, Mapping)
    assert isinstance(monoid.op, Mapping)
    rtol = None if is_known(monoid) else monoid.rtol
    skipna = monoid.skipna and kind_of(value) in "fcmM"
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
            step=given.step if isinstance(given.step, str) else tuple(given.step.items()),
            end=tuple(given.end.items()),
        )
        return [Component(monoid.name, fields, state, skipna, rtol)]
    if all(field.op in COLLECTIVES for field in fields):
        return [Component(monoid.name, (field,), None, skipna, rtol) for field in fields]
    return [Component(monoid.name, fields, None, skipna, rtol)]

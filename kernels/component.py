"""The smallest part of an accumulator that folds by itself: fields, and how elements get there."""

from __future__ import annotations

from dataclasses import dataclass, replace

from chunkfold.kernels.limbs import Limbs

Constant = tuple[str, str, bytes]
"""Name, dtype and bytes of an array that texts may read."""


@dataclass(frozen=True)
class BoundField:
    """A field with its dtype decided."""

    name: str
    dtype: str
    zero: str
    """As `number_text` writes it: 0.0 and -0.0 are two."""
    lift: str
    op: str
    entries: int | None = None
    """Of a table of counters, to one of which `lift` adds 1; None for a scalar."""
    limbs: Limbs | None = None
    """Of an exact sum of what `lift` gives: the table is theirs, if there is one."""
    terms: int = 0
    """Doubles whose sum is the exact one, of an exact sum that has no table."""

    def with_terms(self) -> BoundField:
        """Return an exact sum as an expansion; others as they are."""
        if self.limbs is None or not self.limbs.terms:
            return self
        return replace(self, dtype="float64", entries=None, terms=self.limbs.kept)

    def with_limbs(self) -> BoundField:
        """Return an exact sum as a table of limbs; others as they are."""
        if self.limbs is None:
            return self
        return replace(self, dtype="int64", entries=self.limbs.entries, terms=0)


@dataclass(frozen=True)
class BoundState:
    """An `Accumulate` with its dtypes decided; starts in the order of the state's fields."""

    fields: tuple[tuple[str, str, str], ...]
    """Name, dtype and start of each state field."""
    step: str | tuple[tuple[str, str], ...]
    """Statements, or each state field and its expression, in order."""
    end: tuple[tuple[str, str], ...]
    """Accumulator field and its expression."""
    first: tuple[tuple[str, str], ...] = ()
    """State field and its expression of the first element, before its `step`."""
    carry: tuple[tuple[str, str], ...] = ()
    """State field and its expression, in order, now and then after `step`."""
    join: tuple[tuple[str, str], ...] = ()
    """State field and its expression of states `a` and `b`; empty if they only end."""
    join_alike: tuple[tuple[str, str], ...] = ()
    """The same of two that one first element began, without what that set."""

    @property
    def dtypes(self) -> dict[str, str]:
        """Dtype of each state field."""
        return {name: dtype for name, dtype, _ in self.fields}

    @property
    def texts(self) -> tuple[str, ...]:
        """The sources of what takes in elements."""
        step = (("", self.step),) if isinstance(self.step, str) else self.step
        return tuple(text for _, text in (*self.first, *step, *self.carry))


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
    constants: tuple[Constant, ...] = ()

    @property
    def identity(self) -> object:
        """What two components must share to be one."""
        return (self.fields, self.state, self.skipna, self.constants)

    @property
    def stream(self) -> object:
        """What two components must share for one state to do for both; None if it has none."""
        if self.state is None:
            return None
        return (replace(self.state, end=()), self.skipna, self.constants)

    @property
    def limbs(self) -> Limbs | None:
        """How its exact sum is kept, if it is one."""
        return self.fields[0].limbs

    @property
    def table(self) -> BoundField | None:
        """The table that it is, of counters or of limbs, if it is one."""
        return self.fields[0] if self.fields[0].entries is not None else None

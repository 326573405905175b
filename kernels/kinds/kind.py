"""Define the interface of a kind of component: the code that kernels use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.component import Component
from chunkfold.kernels.expressions.nodes import Node


class KeyedPlace(NamedTuple):
    """Places of a component's fields in tables that work-items share (kernels/cl/keyed/)."""

    targets: Mapping[str, str]
    """The member of `contribution_t` that each field, or state field, adds to."""
    words: Mapping[str, int]
    """The number of each one's word in global memory."""
    exact: int
    """Exact sums before it."""
    counter: int
    """Components of counters before it."""
    table: int
    """Counters and limbs before its own, in the tables of an entry."""


class KeyedCode(NamedTuple):
    """A component's statements for functions that fold by key.

    They are in the generated header keyed/generated.clh (made by program/keyed_header.py).
    """

    take: str = ""
    """Add the part of an element `v` that is added quickly to `p`."""
    take_rest: str = ""
    """Add what `take` left of an element: to `p`, or to limbs."""
    counted: str = ""
    """Count an element in counters."""
    find: str = ""
    """Find the first index of each extreme, in a second look at the elements."""
    sample: str = ""
    """Note an element's exponent, if it is the greatest so far."""
    settle: str = ""
    """Deposit the sum of digit `w` in limbs."""
    end: str = ""
    """Give an accumulator `a` what `words` hold."""
    doubles: str = ""
    """Functions that the others call."""
    firsts: str = ""
    """Take the first digits of four elements."""


@dataclass(frozen=True)
class Kind(ABC):
    """A component as kernels know it: c0 is its name, h0 the name of its state's holder.

    `source` defines these types and functions; properties name others.

    - Accumulators, if it is `in_accumulator`: c0_t, c0_zero, c0_op.
    - One stream: c0_state, c0_begin, c0_step; c0_end makes a c0_t from an h0_state.
    - Lanes: c0_states, c0_begins, c0_steps; c0_ends makes CHF_LANES c0_t from an h0_states.

    If another component holds its state, it takes no elements and has no begin and no step.
    """

    number: int
    accumulator: Accumulator

    @property
    def name(self) -> str:
        """Name of the component in kernels."""
        return f"c{self.number}"

    @property
    def holder(self) -> str:
        """Name in kernels of the component whose state it shares.

        That is the first with the same stream of elements.
        """
        return f"c{self.accumulator.holders[self.number]}"

    @property
    def is_holder(self) -> bool:
        """True if it holds its own state."""
        return self.name == self.holder

    @property
    def component(self) -> Component:
        """The component."""
        return self.accumulator.components[self.number]

    @property
    @abstractmethod
    def description(self) -> str:
        """Description for people who read a program."""

    @abstractmethod
    def source(self) -> str:
        """Return what it defines."""

    @property
    @abstractmethod
    def on_vectors(self) -> bool:
        """True if lanes are vectors, and not a state each."""

    @property
    def in_accumulator(self) -> bool:
        """True if `acc_t` has a member for it; tables of counters do not."""
        return True

    @property
    def is_exact(self) -> bool:
        """True if it is an exact sum: c0_adds adds doubles to lanes that are vectors.

        c0_elements gives the elements that are added, or squared before. c0_try adds them without a
        look, and returns what is left of each lane: if anything is, the states are of no use.
        """
        return False

    def collective(self, scope: str) -> str:
        """Return how built-ins of a scope make one of the accumulators `a` of its items."""
        fields = [(f"a.{self.name}.{field.name}", field.op) for field in self.component.fields]
        return "\n".join(f"    {at} = {scope}_reduce_{op}({at});" for at, op in fields)

    @property
    def has_firsts(self) -> bool:
        """True if c0_firsts reads the first elements of lanes, before any step."""
        return False

    @property
    def has_carries(self) -> bool:
        """True if c0_carries must empty narrow fields of lanes now and then."""
        return False

    @property
    def has_keep(self) -> bool:
        """True if c0_keep moves values from an accumulator to a table."""
        return False

    @property
    def has_settle(self) -> bool:
        """True if c0_settle gives an accumulator the one form that its value has."""
        return False

    @property
    def has_ended(self) -> bool:
        """True if lanes are stored as vectors: c0_ended makes c0_accs, c0_merged merges two."""
        return False

    @property
    def joins(self) -> Mapping[str, Node]:
        """The tree of each field that joins lanes `a` and `b`; empty if that is much work."""
        return {}

    @property
    def common(self) -> frozenset[str]:
        """Return the fields with the same value in every lane."""
        return frozenset()

    def by_key(self, place: KeyedPlace) -> KeyedCode:
        """Return what it does in tables that work-items share; it has deposits (traits.py)."""
        raise TypeError(f"{self.description} deposits nothing in tables: {place}")

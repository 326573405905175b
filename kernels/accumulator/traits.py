"""Traits of a component: what it is, and what kernels may do with it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache

import numpy as np

from chunkfold.kernels.accumulator.component import BoundField, BoundState, Component, exact_field
from chunkfold.kernels.dtypes import literal
from chunkfold.kernels.exact.polynomials import PolynomialError
from chunkfold.kernels.expressions.library import first
from chunkfold.kernels.expressions.nodes import (
    INDEX,
    Node,
    constant,
    constant_value,
    field_node,
    node,
    walk,
)
from chunkfold.kernels.expressions.symbols import Symbol
from chunkfold.kernels.monoid.checks import read_fields

_IDENTITIES = {
    "add": "0", "multiply": "1", "bitwise_or": "0", "bitwise_xor": "0",
    "minimum": "highest", "maximum": "lowest", "fmin": "highest", "fmax": "lowest",
}  # fmt: skip
"""Ops that merge what steps put to a field, and their identities."""


class Deposit(Enum):
    """One thing that an element adds to a table which work-items share: all are integers."""

    DIGITS = "digits"
    """The digits of a float, or of its square: an exact sum."""
    SUM = "sum"
    """64 bits."""
    STATE = "state"
    """64 bits of a state's field."""
    EXTREME64 = "extreme64"
    COUNT = "count"
    """1 for each element."""
    EXTREME32 = "extreme32"
    COUNTER = "counter"
    """1 in one of several counters."""
    INDEX = "index"
    """The first index of an extreme."""


@dataclass(frozen=True)
class Traits:
    """Traits of a component, fixed when it is bound."""

    reads_index: bool
    """Any tree reads the index, or elements come in their order: then positions matter, too."""
    is_position: bool
    """It is the first position of an extreme, of keys that are integers."""
    takes_first: bool
    """Equal elements leave what the one of the least index leaves alone.

    Positions of extremes do; so does the least of what rises with the index, chosen by a condition
    of the element."""
    joins: tuple[tuple[str, Node], ...]
    """Each state field of two states a and b merged, which the same first element began. Empty
    where steps do not put elements to all fields by ops, or fields begin with no identity."""
    deposits: tuple[tuple[Deposit, str], ...]
    """The deposits of each element in shared tables, with their fields; empty if there can be none.
    They are fields of `state` where the state of many elements is the sum of theirs."""
    exact: Component | None
    """The exact sum that stands for a rounding one where work-items share it: they add integers."""

    @property
    def shares_state(self) -> bool:
        """True if elements are added to state fields in shared tables."""
        return any(what is Deposit.STATE for what, _ in self.deposits)


@lru_cache(1024)  # users' reductions come and go
def traits_of(part: Component) -> Traits:
    """Return the traits of a component, from its trees."""
    reads = part.in_order or INDEX in walk(part.of_elements)
    position = _is_position(part)
    joined = _joins(part.state) if part.state else {}
    return Traits(
        reads_index=reads,
        is_position=position,
        takes_first=not reads or position or _rises_with_index(part),
        joins=tuple(joined.items()),
        deposits=_deposits(part, position=position, joined=joined),
        exact=_exact_form(part),
    )


def _is_position(part: Component) -> bool:
    if part.state is not None or len(part.fields) != 2:
        return False
    extreme, index = part.fields
    sides = {"min": "ab", "max": "ba"}.get(str(extreme.op))
    if sides is None or "int" not in extreme.dtype or INDEX in walk([extreme.lift]):
        return False
    one, other = (_field(side, extreme.name, extreme.dtype) for side in sides)
    here, there = (_field(side, index.name, index.dtype) for side in "ab")
    return index.lift is INDEX and index.op is first(one, other, here, there).node


def _field(side: str, name: str, dtype: str) -> Symbol:
    return Symbol(field_node(side, name, np.dtype(dtype)))


def _rises_with_index(part: Component) -> bool:
    if part.state is not None or len(part.fields) != 1:
        return False
    (field,) = part.fields
    return field.op == "min" and field.dtype in ("int64", "uint64") and _rises(field.lift)


def _rises(tree: Node) -> bool:
    """Return whether a tree is the index or a constant, chosen by what does not read the index."""
    if tree.op == "select":
        condition, yes, no = tree.sources
        return INDEX not in walk([condition]) and _rises(yes) and _rises(no)
    if tree.op == "cast":
        whole = tree.dtype.kind in "iu" and tree.dtype.itemsize == 8  # narrower ones wrap
        return whole and _rises(tree.sources[0])
    return tree is INDEX or tree.op == "constant"


def _joins(state: BoundState) -> dict[str, Node]:
    firsts = dict(state.first)
    made = {}
    for name, dtype, start in state.fields:
        if name in firsts:
            continue
        op = _op_of(name, state)
        if op is None or literal(start, dtype) != literal(_IDENTITIES[op], dtype):
            return {}
        tree = dict(state.step)[name]
        made[name] = node(op, tree.dtype, *(field_node(side, name, tree.dtype) for side in "ab"))
    return made


def _emptied(state: BoundState) -> set[str]:
    """Return the fields that a state's `carry` empties into others."""
    return {name for name, tree in state.carry if tree is constant(0, tree.dtype)}


def _op_of(name: str, state: BoundState) -> str | None:
    """Return the op by which steps put elements to a field; None if there is no such op."""
    step, carry = dict(state.step)[name], dict(state.carry)
    own = field_node("s", name, step.dtype)
    if name not in carry:
        return _put(step, own, dict(state.first))
    given = _emptied(state)
    if name in given:
        op = _put(step, own, dict(state.first))
    else:  # it gets only what is carried
        carried = [one for one in walk([carry[name]]) if one.op not in ("field", "cast", "add")]
        op = _put(carry[name], own, given) if step is own and not carried else None
    return op if op == "add" else None  # carried now or later, the sum is the same


def _put(tree: Node, own: Node, given: Collection[str]) -> str | None:
    """Return the op that puts something to a field, which reads no others than those given."""
    op, others = tree.op, list(tree.sources)
    if own not in others:
        return None
    others.remove(own)
    if op == "fma" and tree.sources[2] is own:
        op = "add"
    return op if op in _IDENTITIES and read_fields(*others) <= set(given) else None


def _deposits(
    part: Component, *, position: bool, joined: dict[str, Node]
) -> tuple[tuple[Deposit, str], ...]:
    (field, *others) = part.fields
    if part.limbs is not None:
        doubles = part.limbs.terms > 0 and part.limbs.format is not None
        return ((Deposit.DIGITS, field.name),) if doubles else ()
    if part.table is not None:
        return ((Deposit.COUNTER, field.name),)
    if position:
        return (_deposit(field), (Deposit.INDEX, others[0].name))
    if all("int" in one.dtype and one.op in ("add", "min", "max") for one in part.fields):
        return tuple(map(_deposit, part.fields))
    return tuple((Deposit.STATE, name) for name in _summed(part.state, joined))


def _deposit(field: BoundField) -> tuple[Deposit, str]:
    if field.op == "add":
        ones = field.lift.op == "constant" and constant_value(field.lift) == 1
        return Deposit.COUNT if ones else Deposit.SUM, field.name
    return Deposit.EXTREME64 if "64" in field.dtype else Deposit.EXTREME32, field.name


def _summed(state: BoundState | None, joined: dict[str, Node]) -> tuple[str, ...]:
    """Return the fields of a state, if the state of many elements is the sum of theirs.

    They are 64 bits each; a narrower one that a step always empties into them is left out.
    """
    if state is None or state.first:
        return ()
    gone = _emptied(state)
    kept = tuple(name for name, _, _ in state.fields if name not in gone)
    sums = all(tree.op == "add" and tree.dtype.kind in "iu" for tree in joined.values())
    wide = all(state.dtypes[name] in ("int64", "uint64") for name in kept)
    return kept if joined and sums and wide else ()


def _exact_form(part: Component) -> Component | None:
    (field, *others) = part.fields
    if others or part.state or part.limbs or field.op != "add" or "float" not in field.dtype:
        return None
    read = {one.arg[0]: one.dtype for one in walk([field.lift]) if one.op == "input"}
    values = [read.get(n, np.dtype(np.float64)) for n in range(1 + max(read, default=0))]
    try:
        exact = replace(part, fields=(exact_field(field.name, field.lift, values),))
    except PolynomialError:
        return None
    return exact if exact.limbs is not None and traits_of(exact).deposits else None

"""Build the components of monoids for inputs of some dtypes, and find those that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from chunkfold.kernels.accumulator.component import (
    ELEMENTS,
    BoundField,
    BoundState,
    Component,
    exact_field,
)
from chunkfold.kernels.accumulator.integer_sums import integer_sum
from chunkfold.kernels.dtypes import (
    COUNT,
    EXACT,
    field_dtype,
    is_table,
    number_text,
    table_entries,
)
from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.exact.polynomials import PolynomialError
from chunkfold.kernels.expressions.nodes import Node, walk
from chunkfold.kernels.expressions.operations import hide_negation
from chunkfold.kernels.monoid.accumulate import Accumulate
from chunkfold.kernels.monoid.checks import check_traced, not_summed
from chunkfold.kernels.monoid.monoid import Monoid
from chunkfold.kernels.monoid.tracing import traced
from chunkfold.kernels.monoid.trees import StateTrees, Traced


def components_of(
    monoid: Monoid,
    values: Sequence[np.dtype],
    fp64: bool,
    *,
    known: bool = True,
    keyed: bool = False,
    counts: bool = False,
) -> list[Component]:
    """Split a monoid where its fields do not depend on each other; `known`: it is one.

    `counts`: a last component is to count the elements that are there.
    """
    trees = traced(monoid, values, fp64=fp64)
    check_traced(monoid, trees)
    rtol = None if known else monoid.rtol
    ignored = trees.ignored

    def component(*fields: BoundField, state: BoundState | None = None) -> Component:
        return Component(monoid.name, fields, state, ignored, rtol, in_order=monoid.in_order)

    def alone(field: BoundField) -> Component:
        summed = integer_sum(trees.lift[field.name]) if field.limbs else None
        if summed is None:
            return component(field)
        digits, state = summed
        made = component(*digits, state=state)
        return replace(made, rtol=None, digits_of=field.name)

    # Where no element is skipped partials know their counts: one number, not one for each output.
    counted = ignored is not None or keyed
    names = [name for name, rule in monoid.fields.items() if counted or rule != COUNT]
    fields = [_field(monoid, name, trees, values, fp64) for name in names]
    # To add integers is a monoid, whatever `lift` gives.
    tables = [replace(alone(field), rtol=None) for field in fields if field.entries]
    scalars = [field for field in fields if not field.entries]
    if trees.states:
        ended = [
            component(
                *(field for field in scalars if field.name in state.end),
                state=_state(given, state),
            )
            for given, state in zip(monoid.accumulates, trees.states, strict=True)
        ]
        ends = {name for state in trees.states for name in state.end}
        apart = [component(field) for field in scalars if field.name not in ends]
        parts = [*ended, *apart, *tables]
    elif all(isinstance(field.op, str) for field in fields):  # also if there is none
        parts = [alone(field) for field in fields]
    else:
        parts = [component(*scalars), *tables]
    return [*parts, component(ELEMENTS)] if counts else parts


def _exact_field(
    monoid: Monoid, name: str, tree: Node, values: Sequence[np.dtype], fp64: bool
) -> BoundField:
    try:
        return exact_field(name, tree, values, fp64=fp64)
    except PolynomialError as error:
        raise MonoidError(not_summed(monoid.name, name, tree, error)) from None


def _field(
    monoid: Monoid, name: str, trees: Traced, values: Sequence[np.dtype], fp64: bool
) -> BoundField:
    assert isinstance(monoid.zero, Mapping)
    rule = monoid.fields[name]
    if rule == EXACT:
        return _exact_field(monoid, name, trees.lift[name], values, fp64)
    lift, op, value = trees.lift[name], trees.op[name], values[0]
    compares = isinstance(op, Node) and any(n.op in ("minimum", "maximum") for n in walk([op]))
    return BoundField(
        name,
        "int64" if is_table(rule) else field_dtype(rule, value, fp64),
        number_text(monoid.zero[name]),
        hide_negation(lift) if compares or op in ("min", "max") else lift,
        op,
        table_entries(rule) or None,
        adds=trees.adds.get(name, ()),
    )


def _state(given: Accumulate, trees: StateTrees) -> BoundState:
    return BoundState(
        fields=tuple(
            (name, dtype, number_text(given.start[name])) for name, dtype in trees.dtypes.items()
        ),
        step=tuple(trees.step.items()),
        end=tuple(trees.end.items()),
        first=tuple(trees.first.items()),
        carry=tuple(trees.carry.items()),
    )


def shared(
    parts: Sequence[Component], together: Sequence[Sequence[Component]]
) -> tuple[tuple[Component, ...], list[int]]:
    """Return what is folded for `parts`, and for each of them which of that.

    Each of `together` are components of one state, which pays where all of them are asked for:
    those of their fields that are folded without a state then have theirs.
    """
    for ways in together:
        if all(any(_folds(way, part) for part in parts) for way in ways):
            states = [[way.state for way in ways if _folds(way, part)] for part in parts]
            parts = [
                replace(part, state=state[0]) if state else part
                for part, state in zip(parts, states, strict=True)
            ]
    each = {part.identity: part for part in parts}
    numbers = {identity: number for number, identity in enumerate(each)}
    return tuple(each.values()), [numbers[part.identity] for part in parts]


def _folds(way: Component, part: Component) -> bool:
    """Return whether one component's state also folds the fields of another."""
    if part.state not in (None, way.state):
        return False
    return way.identity == replace(part, state=way.state).identity

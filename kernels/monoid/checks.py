"""Checks of what a monoid declares. Each raises MonoidError, with its name and the remedy."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

import numpy as np

from chunkfold.kernels.dtypes import COUNT, EXACT, FIELD, RULES, is_table
from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.exact.polynomials import PolynomialError, polynomial
from chunkfold.kernels.expressions.infix import infix
from chunkfold.kernels.expressions.nodes import Node, constant_value, walk
from chunkfold.kernels.monoid.accumulate import Accumulate
from chunkfold.kernels.monoid.tracing import kinds_tried, traced
from chunkfold.kernels.monoid.trees import COLLECTIVES, StateTrees, Traced

if TYPE_CHECKING:
    from chunkfold.kernels.monoid.monoid import Monoid

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def is_identifier(name: object) -> bool:
    """Return True for names that kernels can use."""
    return isinstance(name, str) and _IDENTIFIER.fullmatch(name) is not None


def per_field(
    monoid: str, part: str, given: object, fields: Mapping[str, str]
) -> Mapping[str, object]:
    """Return a part as a mapping of the fields; a bare one is that of the only field."""
    if not isinstance(given, Mapping):
        if len(fields) != 1:
            raise MonoidError(
                f"{part} of monoid {monoid!r} is {given!r}, but the monoid has {len(fields)} "
                f"fields; give a mapping with {', '.join(fields)}"
            )
        return MappingProxyType({next(iter(fields)): given})
    check_keys(monoid, part, given, fields)
    return MappingProxyType(dict(given))


def as_plain(given: object) -> object:
    """Return a scalar of NumPy's, such as np.finfo gives, as a number of Python's."""
    if isinstance(given, Mapping):
        return MappingProxyType({name: as_plain(one) for name, one in given.items()})
    return given.item() if isinstance(given, (np.integer, np.floating)) else given


def check_keys(
    monoid: str, part: str, given: Mapping[str, object], wanted: Mapping[str, object]
) -> None:
    """See that a part names what it should."""
    if set(given) != set(wanted):
        raise MonoidError(
            f"{part} of monoid {monoid!r} names {sorted(given)}, but should name {sorted(wanted)}"
        )


def check_types(monoid: str, what: str, types: Mapping[str, str]) -> None:
    """See that fields, or those of a state, have names and dtypes that kernels can have."""
    for name, dtype in types.items():
        if not is_identifier(name):
            raise MonoidError(f"{what} name {name!r} of monoid {monoid!r} is not an identifier")
        table = what == "field" and isinstance(dtype, str) and is_table(dtype)
        if not table and dtype not in FIELD and dtype not in RULES:
            raise MonoidError(
                f"{what} {name!r} of monoid {monoid!r} has dtype {dtype!r}; "
                f"use one of {', '.join([*FIELD, *RULES, EXACT])}, or int64[n] for a table of "
                "1 to 999999 counters"
            )


def check_numbers(monoid: str, part: str, numbers: Mapping[str, object]) -> None:
    """See that initial values are numbers, or "lowest" or "highest"."""
    for name, number in numbers.items():
        plain = isinstance(number, (int, float)) and not isinstance(number, bool)
        if not plain and number not in ("lowest", "highest"):
            raise MonoidError(
                f"{part} of field {name!r} of monoid {monoid!r} is {number!r}; "
                "give a number, 'lowest' or 'highest'"
            )
        try:
            float(cast("float", number)) if plain else None
        except OverflowError:
            raise MonoidError(
                f"{part} of field {name!r} of monoid {monoid!r} is beyond float64's range"
            ) from None


def check_parts(monoid: str, lift: object, op: object, fields: Mapping[str, str]) -> None:
    """See that `lift` and `op` are functions, or one for each field, and tables add."""
    for part, given in (("lift", lift), ("op", op)):
        if isinstance(given, Mapping):
            check_keys(monoid, part, given, fields)
        for one in given.values() if isinstance(given, Mapping) else (given,):
            _check_part(monoid, part, one)
    ops = op if isinstance(op, Mapping) else dict.fromkeys(fields, op)
    for name, dtype in fields.items():
        if (is_table(dtype) or dtype == COUNT) and ops[name] != "add":
            what = "a count" if dtype == COUNT else "a table"
            raise MonoidError(
                f"field {name!r} of monoid {monoid!r} is {what}, whose op must be 'add', not "
                f"{ops[name]!r}"
            )


def _check_part(monoid: str, part: str, given: object) -> None:
    if callable(given):
        return
    if part == "lift" and isinstance(given, (int, float)):
        return
    if part == "op" and given in COLLECTIVES:
        return
    wanted = "a function of symbols"
    wanted += " or a number" if part == "lift" else f", or one of {', '.join(COLLECTIVES)}"
    text = "; OpenCL C text is not accepted" if isinstance(given, str) else ""
    raise MonoidError(
        f"{part} of monoid {monoid!r} is {given!r}; give {wanted}, as "
        f"{'lift=lambda x: x * x' if part == 'lift' else 'op=lambda a, b: a.s | b.s'}{text}"
    )


def check_outline(monoid: Monoid) -> None:
    """Check the parts of a monoid that are no functions or numbers."""
    if not is_identifier(monoid.name):
        raise MonoidError(f"monoid name {monoid.name!r} is not an identifier")
    if not isinstance(monoid.inputs, int) or monoid.inputs < 1:
        raise MonoidError(
            f"monoid {monoid.name!r} has {monoid.inputs!r} inputs; it needs at least 1"
        )
    if not 0 <= monoid.weights < monoid.inputs:
        raise MonoidError(
            f"monoid {monoid.name!r} of {monoid.inputs} inputs has {monoid.weights!r} weights; "
            "the first input cannot be a weight"
        )
    if monoid.on_empty not in ("finish", "error"):
        raise MonoidError(
            f"on_empty of monoid {monoid.name!r} is {monoid.on_empty!r}; use 'finish' or 'error'"
        )
    if not isinstance(monoid.fields, Mapping) or not monoid.fields:
        raise MonoidError(f"monoid {monoid.name!r} has no fields; it needs at least one")
    check_types(monoid.name, "field", monoid.fields)
    exact = monoid.exact
    if exact is not None and (not isinstance(exact, type(monoid)) or exact.inputs != monoid.inputs):
        raise MonoidError(f"exact of monoid {monoid.name!r} must be a Monoid of as many inputs")


def check_declared(monoid: Monoid) -> None:
    """Call a monoid's functions once, so that a mistake shows where it was made.

    They are given symbols of the likeliest of its kinds of elements. If they have no meaning for
    these but for others, it says so.
    """
    dtype, *others = kinds_tried(monoid)
    try:
        _check_of(monoid, dtype)
    except MonoidError as error:
        able = "".join(other.kind for other in others if _is_meant_for(monoid, other))
        if not able:
            raise
        raise MonoidError(f"{error}; if it is for others, give kinds={able!r}") from error.__cause__


def _check_of(monoid: Monoid, dtype: np.dtype) -> None:
    check_traced(monoid, traced(monoid, [dtype] * monoid.inputs))


def _is_meant_for(monoid: Monoid, dtype: np.dtype) -> bool:
    try:
        _check_of(monoid, dtype)
    except MonoidError:
        return False
    return True


def check_traced(monoid: Monoid, found: Traced) -> None:
    """See that a monoid's trees are such as kernels can fold."""
    zero = cast("Mapping[str, object]", monoid.zero)
    check_rules(monoid.name, monoid.fields, zero, found.lift, found.op)
    check_states(monoid.name, found.states, monoid.fields, found.op)


def check_rules(
    monoid: str,
    fields: Mapping[str, str],
    zero: Mapping[str, object],
    lift: Mapping[str, Node],
    op: Mapping[str, str | Node],
) -> None:
    """See that fields that are tables, exact sums or counts are declared as such."""
    for name, dtype in fields.items():
        if dtype == EXACT:
            _check_polynomial(monoid, name, lift[name])
        if is_table(dtype) and zero[name] != 0:
            raise MonoidError(
                f"zero of table {name!r} of monoid {monoid!r} must be 0, not {zero[name]!r}"
            )
        if dtype == COUNT:
            _check_count(monoid, name, zero[name], lift[name], op)


def _check_polynomial(monoid: str, name: str, tree: Node) -> None:
    try:
        polynomial(tree)
    except PolynomialError as error:
        raise MonoidError(not_summed(monoid, name, tree, error)) from None


def not_summed(monoid: str, name: str, tree: Node, why: PolynomialError) -> str:
    """Say that an exact sum cannot be of a tree."""
    return f"lift[{name!r}] of monoid {monoid!r} is {infix(tree)}, but {why}"


def _check_count(
    monoid: str, name: str, zero: object, lift: Node, op: Mapping[str, str | Node]
) -> None:
    """See that a count can be left out, where no element is skipped."""
    one = lift.op == "constant" and constant_value(lift) == 1
    if zero != 0 or not one:
        raise MonoidError(
            f"field {name!r} of monoid {monoid!r} is a count, whose zero must be 0 and whose lift "
            f"must be 1, not {zero!r} and {infix(lift)}"
        )
    trees = [(other, tree) for other, tree in op.items() if isinstance(tree, Node)]
    readers = [other for other, tree in trees if name in read_fields(tree)]
    if readers:
        raise MonoidError(
            f"op[{readers[0]!r}] of monoid {monoid!r} reads the count {name!r}, which kernels may "
            "not have; make it an int64"
        )


def read_fields(*trees: Node) -> set[str]:
    """Return the names of the fields that trees read."""
    return {one.arg[1] for one in walk(trees) if one.op == "field"}


def check_accumulates(monoid: str, accumulates: tuple[Accumulate, ...]) -> None:
    """See that states have fields that begin somewhere."""
    if not all(isinstance(one, Accumulate) for one in accumulates):
        raise MonoidError(
            f"accumulate of monoid {monoid!r} is {accumulates!r}; give a cf.Accumulate, or several"
        )
    for one in accumulates:
        check_types(monoid, "state field", one.state)
        check_keys(monoid, "accumulate.start", one.start, one.state)
        check_numbers(monoid, "accumulate.start", one.start)


def check_states(
    monoid: str,
    states: Sequence[StateTrees],
    fields: Mapping[str, str],
    ops: Mapping[str, str | Node],
) -> None:
    """See that states end, one in every field that has no named op, and fold by themselves."""
    ends = [name for one in states for name in one.end]
    counts = [name for name in ends if fields.get(name) == COUNT]
    if counts:
        raise MonoidError(
            f"accumulate.end of monoid {monoid!r} gives {counts}, which is a count that kernels "
            "may not have; omit it, or make it an int64"
        )
    if len(set(ends)) < len(ends):
        raise MonoidError(f"accumulate.end of monoid {monoid!r} gives a field twice: {ends}")
    ended = {
        name
        for name, dtype in fields.items()
        if not is_table(dtype) and (not isinstance(ops[name], str) or name in ends)
    }
    if states:
        check_keys(monoid, "accumulate.end", dict.fromkeys(ends), dict.fromkeys(ended))
    for one in states:
        if not one.end:
            raise MonoidError(f"accumulate of monoid {monoid!r} ends in no field")
        _check_state(monoid, one, ops)


def _check_state(monoid: str, state: StateTrees, ops: Mapping[str, str | Node]) -> None:
    for name in state.end:
        op = ops[name]
        others = read_fields(op) - set(state.end) if isinstance(op, Node) else set()
        if others:
            raise MonoidError(
                f"op[{name!r}] of monoid {monoid!r} reads {sorted(others)}, in which its "
                "accumulate does not end"
            )
    for name, tree in state.carry.items():
        taken = ({name} | read_fields(tree)) & set(state.first)
        if taken:
            raise MonoidError(
                f"accumulate.carry[{name!r}] of monoid {monoid!r} uses {sorted(taken)}, which the "
                "first element sets, but there may be no element; do that in accumulate.end"
            )

"""Checks of what a monoid declares. Each raises MonoidError, with its name and the remedy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

import numpy as np

from chunkfold.kernels.accumulate import Accumulate
from chunkfold.kernels.dtypes import COUNT, EXACT, FIELD, RULES, is_table
from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.texts import COLLECTIVES, OPERAND_FIELD, STATE_FIELD, refused

_EXACT_LIFTS = ("x", "magnitude(x)", "re(x)", "im(x)")
"""What is in the range of the elements' dtype, for which limbs are made."""
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_TAKEN = {"x", "i", "v", "l", "s", "a", "b", "r", "state", "counter"}
"""What kernels name where texts stand."""


def is_identifier(name: object) -> bool:
    """Whether kernels can use a name."""
    return isinstance(name, str) and _IDENTIFIER.fullmatch(name) is not None


def per_field(
    monoid: str, part: str, given: object, fields: Mapping[str, str]
) -> Mapping[str, object]:
    """Return a part as a mapping of the fields; a bare one is that of the only field."""
    if not isinstance(given, Mapping):
        if len(fields) != 1:
            raise MonoidError(
                f"{part} of monoid {monoid!r} is {given!r}, but there are "
                f"{len(fields)} fields; give a mapping with {', '.join(fields)}"
            )
        return MappingProxyType({next(iter(fields)): given})
    check_keys(monoid, part, given, fields)
    return MappingProxyType(dict(given))


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
                f"use one of {', '.join([*FIELD, *RULES, *EXACT])}, or int64[n] for a table of "
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


def check_ops(monoid: str, ops: Mapping[str, object]) -> None:
    """See that an op that is named is one that may be."""
    for name, text in ops.items():
        if is_identifier(text) and text not in COLLECTIVES:
            raise MonoidError(
                f"op[{name!r}] of monoid {monoid!r} is {text!r}; use 'add', 'min', 'max', "
                f"or an expression of a.{name} and b.{name}"
            )


def check_rules(
    monoid: str,
    fields: Mapping[str, str],
    zero: Mapping[str, object],
    lift: Mapping[str, str],
    op: Mapping[str, str],
) -> None:
    """See that fields that are tables, exact sums or counts are declared as such."""
    for name, dtype in fields.items():
        if dtype in EXACT and lift[name] not in _EXACT_LIFTS:
            raise MonoidError(
                f"lift[{name!r}] of monoid {monoid!r} is {lift[name]!r}, but exact "
                f"sums are of elements as they are; use one of {', '.join(_EXACT_LIFTS)}"
            )
        if is_table(dtype) and (zero[name], op[name]) != (0, "add"):
            raise MonoidError(
                f"field {name!r} of monoid {monoid!r} is a table, whose zero "
                f"is 0 and whose op is 'add', not {zero[name]!r} and {op[name]!r}"
            )
        if dtype == COUNT:
            _check_count(monoid, name, (zero[name], lift[name], op[name]), op)


def _check_count(
    monoid: str, name: str, declared: tuple[object, str, str], op: Mapping[str, str]
) -> None:
    """See that a count can be left out, where no element is skipped."""
    if declared != (0, "1", "add"):
        raise MonoidError(
            f"field {name!r} of monoid {monoid!r} is a count, whose zero is 0, whose lift is '1' "
            f"and whose op is 'add', not {', '.join(map(repr, declared))}"
        )
    readers = [other for other, text in op.items() if name in OPERAND_FIELD.findall(text)]
    if readers:
        raise MonoidError(
            f"op[{readers[0]!r}] of monoid {monoid!r} reads the count {name!r}, which kernels may "
            "not have; make it an int64"
        )


def check_constants(monoid: str, constants: Mapping[str, np.ndarray]) -> None:
    """See that constants are arrays of numbers, with names of their own."""
    for name, array in constants.items():
        if not is_identifier(name):
            raise MonoidError(f"constant name {name!r} of monoid {monoid!r} is not an identifier")
        if name in _TAKEN or re.fullmatch(r"x\d+", name):
            raise MonoidError(
                f"constant {name!r} of monoid {monoid!r} has a name that kernels use; "
                "choose another"
            )
        if not isinstance(array, np.ndarray) or array.ndim != 1 or not array.size:
            raise MonoidError(f"constant {name!r} of monoid {monoid!r} is no array of one axis")
        if array.dtype.name not in FIELD:
            raise MonoidError(
                f"constant {name!r} of monoid {monoid!r} has dtype {array.dtype}; "
                f"use one of {', '.join(FIELD)}"
            )
        if (array != array).any():
            raise MonoidError(f"constant {name!r} of monoid {monoid!r} has NaN in it")


def check_accumulates(
    monoid: str,
    accumulates: tuple[Accumulate, ...],
    fields: Mapping[str, str],
    ops: Mapping[str, str],
) -> None:
    """See that states begin, step and end, one in every field that has no named op."""
    if not accumulates:
        return
    if not all(isinstance(one, Accumulate) for one in accumulates):
        raise MonoidError(f"accumulate of monoid {monoid!r} is no cf.Accumulate, nor several")
    ends = [name for one in accumulates for name in one.end]
    counts = [name for name in ends if fields.get(name) == COUNT]
    if counts:
        raise MonoidError(
            f"accumulate.end of monoid {monoid!r} gives {counts}, which is a count that kernels "
            "may not have; leave it out, or make it an int64"
        )
    if len(set(ends)) < len(ends):
        raise MonoidError(f"accumulate.end of monoid {monoid!r} gives a field twice: {ends}")
    ended = {
        name
        for name, dtype in fields.items()
        if not is_table(dtype) and (ops[name] not in COLLECTIVES or name in ends)
    }
    check_keys(monoid, "accumulate.end", dict.fromkeys(ends), dict.fromkeys(ended))
    for one in accumulates:
        _check_accumulate(monoid, one, ops)


def _check_accumulate(monoid: str, accumulate: Accumulate, ops: Mapping[str, str]) -> None:
    """See that a state begins, steps and ends, and that its fields fold by themselves."""
    check_types(monoid, "state field", accumulate.state)
    check_keys(monoid, "accumulate.start", accumulate.start, accumulate.state)
    if not accumulate.end:
        raise MonoidError(f"accumulate of monoid {monoid!r} ends in no field")
    check_numbers(monoid, "accumulate.start", accumulate.start)
    _check_expressions(monoid, "accumulate.first", accumulate.first, accumulate.state)
    _check_expressions(monoid, "accumulate.carry", accumulate.carry, accumulate.state)
    _check_first(monoid, accumulate)
    step = accumulate.step
    if isinstance(step, Mapping):
        stepped = [name for name in accumulate.state if name not in accumulate.first]
        check_keys(monoid, "accumulate.step", step, dict.fromkeys(stepped))
    for text in step.values() if isinstance(step, Mapping) else (step,):
        check_source(monoid, "accumulate.step", text)
    _check_expressions(monoid, "accumulate.join", accumulate.join, accumulate.state, whole=True)
    alike = "accumulate.join_alike"
    unset = {n: dtype for n, dtype in accumulate.state.items() if n not in accumulate.first}
    _check_expressions(monoid, alike, accumulate.join_alike, unset, whole=True)
    if accumulate.join_alike and not accumulate.first:
        raise MonoidError(
            f"{alike} of monoid {monoid!r} joins what one first element began, but "
            "accumulate.first is empty; give accumulate.join"
        )
    for name, text in accumulate.end.items():
        check_source(monoid, f"accumulate.end[{name!r}]", text)
        others = set(OPERAND_FIELD.findall(ops[name])) - set(accumulate.end)
        if others:
            raise MonoidError(
                f"op[{name!r}] of monoid {monoid!r} reads {sorted(others)}, in which its "
                "accumulate does not end"
            )


def _check_first(monoid: str, accumulate: Accumulate) -> None:
    """See that first elements alone decide what they set, and that it may be missing."""
    for name, text in accumulate.first.items():
        if STATE_FIELD.search(text):
            raise MonoidError(
                f"accumulate.first[{name!r}] of monoid {monoid!r} is {text!r}, which reads the "
                "state; give an expression of the element alone"
            )
    for name, text in accumulate.carry.items():
        taken = ({name} | set(STATE_FIELD.findall(text))) & set(accumulate.first)
        if taken:
            raise MonoidError(
                f"accumulate.carry[{name!r}] of monoid {monoid!r} has to do with {sorted(taken)}, "
                "which a first element sets, and there may be none; leave that to accumulate.end"
            )


def _check_expressions(
    monoid: str,
    part: str,
    given: Mapping[str, str],
    state: Mapping[str, str],
    *,
    whole: bool = False,
) -> None:
    """See that a part, if there is any, is expressions of state fields: of all, if it is whole."""
    if not isinstance(given, Mapping):
        raise MonoidError(
            f"{part} of monoid {monoid!r} is {given!r}; give a mapping of state fields and "
            "expressions"
        )
    if given and whole:
        check_keys(monoid, part, given, state)
    unknown = set(given) - set(state)
    if unknown:
        raise MonoidError(
            f"{part} of monoid {monoid!r} names {sorted(unknown)}, but the state has "
            f"{', '.join(state)}"
        )
    for name, text in given.items():
        check_source(monoid, f"{part}[{name!r}]", text)


def check_source(monoid: str, what: str, text: str) -> None:
    """Refuse what could reach outside the expression's own braces.

    A directive could include a file, which the compiler would print into its log.
    """
    refusal = refused(text)
    if refusal:
        raise MonoidError(f"{what} of monoid {monoid!r} {refusal}: {text!r}")

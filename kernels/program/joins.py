"""What joins two states whose steps put elements to each field by an op."""

from __future__ import annotations

from collections.abc import Collection

from chunkfold.kernels.accumulator.component import BoundState
from chunkfold.kernels.dtypes import literal
from chunkfold.kernels.expressions.nodes import Node, constant, field_node, node, walk
from chunkfold.kernels.monoid.checks import read_fields

_IDENTITIES = {
    "add": "0", "multiply": "1", "bitwise_or": "0", "bitwise_xor": "0",
    "minimum": "highest", "maximum": "lowest", "fmin": "highest", "fmax": "lowest",
}  # fmt: skip
"""Ops that join what they put elements to, and their identities."""


def joins(state: BoundState) -> dict[str, Node]:
    """Return the fields of states a and b joined, which the same first element began.

    None where a step does something else, or a field does not begin with its op's identity.
    """
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


def emptied(state: BoundState) -> set[str]:
    """Return the fields that a state's `carry` empties into others."""
    return {name for name, tree in state.carry if tree is constant(0, tree.dtype)}


def _op_of(name: str, state: BoundState) -> str | None:
    """Return the op by which elements are put to a field; None if there is no such op."""
    step, carry = dict(state.step)[name], dict(state.carry)
    own = field_node("s", name, step.dtype)
    if name not in carry:
        return _put(step, own, dict(state.first))
    given = emptied(state)
    if name in given:
        op = _put(step, own, dict(state.first))
    else:  # what is carried is all that comes to it
        carried = [one for one in walk([carry[name]]) if one.op not in ("field", "cast", "add")]
        op = _put(carry[name], own, given) if step is own and not carried else None
    return op if op == "add" else None  # whether it is carried now or later comes to the same


def _put(tree: Node, own: Node, given: Collection[str]) -> str | None:
    """Return the op that puts something to a field, which reads no others than those given."""
    op, others = tree.op, list(tree.sources)
    if own not in others:
        return None
    others.remove(own)
    if op == "fma" and tree.sources[2] is own:
        op = "add"
    return op if op in _IDENTITIES and read_fields(*others) <= set(given) else None

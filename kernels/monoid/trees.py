"""A monoid as trees: what kernels fold, what is hashed and what is sent to workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from chunkfold.kernels.dtypes import EXACT
from chunkfold.kernels.expressions.functions import BY_NAME
from chunkfold.kernels.expressions.nodes import Node, field_node
from chunkfold.kernels.expressions.shown import shown

FieldTrees = Mapping[str, Node]
"""A tree for each field."""
COLLECTIVES = ("add", "min", "max")
"""Ops that may be named; devices may have built-ins for them."""
_OPS = {"add": "add", "min": "minimum", "max": "maximum"}
_FLOAT_OPS = {"add": "add", "min": "fmin", "max": "fmax"}


@dataclass(frozen=True)
class StateTrees:
    """An `Accumulate` as trees."""

    dtypes: Mapping[str, str]
    step: FieldTrees
    end: FieldTrees
    first: FieldTrees
    carry: FieldTrees


@dataclass(frozen=True)
class Traced:
    """A monoid as trees, for inputs of some dtypes."""

    dtypes: Mapping[str, str]
    """Of each field; of a table that of its counters, of an exact sum "exact"."""
    lift: FieldTrees
    op: Mapping[str, str | Node]
    """Names of ops, or trees of fields of a and b."""
    states: tuple[StateTrees, ...]
    absent: Node | None
    """Of an element whether it counts as absent; None if none does."""
    adds: Mapping[str, tuple[tuple[Node, Node], ...]] = field(default_factory=dict)
    """Of tables to which elements add other integers than 1: counters' numbers, what is added."""

    @property
    def trees(self) -> list[Node]:
        """Every tree."""
        states = (part for one in self.states for part in (one.step, one.end, one.first, one.carry))
        found = [tree for part in (self.lift, *states) for tree in part.values()]
        found += [op for op in self.op.values() if isinstance(op, Node)]
        found += [tree for pairs in self.adds.values() for pair in pairs for tree in pair]
        return found if self.absent is None else [*found, self.absent]


def op_tree(name: str, dtype: str, op: str | Node) -> Node:
    """Return a field's op as a tree; min and max that are named drop NaN."""
    if isinstance(op, Node):
        return op
    number = np.dtype(np.float64 if dtype == EXACT else dtype)
    a, b = (field_node(side, name, number) for side in "ab")
    known = _FLOAT_OPS if dtype.startswith("float") else _OPS
    return BY_NAME[known[op]](a, b)


def shown_fields(of: Traced, zero: Mapping[str, object]) -> list[str]:
    """Write each field with its dtype, zero, lift and op, for people."""
    ops = {name: op_tree(name, of.dtypes[name], of.op[name]) for name in of.lift}
    return [
        f"{name}: {of.dtypes[name]}, zero {zero[name]}, lift {shown(tree)}, op {shown(ops[name])}"
        for name, tree in of.lift.items()
    ]

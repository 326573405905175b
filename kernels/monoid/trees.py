"""Monoids as trees, which kernels fold, caches hash and workers receive; symbols of elements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from chunkfold.kernels.dtypes import EXACT
from chunkfold.kernels.expressions.functions import BY_NAME
from chunkfold.kernels.expressions.infix import infix
from chunkfold.kernels.expressions.library import signed_bits
from chunkfold.kernels.expressions.nodes import Node, field_node, input_node
from chunkfold.kernels.expressions.symbols import ComplexSymbol, Symbol

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
    """Dtype of each field: a table has that of its counters, an exact sum "exact"."""
    lift: FieldTrees
    op: Mapping[str, str | Node]
    """Names of ops, or trees of fields of a and b."""
    states: tuple[StateTrees, ...]
    ignored: Node | None
    """The condition under which an element is skipped; None if none is."""
    adds: Mapping[str, tuple[tuple[Node, Node], ...]] = field(default_factory=dict)
    """Pairs of tables to which elements add other integers than 1: counter, addend."""

    @property
    def trees(self) -> list[Node]:
        """Every tree."""
        states = (part for one in self.states for part in (one.step, one.end, one.first, one.carry))
        found = [tree for part in (self.lift, *states) for tree in part.values()]
        found += [op for op in self.op.values() if isinstance(op, Node)]
        found += [tree for pairs in self.adds.values() for pair in pairs for tree in pair]
        return found if self.ignored is None else [*found, self.ignored]


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
        f"{name}: {of.dtypes[name]}, zero {zero[name]}, lift {infix(tree)}, op {infix(ops[name])}"
        for name, tree in of.lift.items()
    ]


def value_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype of symbols of an element's: times are int64, halves float32.

    >>> value_dtype(np.dtype("M8[s]")), value_dtype(np.dtype("f2"))
    (dtype('int64'), dtype('float32'))
    """
    if dtype.kind in "mM":
        return np.dtype(np.int64)
    if dtype.name in ("float16", "bfloat16"):
        return np.dtype(np.float32)
    return dtype.newbyteorder("=")


def element_symbol(number: int, dtype: np.dtype) -> Symbol | ComplexSymbol:
    """Return the symbol of an element of an input."""
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        real, imag = (Symbol(input_node(number, part, name)) for name in ("re", "im"))
        return ComplexSymbol(real, imag)
    return Symbol(input_node(number, value_dtype(dtype)))


def is_missing(one: Symbol | ComplexSymbol, dtype: np.dtype) -> Symbol | None:
    """Return the condition that an element is NaN or NaT; None if it never is."""
    if isinstance(one, ComplexSymbol):
        return (one.real != one.real) | (one.imag != one.imag)
    if dtype.kind in "mM":
        return one == np.iinfo(np.int64).min
    if dtype.name == "float16":  # by bits, for compilers that would compare halves one by one
        return (signed_bits(one) & 0x7FFFFFFF) > 0x7F800000
    return one != one if one.dtype.kind == "f" else None

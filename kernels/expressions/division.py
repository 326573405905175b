"""Arithmetic and comparisons of nodes as NumPy has them, made of operations of OpenCL C.

Divisions of integers avoid 0, and the least integer by -1, which are undefined in C.
"""

from __future__ import annotations

import numpy as np

from chunkfold.kernels.expressions.nodes import BOOL, Node, constant
from chunkfold.kernels.expressions.operations import (
    Operand,
    as_node,
    build,
    common,
    comparison,
    logical,
    operation,
    where,
)


def _numbers(a: Operand, b: Operand) -> tuple[Node, Node]:
    """Return operands of a division in one dtype; truths are int8."""
    dtype = common(a, b)
    dtype = np.dtype(np.int8) if dtype == BOOL else dtype
    return as_node(a, dtype), as_node(b, dtype)


def _quotient_of(a: Node, b: Node) -> tuple[Node, Node]:
    """Return C's quotient of integers and its remainder.

    They are of a divisor of 1 where C must not divide: by 0, and the least integer by -1.
    """
    dtype = a.dtype
    bad = equal(b, constant(0, dtype))
    if dtype.kind == "i":
        bad = build("bitwise_or", BOOL, bad, equal(b, constant(-1, dtype)))
    safe = build("select", dtype, bad, constant(1, dtype), b)
    quotient = build("quotient", dtype, a, safe)
    return quotient, subtract(a, multiply(quotient, safe))


def floor_divide(a: Operand, b: Operand) -> Node:
    """Divide and round down; integers by 0 give 0."""
    a, b = _numbers(a, b)
    dtype = a.dtype
    if dtype.kind == "f":
        return _floor_divide_floats(a, b)
    quotient, rest = _quotient_of(a, b)
    if dtype.kind == "i":
        quotient = where(_apart(rest, b), subtract(quotient, 1), quotient)
        quotient = where(equal(b, -1), build("negative", dtype, a), quotient)
    return where(equal(b, 0), 0, quotient)


def _floor_divide_floats(a: Node, b: Node) -> Node:
    """Divide as NumPy does: by what fmod leaves, so that it agrees with the remainder."""
    rest, none = build("fmod", a.dtype, a, b), constant(0, a.dtype)
    whole = divide(subtract(a, rest), b)
    whole = where(_apart(rest, b), subtract(whole, 1.0), whole)
    near = build("floor", a.dtype, whole)
    near = where(greater(subtract(whole, near), 0.5), add(near, 1.0), near)
    quotient = divide(a, b)
    near = where(equal(whole, 0.0), build("copysign", a.dtype, none, quotient), near)
    return where(equal(b, 0.0), quotient, near)


def _apart(rest: Node, b: Node) -> Node:
    """Return the condition that a remainder is not 0, and has another sign than the divisor."""
    signs = build("bitwise_xor", BOOL, less(rest, 0), less(b, 0))
    return build("bitwise_and", BOOL, not_equal(rest, 0), signs)


def remainder(a: Operand, b: Operand) -> Node:
    """Return what is left of a division that rounds down; of integers by 0 it is 0."""
    a, b = _numbers(a, b)
    dtype = a.dtype
    if dtype.kind == "f":
        rest = build("fmod", dtype, a, b)
        turned = where(_apart(rest, b), add(rest, b), rest)
        none = build("copysign", dtype, constant(0, dtype), b)
        return where(equal(rest, 0.0), none, turned)
    _, rest = _quotient_of(a, b)
    if dtype.kind == "i":
        rest = where(_apart(rest, b), add(rest, b), rest)
        rest = where(equal(b, -1), 0, rest)
    return where(equal(b, 0), 0, rest)


def fmod(a: Operand, b: Operand) -> Node:
    """Return what is left of a division that rounds towards 0; of integers by 0 it is 0."""
    a, b = _numbers(a, b)
    dtype = a.dtype
    if dtype.kind == "f":
        return build("fmod", dtype, a, b)
    _, rest = _quotient_of(a, b)
    if dtype.kind == "i":
        rest = where(equal(b, -1), 0, rest)
    return where(equal(b, 0), 0, rest)


def divide(a: Operand, b: Operand) -> Node:
    """Divide as floats, integers as float64."""
    dtype = common(a, b)
    dtype = dtype if dtype.kind == "f" else np.dtype(np.float64)
    return build("divide", dtype, as_node(a, dtype), as_node(b, dtype))


add, multiply = logical("add", "bitwise_or"), logical("multiply", "bitwise_and")
subtract = operation("subtract")
equal, not_equal = comparison("equal"), comparison("not_equal")
less, less_equal = comparison("less"), comparison("less_equal")
greater, greater_equal = comparison("greater"), comparison("greater_equal")

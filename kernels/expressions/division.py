"""Division of integers and floats as NumPy has it, of what OpenCL C has.

What divides integers sees to 0, and to the least one by -1, by which C must not divide.
"""

from __future__ import annotations

import numpy as np

from chunkfold.kernels.expressions.arithmetic import (
    add,
    divide,
    equal,
    greater,
    less,
    multiply,
    not_equal,
    subtract,
)
from chunkfold.kernels.expressions.nodes import BOOL, Node, constant
from chunkfold.kernels.expressions.operations import Operand, as_node, common, made, where


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
        bad = made("bitwise_or", BOOL, bad, equal(b, constant(-1, dtype)))
    safe = made("select", dtype, bad, constant(1, dtype), b)
    quotient = made("quotient", dtype, a, safe)
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
        quotient = where(equal(b, -1), made("negative", dtype, a), quotient)
    return where(equal(b, 0), 0, quotient)


def _floor_divide_floats(a: Node, b: Node) -> Node:
    """Divide as NumPy does: by what fmod leaves, so that it agrees with the remainder."""
    rest, none = made("fmod", a.dtype, a, b), constant(0, a.dtype)
    whole = divide(subtract(a, rest), b)
    whole = where(_apart(rest, b), subtract(whole, 1.0), whole)
    near = made("floor", a.dtype, whole)
    near = where(greater(subtract(whole, near), 0.5), add(near, 1.0), near)
    quotient = divide(a, b)
    near = where(equal(whole, 0.0), made("copysign", a.dtype, none, quotient), near)
    return where(equal(b, 0.0), quotient, near)


def _apart(rest: Node, b: Node) -> Node:
    """Whether a remainder is there, and has another sign than the divisor."""
    signs = made("bitwise_xor", BOOL, less(rest, 0), less(b, 0))
    return made("bitwise_and", BOOL, not_equal(rest, 0), signs)


def remainder(a: Operand, b: Operand) -> Node:
    """Return what is left of a division that rounds down; of integers by 0 it is 0."""
    a, b = _numbers(a, b)
    dtype = a.dtype
    if dtype.kind == "f":
        rest = made("fmod", dtype, a, b)
        turned = where(_apart(rest, b), add(rest, b), rest)
        none = made("copysign", dtype, constant(0, dtype), b)
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
        return made("fmod", dtype, a, b)
    _, rest = _quotient_of(a, b)
    if dtype.kind == "i":
        rest = where(equal(b, -1), 0, rest)
    return where(equal(b, 0), 0, rest)

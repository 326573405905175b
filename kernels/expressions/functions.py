"""NumPy's functions on nodes, by name, and what those are made of that OpenCL C has not.

An integer to a whole power is multiplied out; shifts are by any number of bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from chunkfold.kernels.expressions.division import (
    add,
    divide,
    equal,
    floor_divide,
    fmod,
    greater,
    greater_equal,
    less,
    less_equal,
    multiply,
    not_equal,
    remainder,
    subtract,
)
from chunkfold.kernels.expressions.nodes import BOOL, Node, constant, signed, unsigned
from chunkfold.kernels.expressions.operations import (
    Operand,
    as_node,
    bitcast,
    build,
    cast,
    common,
    extreme,
    float_for,
    names_of,
    of_floats,
    operation,
    truth,
    where,
)


def _shift(op: str) -> Callable[[Operand, Operand], Node]:
    def function(a: Operand, b: Operand) -> Node:
        dtype = common(a, b)
        if dtype.kind not in "iu":
            raise TypeError(f"{op} has no meaning for {names_of((a, b))}")
        a, b = as_node(a, dtype), as_node(b, dtype)
        bits, whole = 8 * dtype.itemsize, unsigned(dtype)
        held = build("bitwise_and", dtype, b, constant(bits - 1, dtype))
        out = constant(0, dtype)
        if op == "right_shift" and dtype.kind == "i":
            out = build(op, dtype, a, constant(bits - 1, dtype))
        count = bitcast(b, whole) if dtype.kind == "i" else b
        return where(less(count, constant(bits, whole)), build(op, dtype, a, held), out)

    return function


def _power(a: Operand, b: Operand) -> Node:
    """Raise to a power: 0.5 is a root, whole numbers of Python's are multiplied out."""
    if isinstance(a, Node) and isinstance(b, int) and not isinstance(b, bool) and 0 <= b <= 64:
        dtype = common(a, b)
        return _multiplied(as_node(a, dtype), b)
    dtype = common(a, b)
    if dtype.kind != "f":
        raise TypeError(
            f"{names_of((a, b))}: the power of an integer must be a Python integer of 0 or more; "
            "for other powers, convert the integer to a float"
        )
    if not isinstance(b, Node) and b == 0.5:
        return build("sqrt", dtype, as_node(a, dtype))
    return build("power", dtype, as_node(a, dtype), as_node(b, dtype))


def _multiplied(a: Node, times: int) -> Node:
    if times == 0:
        return constant(1, a.dtype)
    half = _multiplied(a, times // 2) if times > 1 else None
    if half is None:
        return a
    whole = multiply(half, half)
    return multiply(whole, a) if times % 2 else whole


def _sign(a: Node) -> Node:
    """Return -1, 0 or 1; NaN stays."""
    dtype = a.dtype
    if dtype == BOOL:
        raise TypeError("sign has no meaning for bool")
    found = where(greater(a, 0), constant(1, dtype), constant(0, dtype))
    if dtype.kind != "u":
        found = where(less(a, 0), constant(-1, dtype), found)
    return where(build("isnan", BOOL, a), a, found) if dtype.kind == "f" else found


def _is_finite(a: Node) -> Node:
    if a.dtype.kind != "f":
        return constant(True, BOOL)
    return less(build("absolute", a.dtype, a), constant(np.inf, a.dtype))


def _is_inf(a: Node) -> Node:
    if a.dtype.kind != "f":
        return constant(False, BOOL)
    return equal(build("absolute", a.dtype, a), constant(np.inf, a.dtype))


def _is_nan(a: Node) -> Node:
    return build("isnan", BOOL, a) if a.dtype.kind == "f" else constant(False, BOOL)


def _sign_bit(a: Node) -> Node:
    if a.dtype.kind != "f":
        return less(a, 0) if a.dtype.kind == "i" else constant(False, BOOL)
    whole = signed(a.dtype)
    return less(bitcast(a, whole), constant(0, whole))


def _rounding(op: str) -> Callable[[Operand], Node]:
    """Return a function that rounds to whole numbers, which integers are."""

    def function(a: Node) -> Node:
        return build(op, a.dtype, a) if a.dtype.kind == "f" else a

    return function


def _dropping(op: str, plain: str) -> Callable[[Operand, Operand], Node]:
    """Return fmin or fmax: of integers what minimum and maximum are."""

    def function(a: Operand, b: Operand) -> Node:
        dtype = common(a, b)
        return BY_NAME[plain](a, b) if dtype.kind != "f" else operation(op)(a, b)

    return function


def _logic(op: str) -> Callable[..., Node]:
    def function(*operands: Operand) -> Node:
        return build(op, BOOL, *map(truth, operands))

    return function


def _clip(a: Node, least: Operand, most: Operand) -> Node:
    return BY_NAME["minimum"](BY_NAME["maximum"](a, least), most)


def _negative(a: Node) -> Node:
    if a.dtype == BOOL:
        raise TypeError("negative has no meaning for bool; write ~x")
    return build("negative", a.dtype, a)


def _square(a: Node) -> Node:
    return multiply(a, a) if a.dtype != BOOL else cast(a, np.dtype(np.int8))


def _positive(a: Node) -> Node:
    if a.dtype == BOOL:
        raise TypeError("positive has no meaning for bool")
    return a


def _absolute(a: Node) -> Node:
    return a if a.dtype.kind in "bu" else build("absolute", a.dtype, a)


_FLOAT_FUNCTIONS = (
    "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin",
    "arccos", "arctan", "sinh", "cosh", "tanh", "arctan2", "hypot", "copysign", "rint",
)  # fmt: skip
BY_NAME: Mapping[str, Callable[..., Node]] = {
    "add": add,
    "subtract": subtract,
    "multiply": multiply,
    "divide": divide,
    "true_divide": divide,
    "floor_divide": floor_divide,
    "remainder": remainder,
    "mod": remainder,
    "power": _power,
    "square": _square,
    "negative": _negative,
    "positive": _positive,
    "absolute": _absolute,
    "fabs": lambda a: _absolute(cast(a, float_for(a.dtype))),
    "abs": _absolute,
    "sign": _sign,
    "left_shift": _shift("left_shift"),
    "right_shift": _shift("right_shift"),
    "bitwise_and": operation("bitwise_and"),
    "bitwise_or": operation("bitwise_or"),
    "bitwise_xor": operation("bitwise_xor"),
    "invert": operation("invert"),
    "bitwise_invert": operation("invert"),
    "logical_and": _logic("bitwise_and"),
    "logical_or": _logic("bitwise_or"),
    "logical_xor": _logic("bitwise_xor"),
    "logical_not": _logic("invert"),
    "equal": equal,
    "not_equal": not_equal,
    "less": less,
    "less_equal": less_equal,
    "greater": greater,
    "greater_equal": greater_equal,
    "minimum": extreme("minimum", "bitwise_and"),
    "maximum": extreme("maximum", "bitwise_or"),
    "fmin": _dropping("fmin", "minimum"),
    "fmax": _dropping("fmax", "maximum"),
    "where": where,
    "clip": _clip,
    "isnan": _is_nan,
    "isfinite": _is_finite,
    "isinf": _is_inf,
    "signbit": _sign_bit,
    "floor": _rounding("floor"),
    "ceil": _rounding("ceil"),
    "trunc": _rounding("trunc"),
    "fmod": fmod,
    **{name: of_floats(name) for name in _FLOAT_FUNCTIONS},
}
"""Functions of nodes by the names that NumPy has for them."""

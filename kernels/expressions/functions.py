"""NumPy's functions on nodes: what operands become, and what an operation is made of.

Operands are nodes, Python's numbers and NumPy's scalars. Dtypes are those of NumPy (NEP 50), with
two differences: there is no float16, so that what NumPy would make one of is a float32; and an
integer to a whole power is multiplied out.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from chunkfold.kernels.expressions.meanings import MEANINGS, signed, unsigned
from chunkfold.kernels.expressions.nodes import BOOL, Node, constant, node
from chunkfold.kernels.expressions.rewrite import once
from chunkfold.kernels.expressions.style import CTYPES

has_float64: contextvars.ContextVar[bool] = contextvars.ContextVar("has_float64", default=True)
"""Whether the devices of a run have float64; without it `wide` and `real` make float32."""
Operand = Any
"""A node, or a number."""
_INT64, _UINT64 = np.dtype(np.int64), np.dtype(np.uint64)


def made(op: str, dtype: np.dtype, *sources: Node, arg: Any = None) -> Node:
    """Return the simplest node of an operation on nodes that are simple."""
    return once(node(op, dtype, *sources, arg=arg))


def cast(one: Node, dtype: np.dtype) -> Node:
    """Convert a node to a dtype.

    Raises
    ------
    TypeError
        If kernels have no such dtype.
    """
    if dtype != BOOL and dtype.name not in CTYPES:
        raise TypeError(f"kernels have no {dtype}; there are bool, {', '.join(CTYPES)}")
    return one if one.dtype == dtype else made("cast", dtype, one)


def bitcast(one: Node, dtype: np.dtype) -> Node:
    """Take the bits of a node for those of another dtype of the same size."""
    return made("bitcast", dtype, one)


def _dtype_of(operand: Operand) -> Any:
    """Return what NumPy promotes: a dtype, or a number of Python's, which has none."""
    if isinstance(operand, Node | np.generic):
        return operand.dtype
    if isinstance(operand, bool):
        return BOOL
    if isinstance(operand, int | float):
        return operand
    raise TypeError(f"{operand!r} is neither a symbol nor a number")


def common(*operands: Operand) -> np.dtype:
    """Return the dtype that NumPy gives what is made of operands; float32 for float16."""
    given = [_dtype_of(one) for one in operands]
    if not any(isinstance(one, np.dtype) for one in given):
        given = [np.asarray(one).dtype for one in given]
    found = np.result_type(*given)
    return np.dtype(np.float32) if found == np.float16 else found


def as_node(operand: Operand, like: Node | np.dtype) -> Node:
    """Return an operand as a node of a dtype.

    Raises
    ------
    TypeError
        If it is no number, or an integer that the dtype does not hold.
    """
    dtype = like.dtype if isinstance(like, Node) else like
    if isinstance(operand, Node):
        return cast(operand, dtype)
    _dtype_of(operand)
    if dtype.kind in "iu" and isinstance(operand, int) and not isinstance(operand, bool):
        limits = np.iinfo(dtype)
        if not limits.min <= operand <= limits.max:
            raise TypeError(
                f"{operand} does not fit {dtype} ({limits.min} to {limits.max}); convert the "
                "symbol first, as x.astype('int64')"
            )
    return constant(operand, dtype)


def _operation(op: str, kinds: str | None = None) -> Callable[..., Node]:
    """Return an operation on operands of one dtype, theirs in common."""
    meaning = MEANINGS[op]
    kinds = kinds or meaning.kinds

    def function(*operands: Operand) -> Node:
        _check_count(op, meaning.arity, operands)
        dtype = common(*operands)
        if dtype.kind not in kinds:
            hint = "; put comparisons in brackets, (x > 0) & (x < 1)" if "bitwise" in op else ""
            raise TypeError(f"{op} has no meaning for {_names(operands)}{hint}")
        sources = [as_node(one, dtype) for one in operands]
        return made(op, BOOL if meaning.gives == "bool" else dtype, *sources)

    return function


def _check_count(name: str, arity: int, operands: Sequence[Operand]) -> None:
    if len(operands) != arity:
        raise TypeError(f"{name} takes {arity} operands, not {len(operands)}")


def _names(operands: Sequence[Operand]) -> str:
    return " and ".join(str(getattr(one, "dtype", repr(one))) for one in operands)


def _of_floats(op: str) -> Callable[..., Node]:
    """Return a function of floats; integers become some first, as large as NumPy makes them."""
    meaning = MEANINGS[op]

    def function(*operands: Operand) -> Node:
        _check_count(op, meaning.arity, operands)
        dtype = _float_for(common(*operands))
        sources = [as_node(one, dtype) for one in operands]
        return made(op, BOOL if meaning.gives == "bool" else dtype, *sources)

    return function


def _float_for(dtype: np.dtype) -> np.dtype:
    if dtype.kind == "f":
        return dtype
    return np.dtype(np.float32 if dtype.itemsize <= 2 else np.float64)


def _divide(a: Operand, b: Operand) -> Node:
    dtype = common(a, b)
    dtype = dtype if dtype.kind == "f" else np.dtype(np.float64)
    return made("divide", dtype, as_node(a, dtype), as_node(b, dtype))


def guarded(one: Node) -> Node:
    """Hide from compilers that an integer is turned around, before a minimum or maximum of it.

    Intel's and NVIDIA's made a maximum of x - 1 of one of -x.
    """
    whole = one.dtype.kind in "iu" and _turns_around(one)
    return made("opaque", one.dtype, one) if whole else one


def _turns_around(one: Node) -> bool:
    """Whether compilers may see an integer as ~ of another; the keys of floats are no trouble."""
    if one.op in ("negative", "subtract", "bitwise_xor", "add"):
        return True
    if one.op in ("cast", "bitcast"):
        return one.sources[0].dtype.kind in "iu" and _turns_around(one.sources[0])
    if one.op == "select":
        _, yes, no = one.sources
        key = yes.op == "bitwise_xor" and yes.sources[0] is no and yes.sources[1].op == "constant"
        return not key and (_turns_around(yes) or _turns_around(no))
    return False


def _extreme(op: str, of_truths: str) -> Callable[[Operand, Operand], Node]:
    """Return minimum or maximum."""
    plain = _logical(op, of_truths)

    def function(a: Operand, b: Operand) -> Node:
        return plain(*(guarded(one) if isinstance(one, Node) else one for one in (a, b)))

    return function


def _logical(op: str, of_truths: str) -> Callable[[Operand, Operand], Node]:
    """Return arithmetic that is logic where both are truths."""
    plain = _operation(op)

    def function(a: Operand, b: Operand) -> Node:
        if common(a, b) == BOOL:
            return made(of_truths, BOOL, as_node(a, BOOL), as_node(b, BOOL))
        return plain(a, b)

    return function


def _comparison(op: str) -> Callable[[Operand, Operand], Node]:
    plain = _operation(op, "b" + MEANINGS["add"].kinds)
    mirrored = {"less": "greater", "less_equal": "greater_equal"}
    mirrored |= {value: key for key, value in mirrored.items()}

    def function(a: Operand, b: Operand) -> Node:
        for one, other, flipped in ((a, b, False), (b, a, True)):
            if isinstance(one, Node) and isinstance(other, int) and not isinstance(other, bool):
                name = mirrored.get(op, op) if flipped else op
                beyond = _beyond(name, one.dtype, other)
                if beyond is not None:
                    return constant(beyond, BOOL)
        kinds = {getattr(one, "dtype", BOOL) for one in (a, b)}
        if kinds == {_INT64, _UINT64} or _mixed(kinds):
            return _mixed_comparison(op, a, b)
        return plain(a, b)

    return function


def _mixed(kinds: set[np.dtype]) -> bool:
    """Whether one is uint64 and the other a signed integer, which float64 would not hold."""
    return _UINT64 in kinds and any(one.kind == "i" for one in kinds)


def _beyond(op: str, dtype: np.dtype, number: int) -> bool | None:
    """Return how a comparison with a number ends that an integer dtype does not hold."""
    if dtype.kind not in "iu":
        return None
    limits = np.iinfo(dtype)
    if limits.min <= number <= limits.max:
        return None
    above = number > limits.max
    return {
        "equal": False, "not_equal": True, "less": above, "less_equal": above,
        "greater": not above, "greater_equal": not above,
    }[op]  # fmt: skip


def _mixed_comparison(op: str, a: Operand, b: Operand) -> Node:
    """Compare a signed integer with a uint64: the sign first, then without one."""
    flipped = common(a).kind == "u"
    one, other = (b, a) if flipped else (a, b)
    below = made("less", BOOL, as_node(one, _INT64), constant(0, _INT64))
    sides = (as_node(one, _INT64), as_node(other, _UINT64))
    whole = (cast(sides[0], _UINT64), sides[1])
    compared = made(op, BOOL, *(whole[::-1] if flipped else whole))
    holds = {"less": not flipped, "less_equal": not flipped, "greater": flipped,
             "greater_equal": flipped, "equal": False, "not_equal": True}[op]  # fmt: skip
    return made("select", BOOL, below, constant(holds, BOOL), compared)


def where(condition: Operand, yes: Operand, no: Operand) -> Node:
    """Choose by a condition; both values are computed."""
    dtype = common(yes, no)
    return made("select", dtype, truth(condition), as_node(yes, dtype), as_node(no, dtype))


def truth(one: Operand) -> Node:
    """Return whether a value is not zero; NaN is not."""
    if not isinstance(one, Node):
        return constant(bool(one), BOOL)
    return cast(one, BOOL)


def _quotient_of(a: Node, b: Node) -> tuple[Node, Node, Node]:
    """Return C's quotient of integers, its remainder, and the divisor that they are of.

    That is 1 where C must not divide: by 0, and the least integer by -1.
    """
    dtype = a.dtype
    bad = equal(b, constant(0, dtype))
    if dtype.kind == "i":
        bad = made("bitwise_or", BOOL, bad, equal(b, constant(-1, dtype)))
    safe = made("select", dtype, bad, constant(1, dtype), b)
    quotient = made("quotient", dtype, a, safe)
    return quotient, subtract(a, multiply(quotient, safe)), safe


def _floor_divide(a: Operand, b: Operand) -> Node:
    """Divide and round down; integers by 0 give 0."""
    dtype = common(a, b)
    dtype = np.dtype(np.int8) if dtype == BOOL else dtype
    a, b = as_node(a, dtype), as_node(b, dtype)
    if dtype.kind == "f":
        return _floor_divide_floats(a, b)
    quotient, rest, _ = _quotient_of(a, b)
    if dtype.kind == "i":
        down = made(
            "bitwise_and", BOOL, not_equal(rest, 0), less(made("bitwise_xor", dtype, rest, b), 0)
        )
        quotient = where(down, subtract(quotient, 1), quotient)
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


def _remainder(a: Operand, b: Operand) -> Node:
    """Return what is left of a division that rounds down; of integers by 0 it is 0."""
    dtype = common(a, b)
    dtype = np.dtype(np.int8) if dtype == BOOL else dtype
    a, b = as_node(a, dtype), as_node(b, dtype)
    if dtype.kind == "f":
        rest = made("fmod", dtype, a, b)
        turned = where(_apart(rest, b), add(rest, b), rest)
        none = made("copysign", dtype, constant(0, dtype), b)
        return where(equal(rest, 0.0), none, turned)
    _, rest, _ = _quotient_of(a, b)
    if dtype.kind == "i":
        odd = made(
            "bitwise_and", BOOL, not_equal(rest, 0), less(made("bitwise_xor", dtype, rest, b), 0)
        )
        rest = where(odd, add(rest, b), rest)
        rest = where(equal(b, -1), 0, rest)
    return where(equal(b, 0), 0, rest)


def _shift(op: str) -> Callable[[Operand, Operand], Node]:
    def function(a: Operand, b: Operand) -> Node:
        dtype = common(a, b)
        if dtype.kind not in "iu":
            raise TypeError(f"{op} has no meaning for {_names((a, b))}")
        a, b = as_node(a, dtype), as_node(b, dtype)
        bits, whole = 8 * dtype.itemsize, unsigned(dtype)
        held = made("bitwise_and", dtype, b, constant(bits - 1, dtype))
        out = constant(0, dtype)
        if op == "right_shift" and dtype.kind == "i":
            out = made(op, dtype, a, constant(bits - 1, dtype))
        count = bitcast(b, whole) if dtype.kind == "i" else b
        return where(less(count, constant(bits, whole)), made(op, dtype, a, held), out)

    return function


def _power(a: Operand, b: Operand) -> Node:
    """Raise to a power: 0.5 is a root, whole numbers of Python's are multiplied out."""
    if isinstance(a, Node) and isinstance(b, int) and not isinstance(b, bool) and 0 <= b <= 64:
        dtype = common(a, b)
        return _multiplied(as_node(a, dtype), b)
    dtype = common(a, b)
    if dtype.kind != "f":
        raise TypeError(
            f"{_names((a, b))}: an integer is raised to a whole power that is a number of "
            "Python's, not below 0; convert it to a float for others"
        )
    if not isinstance(b, Node) and b == 0.5:
        return made("sqrt", dtype, as_node(a, dtype))
    return made("power", dtype, as_node(a, dtype), as_node(b, dtype))


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
    return where(made("isnan", BOOL, a), a, found) if dtype.kind == "f" else found


def _is_finite(a: Node) -> Node:
    if a.dtype.kind != "f":
        return constant(True, BOOL)
    return less(made("absolute", a.dtype, a), constant(np.inf, a.dtype))


def _is_inf(a: Node) -> Node:
    if a.dtype.kind != "f":
        return constant(False, BOOL)
    return equal(made("absolute", a.dtype, a), constant(np.inf, a.dtype))


def _is_nan(a: Node) -> Node:
    return made("isnan", BOOL, a) if a.dtype.kind == "f" else constant(False, BOOL)


def _sign_bit(a: Node) -> Node:
    if a.dtype.kind != "f":
        return less(a, 0) if a.dtype.kind == "i" else constant(False, BOOL)
    whole = signed(a.dtype)
    return less(bitcast(a, whole), constant(0, whole))


def _rounding(op: str) -> Callable[[Operand], Node]:
    """Return a function that rounds to whole numbers, which integers are."""

    def function(a: Node) -> Node:
        return made(op, a.dtype, a) if a.dtype.kind == "f" else a

    return function


def _dropping(op: str, plain: str) -> Callable[[Operand, Operand], Node]:
    """Return fmin or fmax: of integers what minimum and maximum are."""

    def function(a: Operand, b: Operand) -> Node:
        dtype = common(a, b)
        return BY_NAME[plain](a, b) if dtype.kind != "f" else _operation(op)(a, b)

    return function


def _logic(op: str) -> Callable[..., Node]:
    def function(*operands: Operand) -> Node:
        return made(op, BOOL, *map(truth, operands))

    return function


def _clip(a: Node, least: Operand, most: Operand) -> Node:
    return BY_NAME["minimum"](BY_NAME["maximum"](a, least), most)


def _negative(a: Node) -> Node:
    if a.dtype == BOOL:
        raise TypeError("negative has no meaning for bool; write ~x")
    return made("negative", a.dtype, a)


def _square(a: Node) -> Node:
    return multiply(a, a) if a.dtype != BOOL else cast(a, np.dtype(np.int8))


def _fmod(a: Operand, b: Operand) -> Node:
    """Return what is left of a division that rounds towards 0; of integers by 0 it is 0."""
    dtype = common(a, b)
    dtype = np.dtype(np.int8) if dtype == BOOL else dtype
    a, b = as_node(a, dtype), as_node(b, dtype)
    if dtype.kind == "f":
        return made("fmod", dtype, a, b)
    _, rest, _ = _quotient_of(a, b)
    if dtype.kind == "i":
        rest = where(equal(b, -1), 0, rest)
    return where(equal(b, 0), 0, rest)


def _positive(a: Node) -> Node:
    if a.dtype == BOOL:
        raise TypeError("positive has no meaning for bool")
    return a


def _absolute(a: Node) -> Node:
    return a if a.dtype.kind in "bu" else made("absolute", a.dtype, a)


add, multiply = _logical("add", "bitwise_or"), _logical("multiply", "bitwise_and")
subtract, divide = _operation("subtract"), _divide
equal, not_equal = _comparison("equal"), _comparison("not_equal")
less, less_equal = _comparison("less"), _comparison("less_equal")
greater, greater_equal = _comparison("greater"), _comparison("greater_equal")
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
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "mod": _remainder,
    "power": _power,
    "square": _square,
    "negative": _negative,
    "positive": _positive,
    "absolute": _absolute,
    "fabs": lambda a: _absolute(cast(a, _float_for(a.dtype))),
    "abs": _absolute,
    "sign": _sign,
    "left_shift": _shift("left_shift"),
    "right_shift": _shift("right_shift"),
    "bitwise_and": _operation("bitwise_and"),
    "bitwise_or": _operation("bitwise_or"),
    "bitwise_xor": _operation("bitwise_xor"),
    "invert": _operation("invert"),
    "bitwise_invert": _operation("invert"),
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
    "minimum": _extreme("minimum", "bitwise_and"),
    "maximum": _extreme("maximum", "bitwise_or"),
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
    "fmod": _fmod,
    **{name: _of_floats(name) for name in _FLOAT_FUNCTIONS},
}
"""Functions of nodes by the names that NumPy has for them."""

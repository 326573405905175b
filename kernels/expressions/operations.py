"""Operations on nodes: what operands become, by NumPy's dtypes (NEP 50), and simple nodes of them.

Operands are nodes, Python's numbers and NumPy's scalars. There is no float16: what NumPy would make
one of is a float32.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chunkfold.kernels.expressions.meanings import MEANINGS
from chunkfold.kernels.expressions.nodes import BOOL, Node, constant, node
from chunkfold.kernels.expressions.rewrite import simplify
from chunkfold.kernels.expressions.style import CTYPES, has_type

has_float64: contextvars.ContextVar[bool] = contextvars.ContextVar("has_float64", default=True)
"""True: the devices of a run have float64; else `wide` and `real` make float32."""
Operand = Any
"""A node, or a number."""
_INT64, _UINT64 = np.dtype(np.int64), np.dtype(np.uint64)


def build(op: str, dtype: np.dtype, *sources: Node, arg: Any = None) -> Node:
    """Return the simplest node of an operation on nodes that are simple."""
    return simplify(node(op, dtype, *sources, arg=arg))


def cast(one: Node, dtype: np.dtype) -> Node:
    """Convert a node to a dtype.

    Raises
    ------
    TypeError
        If kernels have no such dtype.
    """
    if not has_type(dtype):
        raise TypeError(f"kernels have no {dtype}; use one of bool, {', '.join(CTYPES)}")
    return one if one.dtype == dtype else build("cast", dtype, one)


def bitcast(one: Node, dtype: np.dtype) -> Node:
    """Take the bits of a node for those of another dtype of the same size."""
    return build("bitcast", dtype, one)


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


def operation(op: str, kinds: str | None = None) -> Callable[..., Node]:
    """Return an operation on operands of one dtype, theirs in common."""
    meaning = MEANINGS[op]
    kinds = kinds or meaning.kinds

    def function(*operands: Operand) -> Node:
        _check_count(op, meaning.arity, operands)
        dtype = common(*operands)
        if dtype.kind not in kinds:
            hint = "; put comparisons in brackets, (x > 0) & (x < 1)" if "bitwise" in op else ""
            raise TypeError(f"{op} has no meaning for {names_of(operands)}{hint}")
        sources = [as_node(one, dtype) for one in operands]
        return build(op, BOOL if meaning.gives == "bool" else dtype, *sources)

    return function


def _check_count(name: str, arity: int, operands: Sequence[Operand]) -> None:
    if len(operands) != arity:
        raise TypeError(f"{name} takes {arity} operands, not {len(operands)}")


def names_of(operands: Sequence[Operand]) -> str:
    """Name operands' dtypes, and numbers, for messages."""
    return " and ".join(str(getattr(one, "dtype", repr(one))) for one in operands)


def of_floats(op: str) -> Callable[..., Node]:
    """Return a function of floats; integers become some first, as large as NumPy makes them."""
    meaning = MEANINGS[op]

    def function(*operands: Operand) -> Node:
        _check_count(op, meaning.arity, operands)
        dtype = float_for(common(*operands))
        sources = [as_node(one, dtype) for one in operands]
        return build(op, BOOL if meaning.gives == "bool" else dtype, *sources)

    return function


def float_for(dtype: np.dtype) -> np.dtype:
    """Return the float dtype that NumPy computes in for values of a dtype; never float16."""
    if dtype.kind == "f":
        return dtype
    return np.dtype(np.float32 if dtype.itemsize <= 2 else np.float64)


def hide_negation(one: Node) -> Node:
    """Hide from compilers that an integer is negated, before a minimum or maximum of it.

    Intel's and NVIDIA's made a maximum of x - 1 of one of -x.
    """
    whole = one.dtype.kind in "iu" and _turns_around(one)
    return build("opaque", one.dtype, one) if whole else one


def _turns_around(one: Node) -> bool:
    """Return True if compilers may see an integer as ~ of another; keys of floats are safe."""
    if one.op in ("negative", "subtract", "bitwise_xor", "add"):
        return True
    if one.op in ("cast", "bitcast"):
        return one.sources[0].dtype.kind in "iu" and _turns_around(one.sources[0])
    if one.op == "select":
        _, yes, no = one.sources
        key = yes.op == "bitwise_xor" and yes.sources[0] is no and yes.sources[1].op == "constant"
        return not key and (_turns_around(yes) or _turns_around(no))
    return False


def extreme(op: str, of_truths: str) -> Callable[[Operand, Operand], Node]:
    """Return minimum or maximum."""
    plain = logical(op, of_truths)

    def function(a: Operand, b: Operand) -> Node:
        return plain(*(hide_negation(one) if isinstance(one, Node) else one for one in (a, b)))

    return function


def logical(op: str, of_truths: str) -> Callable[[Operand, Operand], Node]:
    """Return arithmetic that is logic where both are truths."""
    plain = operation(op)

    def function(a: Operand, b: Operand) -> Node:
        if common(a, b) == BOOL:
            return build(of_truths, BOOL, as_node(a, BOOL), as_node(b, BOOL))
        return plain(a, b)

    return function


def comparison(op: str) -> Callable[[Operand, Operand], Node]:
    """Return a comparison, exact with integers that a dtype does not hold, or of unlike signs."""
    plain = operation(op, "b" + MEANINGS["add"].kinds)
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
    """Return True for uint64 and a signed integer, of which float64 does not hold all."""
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
    below = build("less", BOOL, as_node(one, _INT64), constant(0, _INT64))
    sides = (as_node(one, _INT64), as_node(other, _UINT64))
    whole = (cast(sides[0], _UINT64), sides[1])
    compared = build(op, BOOL, *(whole[::-1] if flipped else whole))
    holds = {"less": not flipped, "less_equal": not flipped, "greater": flipped,
             "greater_equal": flipped, "equal": False, "not_equal": True}[op]  # fmt: skip
    return build("select", BOOL, below, constant(holds, BOOL), compared)


def where(condition: Operand, yes: Operand, no: Operand) -> Node:
    """Choose by a condition; both values are computed."""
    dtype = common(yes, no)
    return build("select", dtype, truth(condition), as_node(yes, dtype), as_node(no, dtype))


def truth(one: Operand) -> Node:
    """Return whether a value is not zero; NaN is not."""
    if not isinstance(one, Node):
        return constant(bool(one), BOOL)
    return cast(one, BOOL)

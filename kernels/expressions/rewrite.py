"""Rewrite nodes to simpler ones that mean the same, by a table of operations and rules.

Rules hold bit for bit: nothing is done to floats that rounding or the sign of 0 could tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from chunkfold.kernels.expressions.meanings import LEAVES, MEANINGS
from chunkfold.kernels.expressions.nodes import (
    BOOL,
    Node,
    constant,
    constant_value,
    node,
)

Rule = Callable[[Node], "Node | None"]
"""Returns what stands in a node's place, or None if it stays."""
_NOT_FOLDED = ("lookup", "search")


def simplify(one: Node) -> Node:
    """Return the simplest node equal to one whose sources are simple."""
    for rule in (*RULES.get(one.op, ()), _folded):
        found = rule(one)
        if found is not None:
            return found
    return one


def _folded(one: Node) -> Node | None:
    """Fold an operation on constants, where every device has NumPy's value."""
    plain = one.op not in LEAVES and one.op not in _NOT_FOLDED and one.sources
    if not plain or any(source.op != "constant" for source in one.sources):
        return None
    meaning = MEANINGS[one.op]
    if any(meaning.ulp) or meaning.without_fp64:
        return None
    with np.errstate(all="ignore"):
        value = meaning.numpy(one, *(np.asarray(constant_value(s)) for s in one.sources))
    return constant(value, one.dtype)


def _select(one: Node) -> Node | None:
    condition, yes, no = one.sources
    if condition.op == "constant":
        return yes if constant_value(condition) else no
    return yes if yes is no else None


def _with_constant(one: Node, *, keeps: int, wins: int | None) -> Node | None:
    """Return the other source where one is the constant that `keeps` it, or that one if it `wins`.

    The constant -1 is all bits, also for truths.
    """
    if one.dtype.kind == "f":
        return None
    for this, other in (one.sources, one.sources[::-1]):
        if this.op == "constant":
            if constant_value(this) == _whole(keeps, one.dtype):
                return other
            if wins is not None and constant_value(this) == _whole(wins, one.dtype):
                return this
    return None


def _whole(number: int, dtype: np.dtype) -> object:
    return np.array(number).astype(dtype)[()] if dtype != BOOL else bool(number)


def _and(one: Node) -> Node | None:
    return _with_constant(one, keeps=-1, wins=0)


def _or(one: Node) -> Node | None:
    return _with_constant(one, keeps=0, wins=-1)


def _add(one: Node) -> Node | None:
    return _with_constant(one, keeps=0, wins=None)


def _multiply(one: Node) -> Node | None:
    return _with_constant(one, keeps=1, wins=None)


def _not(one: Node) -> Node | None:
    (source,) = one.sources
    return source.sources[0] if source.op == "invert" else None


def _turned(one: Node) -> Node | None:
    """Write `x ^ -1` and `-1 - x` of integers as `~x`, which has a text of its own."""
    if one.dtype.kind not in "iu":
        return None
    pairs = (one.sources, one.sources[::-1]) if one.op == "bitwise_xor" else (one.sources,)
    for this, other in pairs:
        if this.op == "constant" and constant_value(this) == _whole(-1, one.dtype):
            return node("invert", one.dtype, other)
    return None


def _cast(one: Node) -> Node | None:
    """Leave out a conversion to the same dtype, and one before a narrower one of integers."""
    (source,) = one.sources
    if source.dtype == one.dtype:
        return source
    whole = all(dtype.kind in "iu" for dtype in (source.dtype, one.dtype))
    if source.op == "cast" and whole:
        (first,) = source.sources
        if first.dtype.kind in "iu" and one.dtype.itemsize <= source.dtype.itemsize:
            return simplify(node("cast", one.dtype, first))
    return None


def _bitcast(one: Node) -> Node | None:
    (source,) = one.sources
    if source.op == "bitcast":
        source = source.sources[0]
        return source if source.dtype == one.dtype else node("bitcast", one.dtype, source)
    return source if source.dtype == one.dtype else None


RULES: Mapping[str, Sequence[Rule]] = {
    "select": (_select,),
    "bitwise_and": (_and,),
    "bitwise_or": (_or,),
    "bitwise_xor": (_turned,),
    "subtract": (_turned,),
    "add": (_add,),
    "multiply": (_multiply,),
    "invert": (_not,),
    "cast": (_cast,),
    "bitcast": (_bitcast,),
}
"""Rules of each operation, in order."""

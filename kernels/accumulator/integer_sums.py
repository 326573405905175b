"""Exact sums of integers: digits of 32 bits, to which lanes add integers of 64 bits or fewer.

Digit n counts 2**(32 n); all are below 2**32 and not negative, but for the last one, which has the
sign: one form for each value. A stream of a launch has fewer than 2**31 elements, so that an int64
cannot wrap to which terms below 2**32 are added; longer ones are added digit by digit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, reduce

import numpy as np

from chunkfold.kernels.accumulator.component import BoundField, BoundState, NamedTrees
from chunkfold.kernels.exact.polynomials import arithmetic, computed_in
from chunkfold.kernels.expressions.library import distance, high_product, lower, upper
from chunkfold.kernels.expressions.nodes import BOOL, Node, constant, constant_value, field_node
from chunkfold.kernels.expressions.symbols import Symbol
from chunkfold.kernels.monoid.accumulate import CARRY_AFTER

_INT32, _INT64, _UINT64 = (np.dtype(name) for name in ("int32", "int64", "uint64"))
_Limits = tuple[int, int]
"""The least and the greatest value of a tree in real arithmetic."""


@lru_cache(maxsize=1024)
def integer_sum(tree: Node) -> tuple[tuple[BoundField, ...], BoundState] | None:
    """Return the digits of the sum of a tree, and the state that ends as them.

    None if the tree is of other numbers than integers, or has too many bits: more than 64, or 128
    of a product of two.
    """
    limits = _limits(tree)
    digits = None if limits is None else _digits(tree, limits)
    if limits is None or digits is None:
        return None
    most, s = max(map(abs, limits)), _field("s", "s")
    if most * CARRY_AFTER < 1 << 31:  # vectors hold twice as many of them
        few = _field("s", "few", _INT32)
        step = {"s": s, "few": few + Symbol(computed_in(tree, _INT32))}
        carry = {"s": s + few, "few": Symbol(constant(0, _INT32))}
        state = BoundState(
            (("s", "int64", "0"), ("few", "int32", "0")),
            _trees(step),
            _trees(_halves(s)),
            carry=_trees(carry),
        )
    elif most < 1 << 32:
        step = {"s": s + Symbol(computed_in(tree, _INT64))}
        state = BoundState((("s", "int64", "0"),), _trees(step), _trees(_halves(s)))
    else:
        own = {name: _field("s", name) for name in digits}
        order = list(digits) if len(digits) > 2 else list(reversed(digits))  # the other was slower
        step = {name: own[name] + digits[name] for name in order}
        fields = tuple((name, "int64", "0") for name in step)
        state = BoundState(fields, _trees(step), _trees(_carried(own)))
    merged = _trees(_carried({name: _field("a", name) + _field("b", name) for name in digits}))
    return tuple(BoundField(n, "int64", "0", digits[n].node, op) for n, op in merged), state


def _limits(tree: Node) -> _Limits | None:
    """Return what a tree is between; None if it is not of integers."""
    op, inner, sources = arithmetic(tree)
    if op == "constant":
        value = constant_value(inner).item()
        return (int(value), int(value)) if value % 1 == 0 else None
    if op == "factor":
        if inner.dtype.kind not in "iu":
            return (0, 1) if inner.dtype == BOOL else None
        return int(np.iinfo(inner.dtype).min), int(np.iinfo(inner.dtype).max)
    each = []
    for one in sources:
        limits = _limits(one)
        if limits is None:
            return None
        each.append(limits if op != "negative" else (-limits[1], -limits[0]))
    if op == "multiply":
        least, most = reduce(_product, each, (1, 1))
        square = len(sources) % 2 == 0 and len(set(sources)) == 1
        return max(0, least) if square else least, most
    if op == "subtract":
        each[1] = -each[1][1], -each[1][0]
    return sum(least for least, _ in each), sum(most for _, most in each)


def _product(a: _Limits, b: _Limits) -> _Limits:
    ends = [one * other for one in a for other in b]
    return min(ends), max(ends)


def _digits(tree: Node, limits: _Limits) -> dict[str, Symbol] | None:
    """Return the digits of one term, the lowest first; None if it has too many bits."""
    wide = _dtype_of(limits)
    if wide is not None:
        return _halves(Symbol(computed_in(tree, wide)))
    op, _, sources = arithmetic(tree)
    factors = _factors(*sources) if op == "multiply" and len(sources) == 2 else None
    if factors is None:
        return None
    a, b = factors
    low = _halves(a.astype(_UINT64) * b.astype(_UINT64))
    return low | _halves(high_product(a, b), 2)


def _factors(one: Node, other: Node) -> tuple[Symbol, Symbol] | None:
    """Return the factors of a product in 64 bits; of the square of a difference the distance."""
    op, _, sources = arithmetic(one)
    square = one is other and op == "subtract"
    pair = sources if square else (one, other)
    dtype = _dtype_of(*(limits for node in pair if (limits := _limits(node))))
    if dtype is None:
        return None
    a, b = (Symbol(computed_in(node, dtype)) for node in pair)
    return (distance(a, b),) * 2 if square else (a, b)


def _dtype_of(*limits: _Limits) -> np.dtype | None:
    """Return the dtype of 64 bits that holds all that is within limits, or None."""
    least, most = min(one for one, _ in limits), max(one for _, one in limits)
    for dtype in (_INT64, _UINT64):
        if np.iinfo(dtype).min <= least and most <= np.iinfo(dtype).max:
            return dtype
    return None


def _halves(whole: Symbol, first: int = 0) -> dict[str, Symbol]:
    """Return the two digits of 64 bits, the lower first."""
    return {f"d{first}": lower(whole), f"d{first + 1}": upper(whole)}


def _carried(digits: Mapping[str, Symbol]) -> dict[str, Symbol]:
    """Return digits of 32 bits of larger ones, carries propagated; the last keeps the rest."""
    made: dict[str, Symbol] = {}
    *others, last = digits
    above = None
    for name in others:
        whole = digits[name] if above is None else digits[name] + above
        made[name], above = lower(whole), upper(whole)
    return {**made, last: digits[last] + above}


def _field(holder: str, name: str, dtype: np.dtype = _INT64) -> Symbol:
    return Symbol(field_node(holder, name, dtype))


def _trees(symbols: Mapping[str, Symbol]) -> NamedTrees:
    return tuple((name, one.node) for name, one in symbols.items())

"""Tell which truths a condition may have of elements in a range, without looking at them.

Source: interval arithmetic (Moore, "Interval Analysis", 1966), of comparisons and what joins them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunkfold.kernels.expressions.meanings import MEANINGS
from chunkfold.kernels.expressions.nodes import BOOL, Node, constant_value

Truths = frozenset[bool]
BOTH: Truths = frozenset((False, True))


@dataclass(frozen=True)
class _Range:
    """The values that a node may have: between two, and perhaps NaN; both are NaN if none other."""

    low: Any
    high: Any
    nan: bool


def possible_truths(condition: Node, low: Any, high: Any) -> Truths:
    """Return the truths that a condition may have of elements from `low` to `high`, or of NaN.

    All of them, or more: both where the condition is not understood.

    Parameters
    ----------
    condition
        A tree whose value is a truth.
    low, high
        Scalars of NumPy's, of the dtype of its one input; NaN if all elements are.
    """
    if condition.dtype != BOOL:
        return BOTH
    if condition.op == "constant":
        return frozenset([bool(constant_value(condition))])
    if condition.op in _JOINED:
        each = (possible_truths(one, low, high) for one in condition.sources)
        return frozenset(_JOINED[condition.op](*truths) for truths in itertools.product(*each))
    ranges = [known for one in condition.sources if (known := _range(one, low, high)) is not None]
    if condition.op not in ("isnan", *_COMPARED) or len(ranges) < len(condition.sources):
        return BOTH
    if condition.op == "isnan":
        (one,) = ranges
        return _truths(true=one.nan, false=not np.isnan(one.low))
    one, other = ranges
    if condition.sources[0] is condition.sources[1]:  # as x != x, which asks if it is NaN
        of_numbers = condition.op in ("equal", "less_equal", "greater_equal")
        found = [of_numbers] * (not np.isnan(one.low)) + [condition.op == "not_equal"] * one.nan
        return frozenset(found)
    return _COMPARED[condition.op](one, other)


def _range(of: Node, low: Any, high: Any) -> _Range | None:
    """Return the range of a node's values; None if it is not known."""
    if of.op == "input" and of.arg == (0, "") and of.dtype.kind in "biuf":
        return _Range(low, high, nan=of.dtype.kind == "f")
    if of.op == "constant" and of.dtype.kind in "biuf":
        value = constant_value(of)
        return _Range(value, value, nan=bool(np.isnan(value)))
    if of.op == "cast" and of.dtype.kind == "f":
        found = _range(of.sources[0], low, high)
        if found is None:
            return None
        first, last = (MEANINGS["cast"].numpy(of, one) for one in (found.low, found.high))
        return _Range(first, last, found.nan)  # rounding keeps the order
    return None


def _less(one: _Range, other: _Range) -> Truths:
    false = one.nan or other.nan or bool(one.high >= other.low)
    return _truths(true=bool(one.low < other.high), false=false)


def _less_equal(one: _Range, other: _Range) -> Truths:
    false = one.nan or other.nan or bool(one.high > other.low)
    return _truths(true=bool(one.low <= other.high), false=false)


def _equal(one: _Range, other: _Range) -> Truths:
    meet = bool(one.low <= other.high and other.low <= one.high)
    single = bool(one.low == one.high == other.low == other.high)
    return _truths(true=meet, false=one.nan or other.nan or not single)


def _truths(*, true: bool, false: bool) -> Truths:
    return frozenset([True] * true + [False] * false)


_JOINED: dict[str, Callable[..., bool]] = {
    "invert": lambda a: not a,
    "bitwise_and": lambda a, b: a and b,
    "bitwise_or": lambda a, b: a or b,
    "bitwise_xor": lambda a, b: a != b,
}
_COMPARED: dict[str, Callable[[_Range, _Range], Truths]] = {
    "less": _less,
    "less_equal": _less_equal,
    "greater": lambda a, b: _less(b, a),
    "greater_equal": lambda a, b: _less_equal(b, a),
    "equal": _equal,
    "not_equal": lambda a, b: frozenset(not one for one in _equal(a, b)),
}

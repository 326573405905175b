"""Nodes: typed operations on typed sources, each of which exists once.

A reduction's functions make trees of these. Two equal operations on the same sources are one
object, so that equal trees are found by identity, and equal work is done once (hash-consing:
Ershov, "On programming of arithmetic operations", 1958).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

BOOL = np.dtype(bool)
"""Dtype of truths, which comparisons give."""
_made: weakref.WeakValueDictionary[tuple[Any, ...], Node] = weakref.WeakValueDictionary()
_making = threading.Lock()


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Node:
    """An operation, the dtype of its value, and what it is applied to.

    Nodes live as long as something holds them. Make them by `node`; they are pickled as flat lists
    and are the same objects where they arrive.
    """

    op: str
    dtype: np.dtype
    sources: tuple[Node, ...] = ()
    arg: Any = None
    """Further data: the bytes of a constant, the number and part of an input."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (_from_flat, (flat([self]),))


def node(op: str, dtype: np.dtype, *sources: Node, arg: Any = None) -> Node:
    """Return the node of an operation; equal ones are one object."""
    key = (op, dtype.str, sources, arg)
    with _making:
        found = _made.get(key)
        if found is None:
            found = _made[key] = Node(op, dtype, sources, arg)
        return found


def constant(value: Any, dtype: np.dtype) -> Node:
    """Return a constant of a dtype; two are one if all their bits are the same."""
    return node("constant", dtype, arg=np.asarray(value).astype(dtype).tobytes())


def constant_value(of: Node) -> np.generic:
    """Return a constant's value, a scalar of NumPy's."""
    found: np.generic = np.frombuffer(of.arg, of.dtype)[0]
    return found


def input_node(number: int, dtype: np.dtype, part: str = "") -> Node:
    """Return an element of an input, or the part "re" or "im" of one that is complex."""
    return node("input", dtype, arg=(number, part))


def field_node(holder: str, name: str, dtype: np.dtype) -> Node:
    """Return a field of the accumulator or the state that `holder` names: a, b or s."""
    return node("field", dtype, arg=(holder, name))


INDEX = node("index", np.dtype(np.int64))
"""An element's index in C order in what is reduced."""


def walk(roots: Iterable[Node]) -> Iterator[Node]:
    """Yield every node of some trees once, sources before what is made of them."""
    seen: set[Node] = set()
    stack = [(root, False) for root in reversed(list(roots))]
    while stack:
        one, ready = stack.pop()
        if one in seen:
            continue
        if ready:
            seen.add(one)
            yield one
        else:
            stack.append((one, True))
            stack.extend((source, False) for source in reversed(one.sources))


def flat(roots: Iterable[Node]) -> tuple[tuple[Any, ...], ...]:
    """Return trees as rows of operation, dtype, numbers of the sources' rows, and argument."""
    numbers: dict[Node, int] = {}
    rows = []
    for one in walk(roots):
        rows.append((one.op, one.dtype.str, tuple(numbers[s] for s in one.sources), one.arg))
        numbers[one] = len(numbers)
    return tuple(rows)


def _from_flat(rows: tuple[tuple[Any, ...], ...]) -> Node:
    made: list[Node] = []
    for op, dtype, sources, arg in rows:
        made.append(node(op, np.dtype(dtype), *(made[number] for number in sources), arg=arg))
    return made[-1]


def size_of(one: Node) -> int:
    """Return the bytes of a node's value; of a truth, those of the integer that holds it."""
    if one.dtype != BOOL:
        return one.dtype.itemsize
    if one.op in ("input", "field", "constant", "lookup") or not one.sources:
        return 1
    if one.op == "select":
        return max(map(size_of, one.sources[1:]))
    return max(map(size_of, one.sources))


def unsigned(dtype: np.dtype) -> np.dtype:
    """Return the unsigned integer dtype of the same size."""
    return np.dtype(f"u{dtype.itemsize}")


def signed(dtype: np.dtype) -> np.dtype:
    """Return the signed integer dtype of the same size."""
    return np.dtype(f"i{dtype.itemsize}")

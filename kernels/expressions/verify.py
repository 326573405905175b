"""See that trees are well made: each node as its meaning has it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from chunkfold.kernels.expressions.meanings import INTEGERS, LEAVES, MEANINGS, Meaning
from chunkfold.kernels.expressions.nodes import BOOL, Node, walk
from chunkfold.kernels.expressions.style import has_type


def verify(roots: Iterable[Node]) -> None:
    """See that every node of some trees is one that can be evaluated and emitted.

    Raises
    ------
    TypeError
        If one is not; it is a mistake of whoever made it, not of the user.
    """
    for one in walk(roots):
        problem = _problem(one)
        if problem:
            raise TypeError(
                f"{one.op} of {', '.join(str(s.dtype) for s in one.sources)}: {problem}"
            )


def _problem(one: Node) -> str:
    """Say what is wrong with a node; empty if nothing is."""
    if not has_type(one.dtype):
        return f"kernels have no {one.dtype}"
    if one.op in LEAVES:
        return "a leaf has sources" if one.sources else ""
    meaning = MEANINGS.get(one.op)
    if meaning is None:
        return "it has no meaning"
    dtypes = [source.dtype for source in one.sources]
    if one.op == "select":
        fits = dtypes[0] == BOOL and dtypes[1:] == [one.dtype] * 2
        return "" if fits else f"it chooses by a truth between two of {one.dtype}"
    return _unlike(one, meaning, dtypes)


def _unlike(one: Node, meaning: Meaning, dtypes: list[np.dtype]) -> str:
    """Say what is wrong with an operation whose sources have one dtype, but of a search."""
    if len(dtypes) != meaning.arity and not meaning.mixed:
        return f"it takes {meaning.arity}"
    if not meaning.mixed and len(set(dtypes)) != 1:
        return "its sources have one dtype"
    if dtypes[0].kind not in meaning.kinds:
        return f"it is of kinds {meaning.kinds!r}"
    expected = {"same": dtypes[0], "bool": BOOL}.get(meaning.gives, one.dtype)
    if one.dtype != expected:
        return f"it gives {expected}, not {one.dtype}"
    if one.op == "bitcast" and dtypes[0].itemsize != one.dtype.itemsize:
        return f"{one.dtype} has another size"
    if one.op == "magnitude" and one.dtype.kind not in INTEGERS:
        return "it gives an unsigned integer"
    return ""

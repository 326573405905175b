"""The value of trees by NumPy: what laws are tried with, and what kernels are compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from chunkfold.kernels.expressions.meanings import MEANINGS
from chunkfold.kernels.expressions.nodes import Node, constant_value, walk


def compiled(roots: Sequence[Node], leaves: Sequence[Node]) -> Callable[..., list[Any]]:
    """Return a function of the leaves' arrays that gives the values of some trees.

    Raises
    ------
    KeyError
        If they read a leaf that is not among these.
    """
    places = {leaf: number for number, leaf in enumerate(leaves)}
    start: list[Any] = [None] * len(leaves)
    steps: list[tuple[Callable[..., Any], Node, tuple[int, ...]]] = []
    for one in walk(roots):
        if one in places:
            continue
        places[one] = len(start)
        start.append(constant_value(one) if one.op == "constant" else None)
        if one.op in MEANINGS:
            steps.append((MEANINGS[one.op].numpy, one, tuple(places[s] for s in one.sources)))
        elif one.op != "constant":
            raise KeyError(f"{one.op} {one.arg} has no value")
    wanted = [places[root] for root in roots]
    count = len(leaves)

    def values(*arrays: Any) -> list[Any]:
        held = [*arrays, *start[count:]]
        for function, one, sources in steps:
            held[places[one]] = function(one, *[held[source] for source in sources])
        return [held[place] for place in wanted]

    return values


def tree_values(roots: Sequence[Node], leaves: Mapping[Node, Any]) -> list[np.ndarray]:
    """Return the values of some trees, given those of inputs, fields and the index.

    Parameters
    ----------
    leaves
        Arrays of the leaves' dtypes, whose shapes broadcast.

    Returns
    -------
    One array for each root, of its dtype; scalars where all that it reads is one.
    """
    with np.errstate(all="ignore"):
        return [np.asarray(value) for value in compiled(roots, list(leaves))(*leaves.values())]

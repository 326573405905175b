"""The value of trees by NumPy: what laws are tried with, and what kernels are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chunkfold.kernels.expressions.meanings import MEANINGS
from chunkfold.kernels.expressions.nodes import Node, constant_value, walk


def evaluate(roots: Sequence[Node], leaves: Mapping[Node, Any]) -> list[np.ndarray]:
    """Return the values of some trees, given those of inputs, fields and the index.

    Parameters
    ----------
    leaves
        Arrays of the leaves' dtypes, whose shapes broadcast.

    Returns
    -------
    One array for each root, of its dtype; scalars where all that it reads is one.
    """
    found: dict[Node, Any] = dict(leaves)
    with np.errstate(all="ignore"):
        for one in walk(roots):
            if one in found:
                continue
            if one.op == "constant":
                found[one] = constant_value(one)
            elif one.op in MEANINGS:
                given = (found[source] for source in one.sources)
                found[one] = MEANINGS[one.op].numpy(one, *given)
            else:
                raise KeyError(f"{one.op} {one.arg} has no value")
    return [np.asarray(found[root]) for root in roots]

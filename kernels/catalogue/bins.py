"""Which interval an element is in: what folds by key when groups are bins of the data's values."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from chunkfold.kernels.catalogue.histograms import greatest, least
from chunkfold.kernels.dtypes import to_order
from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.expressions.library import rank_high, search, where
from chunkfold.kernels.expressions.symbols import Symbol
from chunkfold.kernels.monoid.monoid import Monoid


def bin_number(edges: np.ndarray, *, right: bool) -> Monoid:
    """Return the reduction whose result of one element is the number of its interval, int32.

    Of what is in none, and of NaN and NaT, it is -1.

    Parameters
    ----------
    edges
        Ascending, one more than there are intervals: integers, floats, or times.
    right
        Whether the upper end of an interval belongs to it, rather than the lower one.
    """
    made = partial(_made, edges, right)
    first = edges.dtype if edges.dtype.kind in "mM" else np.dtype(np.float32)
    return made(first).adapting(made)


def _made(edges: np.ndarray, right: bool, dtype: np.dtype) -> Monoid:
    """Return it for elements of a dtype."""
    times = edges.dtype.kind in "mM"
    cuts = _ticks(edges, dtype) if times else _numbers(edges, dtype, right)
    return Monoid(
        "bin_number",
        fields={"n": "int32"},
        zero=-1,
        lift=partial(_number, cuts, len(edges) - 1, right),
        op="max",
        kinds=edges.dtype.kind if times else "biuf",
        casts=False,
    )


def _numbers(edges: np.ndarray, dtype: np.dtype, right: bool) -> list[int | None]:
    """Return the keys of edges as elements have them; None beyond the dtype's range."""
    bounds = [(greatest if right else least)(edge, dtype) for edge in edges.tolist()]
    return [None if one is None else to_order(one, dtype) for one in bounds]


def _ticks(edges: np.ndarray, dtype: np.dtype) -> list[int | None]:
    """Return edges that are times in the elements' unit.

    Raises
    ------
    MonoidError
        If that does not hold one.
    """
    ticks = edges.astype(dtype)
    cut = ticks.astype(edges.dtype) != edges
    if cut.any():
        raise MonoidError(
            f"bins have an edge {edges[cut][0]}, which {dtype} has no number for: give edges in "
            "the elements' unit"
        )
    return [int(one) for one in ticks.astype(np.int64)]


def _number(cuts: list[int | None], bins: int, right: bool, x: Symbol) -> Symbol | int:
    """Return the number of an element's interval: how many edges it is behind, less one."""
    key = rank_high(x)
    limits = np.iinfo(key.dtype)
    # Without `right` an element is behind an edge that it equals.
    if right:
        bounds = [limits.min if one is None else one + 1 for one in cuts]
    else:
        bounds = [one for one in cuts if one is not None]
    bounds = [one for one in bounds if one <= limits.max]
    if not bounds:
        return -1
    found = search(np.array(bounds, key.dtype), key)
    absent: Any = found >= bins
    if x.dtype.kind == "f":
        absent = absent | np.isnan(x)
    return where(absent, np.int32(-1), found)

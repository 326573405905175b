"""Partials of some groups: their accumulators stand group by group, each of as many outputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.partial import Partial, Wide, joined, zero_partial


def picked(partial: Partial, groups: int, at: np.ndarray) -> Partial:
    """Return some of the groups that a partial has, by their places among these, ascending."""
    if len(at) == groups:
        return partial
    each = partial.outputs // groups
    arrays = {
        name: array.reshape(groups, each, *array.shape[1:])[at].reshape(-1, *array.shape[1:])
        for name, array in partial.arrays.items()
    }
    wide = {}
    for name, rows in partial.wide.items():
        kept = np.isin(rows.at // each, at)
        moved = np.searchsorted(at, rows.at[kept] // each) * each + rows.at[kept] % each
        if len(moved):
            wide[name] = Wide(moved, rows.tables[kept])
    return Partial(arrays, wide)


def placed(
    accumulator: Accumulator, groups: int, pieces: Sequence[tuple[np.ndarray, Partial]]
) -> Partial:
    """Put partials, each of other groups, where these are among all; the rest is of nothing.

    Each comes with the numbers of its groups, int64, ascending.
    """
    if len(pieces) == 1 and len(pieces[0][0]) == groups:
        return pieces[0][1]
    each = max(partial.outputs // len(at) for at, partial in pieces)
    arrays = dict(zero_partial(accumulator, groups * each).arrays)
    rows: dict[str, list[Wide]] = {}
    for at, partial in pieces:
        for name, array in partial.arrays.items():
            shape = (-1, each, *array.shape[1:])
            arrays[name].reshape(shape)[at] = array.reshape(shape)
        for name, wide in partial.wide.items():
            moved = at[wide.at // each] * each + wide.at % each
            rows.setdefault(name, []).append(Wide(moved, wide.tables))
    return Partial(arrays, {name: joined(several) for name, several in rows.items()})

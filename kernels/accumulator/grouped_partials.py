"""Pick, place and combine partials by group: each group has as many accumulators, in a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.partial import Partial, Wide, joined_wide, taken, zero_partial


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
    return Partial(arrays, {name: joined_wide(several) for name, several in rows.items()})


_TOGETHER = 16
"""Accumulators that are combined to one at a time."""


def regrouped(
    accumulator: Accumulator,
    rows: Partial,
    outputs_of: np.ndarray,
    outputs: int,
    combine: Callable[[Sequence[Partial]], Partial],
) -> Partial:
    """Return the partial of some outputs, of the rows that belong to each.

    Some rows of each output are combined to one, as often as it takes: all outputs at a time.

    Parameters
    ----------
    outputs_of
        The output of each row: integers of shape (rows,), negative where it belongs to none.
    outputs
        How many there are; what no row belongs to is of nothing.
    combine
        Combines partials that have the same outputs.
    """
    # NumPy sorts integers of 16 bits in one pass.
    narrow = np.int16 if outputs < 1 << 15 else outputs_of.dtype
    order = np.argsort(outputs_of.astype(narrow, copy=False), kind="stable")
    order = order[np.searchsorted(outputs_of[order], 0) :]
    owners = outputs_of[order]
    while True:
        begins = np.flatnonzero(np.diff(owners, prepend=-1))
        sizes = np.diff(begins, append=len(owners))
        most = int(sizes.max(initial=1))
        if most == 1:
            break
        together = min(most, _TOGETHER)
        rank = np.arange(len(owners)) - np.repeat(begins, sizes)
        firsts = np.flatnonzero(rank % together == 0)
        left = np.diff(firsts, append=len(owners))
        numbers = np.append(order, rows.outputs)  # behind the last there is nothing
        chosen = (numbers[np.where(n < left, firsts + n, -1)] for n in range(together))
        several = [taken(accumulator, rows, one) for one in chosen]
        rows, owners = combine(several), owners[firsts]
        order = np.arange(len(owners))
    if not len(owners):
        return zero_partial(accumulator, outputs)
    numbers = np.full(outputs, rows.outputs)
    numbers[owners] = order
    return taken(accumulator, rows, numbers)

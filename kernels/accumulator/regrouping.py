"""Combine accumulators that belong to the same output: of many rows, the few groups they are in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.partial import Partial, taken, zero_partial

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

"""Fill values by group: of each group as many as it has."""

from __future__ import annotations

import numpy as np

from chunkfold.kernels import Accumulator, Partial
from chunkfold.kernels.accumulator.partial import Wide, zero_partial
from chunkfold.kernels.fold.power import Powers
from chunkfold.planning.tiles import Combine


def fills_of_groups(
    powers: Powers, combine: Combine, accumulator: Accumulator, counts: np.ndarray, outputs: int
) -> Partial:
    """Fold an element into each of some outputs of groups, of each group so many times.

    `counts` are of groups, int64. For each bit of a count there is one partial, of all groups.
    """
    bits = range(int(counts.max(initial=0)).bit_length())
    parts = [
        _chosen(accumulator, powers.of(accumulator, 1 << bit, 1), (counts >> bit & 1).astype(bool))
        for bit in bits
    ]
    of_groups = combine(accumulator, parts) if parts else zero_partial(accumulator, len(counts))
    return _for_outputs(of_groups, outputs)


def _chosen(accumulator: Accumulator, one: Partial, which: np.ndarray) -> Partial:
    """Return a partial of one output for those groups that are chosen, of nothing for others."""
    arrays = dict(zero_partial(accumulator, len(which)).arrays)
    for array, own in zip(arrays.values(), map(one.arrays.__getitem__, arrays), strict=True):
        array[which] = own
    at = np.flatnonzero(which)
    wide = {
        name: Wide(at, np.repeat(rows.tables, len(at), axis=0)) for name, rows in one.wide.items()
    }
    return Partial(arrays, wide)


def _for_outputs(of_groups: Partial, outputs: int) -> Partial:
    """Give each output of a group what the group has."""
    arrays = {name: np.repeat(array, outputs, axis=0) for name, array in of_groups.arrays.items()}
    wide = {
        name: Wide(
            (rows.at[:, None] * outputs + np.arange(outputs)).reshape(-1),
            np.repeat(rows.tables, outputs, axis=0),
        )
        for name, rows in of_groups.wide.items()
    }
    return Partial(arrays, wide)

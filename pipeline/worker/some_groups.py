"""Put partials together that have some of the groups: each block leaves those that it met."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from chunkfold.kernels import Accumulator, Partial
from chunkfold.kernels.accumulator.by_group import picked, placed


def combined_groups(
    accumulator: Accumulator,
    groups: Sequence[np.ndarray],
    partials: Sequence[Partial],
    combine: Callable[[Sequence[Partial]], Partial],
) -> Partial:
    """Return a partial of every group that any has: what several have is combined.

    `groups` are the numbers of each partial's, int64, ascending.
    """
    every, counts = np.unique(np.concatenate(groups), return_counts=True)
    several = np.flatnonzero(counts > 1)
    shared, pieces = list[Partial](), list[tuple[np.ndarray, Partial]]()
    for own, partial in zip(groups, partials, strict=True):
        at = np.searchsorted(every, own)
        both = np.isin(at, several)
        if both.any():
            part = picked(partial, len(own), np.flatnonzero(both))
            there = np.searchsorted(several, at[both])
            shared.append(placed(accumulator, len(several), [(there, part)]))
        if not both.all():
            pieces.append((at[~both], picked(partial, len(own), np.flatnonzero(~both))))
    if shared:
        pieces.append((several, combine(shared)))
    return placed(accumulator, len(every), pieces)

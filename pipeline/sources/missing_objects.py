"""Objects that were asked for and not there: counted once each, in stores that cannot be listed.

They are kept as runs of their numbers in C order over the grid of objects: where little is stored,
long runs are missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from chunkfold.errors import ChangedError
from chunkfold.sources.source import Source

MissingRuns = np.ndarray
"""int64, (runs, 2): of each run of missing objects the first number and the one behind the last, in
ascending order, apart from each other."""

NOTHING: MissingRuns = np.empty((0, 2), np.int64)
"""No object is missing."""


def missed_of(places: Collection[tuple[int, ...]], grid: Sequence[int]) -> MissingRuns:
    """Return the objects at some places of their grid.

    >>> missed_of([(0, 2), (1, 0), (0, 1), (1, 2)], (2, 3)).tolist()
    [[1, 4], [5, 6]]
    """
    table = np.array(sorted(places), np.int64).reshape(len(places), len(grid))
    numbers = np.zeros(len(places), np.int64)
    for axis, extent in enumerate(grid):
        numbers = numbers * extent + table[:, axis]
    return together([np.stack([numbers, numbers + 1], axis=1)])


def together(parts: Iterable[MissingRuns]) -> MissingRuns:
    """Return what is missing in any of several parts.

    >>> together([np.array([[0, 2], [7, 9]]), np.array([[1, 3], [9, 10]])]).tolist()
    [[0, 3], [7, 10]]
    """
    runs = np.concatenate([NOTHING, *parts])
    runs = runs[np.argsort(runs[:, 0], kind="stable")]
    reached = np.maximum.accumulate(runs[:, 1])
    begins = np.ones(len(runs), bool)
    begins[1:] = runs[1:, 0] > reached[:-1]
    ends = np.append(begins[1:], True) if len(runs) else begins
    return np.stack([runs[begins, 0], reached[ends]], axis=1)


def refuse_gone(source: Source, before: MissingRuns, now: MissingRuns) -> None:
    """See that a later read of a source found each object that reads before it found.

    Raises
    ------
    ChangedError
        If one is gone.
    """
    ends = np.append(0, before[:, 1])
    reached = np.maximum(now[:, 0], ends[np.searchsorted(before[:, 0], now[:, 0], "right")])
    gone = reached[reached < now[:, 1]]
    if gone.size:
        place = tuple(map(int, np.unravel_index(gone[0], source.object_grid)))
        raise ChangedError(
            f"{source.name}: {source.object_kind[:-1]} {source.object_key(place)} changed while it "
            "was read: the first read found it, and now it is gone; run it again when nobody "
            "writes to it"
        )


def count(missed: MissingRuns) -> int:
    """Return how many objects are missing."""
    return int((missed[:, 1] - missed[:, 0]).sum())

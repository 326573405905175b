"""Places along an axis, in any order: as a range where they are one, else one by one."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Positions:
    """Places, one by one. Two values are equal only if they are one: places may be many."""

    numbers: np.ndarray
    """int64, not to be written to."""

    def __len__(self) -> int:
        return len(self.numbers)

    def __reduce__(self) -> tuple[object, tuple[bytes]]:
        """Pickle the differences: they travel with tasks, and are mostly small."""
        steps = np.diff(self.numbers, prepend=0)
        return _unpacked, (zlib.compress(steps.astype("<i8").tobytes(), 1),)


def _unpacked(packed: bytes) -> Positions:
    return Positions(np.cumsum(np.frombuffer(zlib.decompress(packed), "<i8"), dtype=np.int64))


def as_range(places: np.ndarray) -> np.ndarray | range:
    """Return places as a range, if their distances are equal; else as they are.

    >>> as_range(np.array([5, 3, 1])), as_range(np.array([5])), as_range(np.array([], int))
    (range(5, -1, -2), range(5, 6), range(0, 0))
    >>> as_range(np.array([5, 3, 0])).tolist(), as_range(np.array([5, 5])).tolist()
    ([5, 3, 0], [5, 5])
    """
    if len(places) < 2:
        return range(int(places[0]), int(places[0]) + 1) if len(places) else range(0)
    first, step = int(places[0]), int(places[1]) - int(places[0])
    if not step or (np.diff(places) != step).any():
        return places
    return range(first, first + len(places) * step, step)


def index_of(places: Positions | np.ndarray | range) -> slice | np.ndarray:
    """Return the index by which NumPy selects places.

    >>> index_of(range(4, -1, -2)), index_of(range(1, 9, 2)), index_of(range(0))
    (slice(4, None, -2), slice(1, 9, 2), slice(0, 0, 1))
    """
    if isinstance(places, Positions):
        return places.numbers
    if not isinstance(places, range):
        return places
    if not places:
        return slice(0, 0, 1)
    stop = places[-1] + (1 if places.step > 0 else -1)
    end = places.stop if places.step > 0 else stop if stop >= 0 else None
    return slice(places.start, end, places.step)


def chosen_of(
    places: np.ndarray | range, index: Positions | np.ndarray | range | slice
) -> np.ndarray | range:
    """Return the places that an index selects of some places.

    >>> chosen_of(range(2, 9, 2), range(2, -1, -1)), chosen_of(range(2, 9, 2), np.array([0, 3]))
    (range(6, 0, -2), array([2, 8]))
    """
    by = index if isinstance(index, slice) else index_of(index)
    if isinstance(places, range):
        return places[by] if isinstance(by, slice) else np.asarray(places, np.int64)[by]
    return places[by]


def crossed(values: np.ndarray, indices: Sequence[slice | np.ndarray]) -> np.ndarray:
    """Return the elements that each axis selects by itself, as `numpy.ix_` has it.

    >>> crossed(np.arange(12).reshape(3, 4), [slice(None, None, -2), np.array([3, 0])]).tolist()
    [[11, 8], [3, 0]]
    """
    for axis, index in reversed([*enumerate(indices)]):
        values = values[(slice(None),) * axis + (index,)]
    return values

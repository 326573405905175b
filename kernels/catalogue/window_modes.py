"""The most frequent label of each window of an image, and of windows of these: exact counts.

A uniform window keeps its one label, a mixed one a count for each of its labels. Where labels are
regions few windows are mixed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_STRIP = 1 << 20
"""Elements that are looked at together, where windows are no larger."""
_BYTES = 128
"""Memory for each element of a strip, where hardly two neighbours have the same label."""


@dataclass(frozen=True)
class _Windows:
    """The windows of a level."""

    modes: np.ndarray
    """The most frequent label of each."""
    uniform: np.ndarray
    """True where all elements of a window have that label; of the same shape."""
    lengths: tuple[np.ndarray, ...]
    """Elements of a window along each axis, int64."""
    mixed: _LabelCounts
    """All labels of windows that are not uniform."""


@dataclass(frozen=True)
class _LabelCounts:
    """Counts of labels in windows: sorted by windows, and by labels within each."""

    windows: np.ndarray
    """Numbers of windows, in C order: int64, (entries,)."""
    labels: np.ndarray
    counts: np.ndarray
    """int64, (entries,)."""


def window_modes(labels: np.ndarray, factors: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """Return, level by level, the label that most elements of each window have.

    If several are as frequent, it is the least. Windows at the ends of axes are smaller.

    Parameters
    ----------
    labels
        Integers or bools, of at least one.
    factors
        For the first level the elements of a window along each axis; for each other one how many
        windows of the level before are one.

    Returns
    -------
    An array of the labels' dtype for each level.
    """
    rows = _rows(labels.shape, factors)
    strips = (labels[n : n + rows] for n in range(0, len(labels), rows))
    each = zip(*(_of_strip(strip, factors) for strip in strips), strict=True)
    return [np.concatenate(level) for level in each]


def mode_bytes(shape: Sequence[int], factors: Sequence[Sequence[int]]) -> int:
    """Return the most memory of `window_modes`, in bytes, without labels and modes."""
    return _BYTES * min(_rows(shape, factors), shape[0]) * math.prod(shape[1:])


def _rows(shape: Sequence[int], factors: Sequence[Sequence[int]]) -> int:
    """Return how many rows along the first axis a strip has, of whole windows of all levels."""
    least = min(math.prod(by[0] for by in factors), shape[0])
    return least * max(1, _STRIP // max(1, least * math.prod(shape[1:])))


def _of_strip(labels: np.ndarray, factors: Sequence[Sequence[int]]) -> list[np.ndarray]:
    none = np.empty(0, np.int64)
    windows = _Windows(
        labels,
        np.ones(labels.shape, bool),
        tuple(np.ones(n, np.int64) for n in labels.shape),
        _LabelCounts(none, np.empty(0, labels.dtype), none),
    )
    made = []
    for by in factors:
        windows = _coarser(windows, by)
        made.append(windows.modes)
    return made


def _coarser(finer: _Windows, factors: Sequence[int]) -> _Windows:
    """Put windows together, so many along each axis."""
    by = [min(factor, n) for factor, n in zip(factors, finer.modes.shape, strict=True)]
    low, high = (reduced_windows(one, finer.modes, by) for one in (np.minimum, np.maximum))
    uniform = reduced_windows(np.logical_and, finer.uniform, by) & (low == high)
    lengths = tuple(
        reduced_windows(np.add, one, [factor])
        for one, factor in zip(finer.lengths, by, strict=True)
    )
    mixed = _counted(finer, by, uniform)
    _put_most_frequent(mixed, low.reshape(-1))  # of uniform windows it has the label already
    return _Windows(low, uniform, lengths, mixed)


def _counted(finer: _Windows, by: Sequence[int], uniform: np.ndarray) -> _LabelCounts:
    """Count the labels of mixed windows, from those of the finer windows that they are made of."""
    shape, coarse_shape = finer.modes.shape, uniform.shape
    in_mixed = ~uniform
    for axis, factor in enumerate(by):
        in_mixed = np.repeat(in_mixed, factor, axis).take(range(shape[axis]), axis)
    numbers = np.flatnonzero(in_mixed & finer.uniform)
    places = np.unravel_index(numbers, shape)
    sizes = math.prod(one[at] for one, at in zip(finer.lengths, places, strict=True))
    before = finer.mixed  # finer windows that are mixed are in mixed ones

    def coarse_of(numbers: np.ndarray) -> np.ndarray:
        places = np.unravel_index(numbers, shape)
        coarse = [n // factor for n, factor in zip(places, by, strict=True)]
        return np.ravel_multi_index(coarse, coarse_shape)

    windows = np.concatenate([coarse_of(numbers), coarse_of(before.windows)])
    labels = np.concatenate([finer.modes.reshape(-1)[numbers], before.labels])
    counts = np.concatenate([sizes, before.counts])
    order = np.lexsort((labels, windows))
    windows, labels, counts = windows[order], labels[order], counts[order]
    new = np.ones(len(windows), bool)
    new[1:] = (windows[1:] != windows[:-1]) | (labels[1:] != labels[:-1])
    firsts = np.flatnonzero(new)
    summed = np.add.reduceat(counts, firsts) if len(firsts) else counts
    return _LabelCounts(windows[firsts], labels[firsts], summed)


def _put_most_frequent(mixed: _LabelCounts, modes: np.ndarray) -> None:
    """Give each window its most frequent label: the least one of several."""
    if not len(mixed.windows):
        return
    firsts = np.flatnonzero(np.diff(mixed.windows, prepend=-1))
    most = np.maximum.reduceat(mixed.counts, firsts)
    sizes = np.diff(firsts, append=len(mixed.windows))
    found = np.flatnonzero(mixed.counts == np.repeat(most, sizes))[::-1]
    modes[mixed.windows[found]] = mixed.labels[found]  # the last one stays: the least label


def reduced_windows(function: np.ufunc, values: np.ndarray, windows: Sequence[int]) -> np.ndarray:
    """Reduce each window by a function of two arrays; return a new array in C order.

    `windows` are elements of a window along each axis, 1 or more; they may be more than there are.
    """
    for axis, window in enumerate(windows):
        before = (slice(None),) * axis
        made = values[(*before, slice(0, None, window))].copy()
        for place in range(1, min(window, values.shape[axis])):
            others = values[(*before, slice(place, None, window))]
            some = made[(*before, slice(0, others.shape[axis]))]
            function(some, others, out=some)
        values = made
    return values

"""The most frequent label of each window of an image, and of windows of these: exact counts.

Of a window whose elements are alike one label is kept; of every other one how many elements have
each of its labels. Where labels are regions few windows have several.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

_STRIP = 1 << 20
"""Elements that are looked at together, where windows are no larger."""
_BYTES = 128
"""Of memory for each of them, where hardly two neighbours are alike."""


@dataclass(frozen=True)
class _Windows:
    """The windows of a level."""

    modes: np.ndarray
    """The label of each that most of its elements have."""
    alike: np.ndarray
    """Whether all of them have it: bool, of the same shape."""
    lengths: tuple[np.ndarray, ...]
    """Along each axis of how many elements they are."""
    counts: _Counts
    """Of those windows that are not alike."""


@dataclass(frozen=True)
class _Counts:
    """How many elements of a window have a label: of each window all of its labels."""

    windows: np.ndarray
    """Numbers of the windows in C order, int64, (counts,)."""
    labels: np.ndarray
    elements: np.ndarray
    """int64, (counts,)."""


def window_modes(labels: np.ndarray, factors: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """Return, level by level, the label that most elements of each window have.

    Of several labels that as many have it is the least. Windows at the ends of axes are of fewer.

    Parameters
    ----------
    labels
        Integers or bools, of at least one.
    factors
        For each level how many windows of the one before are one along each axis; of the first how
        many elements.

    Returns
    -------
    An array of the labels' dtype for each level.
    """
    rows = _rows(labels.shape, factors)
    strips = (labels[n : n + rows] for n in range(0, len(labels), rows))
    each = zip(*(_of_strip(strip, factors) for strip in strips), strict=True)
    return [np.concatenate(level) for level in each]


def mode_bytes(shape: Sequence[int], factors: Sequence[Sequence[int]]) -> int:
    """Return the memory that `window_modes` takes at most beside labels and modes."""
    return _BYTES * min(_rows(shape, factors), shape[0]) * math.prod(shape[1:])


def _rows(shape: Sequence[int], factors: Sequence[Sequence[int]]) -> int:
    """Return how many rows along the first axis a strip has, of whole windows of all levels."""
    least = math.prod(by[0] for by in factors)
    return least * max(1, _STRIP // max(1, least * math.prod(shape[1:])))


def _of_strip(labels: np.ndarray, factors: Sequence[Sequence[int]]) -> list[np.ndarray]:
    none = np.empty(0, np.int64)
    windows = _Windows(
        labels,
        np.ones(labels.shape, bool),
        tuple(np.ones(n, np.int64) for n in labels.shape),
        _Counts(none, np.empty(0, labels.dtype), none),
    )
    made = []
    for by in factors:
        windows = _coarser(windows, by)
        made.append(windows.modes)
    return made


def _coarser(finer: _Windows, by: Sequence[int]) -> _Windows:
    """Put windows together, so many along each axis."""
    shape = tuple(-(-n // factor) for n, factor in zip(finer.modes.shape, by, strict=True))
    low, high = np.empty(shape, finer.modes.dtype), np.empty(shape, finer.modes.dtype)
    alike = np.empty(shape, bool)
    for number, (inner, outer) in enumerate(_each(finer.modes.shape, by)):
        modes, same = finer.modes[outer], finer.alike[outer]
        if number:
            np.minimum(low[inner], modes, out=low[inner])
            np.maximum(high[inner], modes, out=high[inner])
            np.logical_and(alike[inner], same, out=alike[inner])
        else:  # all have one that is first
            low[...], high[...], alike[...] = modes, modes, same
    alike &= low == high
    lengths = tuple(
        np.add.reduceat(one, np.arange(0, len(one), factor))
        for one, factor in zip(finer.lengths, by, strict=True)
    )
    counts = _counted(finer, by, alike)
    _put_most_frequent(counts, low.reshape(-1))
    return _Windows(low, alike, lengths, counts)


def _counted(finer: _Windows, by: Sequence[int], alike: np.ndarray) -> _Counts:
    """Count the labels of windows that are not alike, of those that they are made of."""
    shape, outer = finer.modes.shape, alike.shape
    whole = ~alike
    for axis, factor in enumerate(by):
        whole = np.repeat(whole, factor, axis).take(range(shape[axis]), axis)
    numbers = np.flatnonzero(whole & finer.alike)
    own = np.unravel_index(numbers, shape)
    sizes = math.prod(one[at] for one, at in zip(finer.lengths, own, strict=True))
    before = finer.counts

    def outer_of(numbers: np.ndarray) -> np.ndarray:
        at = np.unravel_index(numbers, shape)
        return np.ravel_multi_index([n // factor for n, factor in zip(at, by, strict=True)], outer)

    windows = np.concatenate([outer_of(numbers), outer_of(before.windows)])
    labels = np.concatenate([finer.modes.reshape(-1)[numbers], before.labels])
    elements = np.concatenate([sizes, before.elements])
    order = np.lexsort((labels, windows))
    windows, labels, elements = windows[order], labels[order], elements[order]
    new = np.ones(len(windows), bool)
    new[1:] = (windows[1:] != windows[:-1]) | (labels[1:] != labels[:-1])
    firsts = np.flatnonzero(new)
    if not len(firsts):
        return before
    return _Counts(windows[firsts], labels[firsts], np.add.reduceat(elements, firsts))


def _put_most_frequent(counts: _Counts, modes: np.ndarray) -> None:
    """Give each window the label that most of its elements have: the least one of several."""
    if not len(counts.windows):
        return
    firsts = np.flatnonzero(np.diff(counts.windows, prepend=-1))
    most = np.maximum.reduceat(counts.elements, firsts)
    sizes = np.diff(firsts, append=len(counts.windows))
    found = np.flatnonzero(counts.elements == np.repeat(most, sizes))[::-1]
    modes[counts.windows[found]] = counts.labels[found]  # the last one counts: the least label


def _each(
    shape: Sequence[int], by: Sequence[int]
) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """Yield for each place in a window which windows have one there, and where those stand."""
    for firsts in itertools.product(*map(range, by)):
        outer = tuple(slice(n, None, factor) for n, factor in zip(firsts, by, strict=True))
        sizes = (len(range(*one.indices(n))) for one, n in zip(outer, shape, strict=True))
        inner = tuple(slice(0, size) for size in sizes)
        if all(one.stop for one in inner):
            yield inner, outer

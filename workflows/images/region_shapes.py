"""The places of regions in an array of labels: counts, sums of coordinates, bounding boxes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from chunkfold.boxes import Slices, slabs

_AT_ONCE = 1 << 20
"""Elements that are looked at together."""


@dataclass(frozen=True, eq=False)
class RegionShapes:
    """Regions by their labels, in ascending order; places count from the beginning of the array."""

    labels: np.ndarray
    """Labels, each once: of shape (regions,)."""
    area: np.ndarray
    """Numbers of elements: int64, (regions,)."""
    sums: np.ndarray
    """Sums of the places of all elements along each axis: int64, (regions, axes); so are others."""
    first: np.ndarray
    """The least places."""
    stop: np.ndarray
    """The greatest places, and 1."""

    @property
    def centroid(self) -> np.ndarray:
        """The mean places: float64, (regions, axes)."""
        whole, rest = np.divmod(self.sums, self.area[:, None])
        found: np.ndarray = whole + rest / self.area[:, None]
        return found


def shapes_of(labels: np.ndarray, codes: np.ndarray, begin: Sequence[int]) -> RegionShapes:
    """Return the regions of a box of an array.

    Parameters
    ----------
    labels
        Their labels, in ascending order.
    codes
        The number of the label of each element, -1 of what is in no region.
    begin
        The place of the box in the array.
    """
    count, ndim = len(labels), codes.ndim
    area, sums = np.zeros(count, np.int64), np.zeros((count, ndim), np.int64)
    first, last = np.full((count, ndim), np.iinfo(np.int64).max), np.full((count, ndim), -1)
    for box in slabs(codes.shape, 1, _AT_ONCE):
        region, places, length = _runs(codes, box, begin)
        np.add.at(area, region, length)
        for axis, place in enumerate(places):
            inner = axis == ndim - 1
            np.add.at(sums[:, axis], region, place * length + inner * (length * (length - 1) // 2))
            np.minimum.at(first[:, axis], region, place)
            np.maximum.at(last[:, axis], region, place + inner * (length - 1))
    return RegionShapes(labels, area, sums, first, last + 1)


def _runs(
    codes: np.ndarray, box: Slices, begin: Sequence[int]
) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """Return runs of equal numbers along the last axis: these, the first places, the lengths."""
    part = np.ascontiguousarray(codes[box])
    flat, starts = part.reshape(-1), np.ones(part.shape, bool)
    starts[..., 1:] = part[..., 1:] != part[..., :-1]
    at = np.flatnonzero(starts)
    length = np.diff(at, append=flat.size)
    inside = flat[at] >= 0
    at, length = at[inside], length[inside]
    each = zip(np.unravel_index(at, part.shape), box, begin, strict=True)
    return flat[at], [place + along.start + first for place, along, first in each], length


def joined_shapes(parts: Sequence[RegionShapes]) -> RegionShapes:
    """Return the regions of several boxes, of which some are in more than one."""
    labels, place = np.unique(np.concatenate([one.labels for one in parts]), return_inverse=True)
    return RegionShapes(
        labels,
        folded(np.add, place, (one.area for one in parts)),
        folded(np.add, place, (one.sums for one in parts)),
        folded(np.minimum, place, (one.first for one in parts)),
        folded(np.maximum, place, (one.stop for one in parts)),
    )


def folded(op: np.ufunc, place: np.ndarray, values: Iterable[np.ndarray]) -> np.ndarray:
    """Combine rows that have the same place; each place from 0 on has one."""
    rows = np.concatenate(list(values))
    order = np.argsort(place, kind="stable")
    found: np.ndarray = op.reduceat(
        rows[order], np.flatnonzero(np.diff(place[order], prepend=-1)), axis=0
    )
    return found

"""The keys of elements: the number of the group that each is in, as workers have them."""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from chunkfold.boxes import Slices, place_key, place_of
from chunkfold.errors import PlanError
from chunkfold.grid import Piece
from chunkfold.kernels.strides import c_strides
from chunkfold.sources.label_numbers import narrow

DEVICE_KEYS_BYTES = 64 << 20
"""Keys that a block keeps on the device, for the boxes that come."""
SEEN_BYTES = 64 << 10
"""Keys of a place that the host has, too."""
RENUMBERED_BYTES = 16 << 20
"""Labels that are numbered anew for a block, at most."""
COUNTED_BYTES = 4 << 20
"""Counts of keys that are kept."""


@dataclass(frozen=True, eq=False)
class LabelCodes:
    """The number of one label of each element, along some axes; the same along all others."""

    axes: tuple[int, ...]
    """Axes of the source, ascending."""
    codes: np.ndarray
    """Integers over what is selected of these axes; -1 of what has no label."""
    count: int
    """Number of labels."""

    def joined(self, other: LabelCodes) -> LabelCodes:
        """Return both as one, along the axes that either has; labels count in C order."""
        axes = tuple(sorted({*self.axes, *other.axes}))
        one, two = self.spread(axes), other.spread(axes)
        none = (one < 0) | (two < 0)
        codes = np.where(none, -1, one.astype(np.int64) * other.count + two)
        count = self.count * other.count
        return LabelCodes(axes, narrow(codes, count), count)

    def spread(self, axes: Sequence[int]) -> np.ndarray:
        """Return the codes with an axis for each of `axes`, of one element where they lack it."""
        lacking = [n for n, axis in enumerate(axes) if axis not in self.axes]
        return np.expand_dims(self.codes, lacking)


@dataclass(frozen=True, eq=False)
class Keys:
    """The number of the group of each element: of several labels it counts them in C order.

    Labels along axes of their own are never put together for the whole array.
    """

    factors: tuple[LabelCodes, ...]
    strides: tuple[int, ...]
    """The difference that the next label of each factor makes to the number of a group."""
    count: int
    """Number of groups."""
    _counted: dict[tuple[tuple[int, int], ...], np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, labels: Sequence[LabelCodes]) -> Keys:
        """Return the keys of one label, or of several.

        Raises
        ------
        PlanError
            If their groups are too many for what devices count them in.
        """
        counts = [one.count for one in labels]
        count = math.prod(counts)
        if count * len(labels) >= 1 << 31:
            told = " x ".join(f"{one:,}" for one in counts)
            raise PlanError(f"labels make {told} groups, more than any device can count")
        held: list[tuple[LabelCodes, int]] = []
        for one, stride in zip(labels, c_strides(counts), strict=True):
            # Neighbours of which one has all axes of the other take no more room as one.
            if held and _nested(held[-1][0].axes, one.axes):
                held[-1] = held[-1][0].joined(one), stride
            else:
                held.append((one, stride))
        factors, strides = zip(*held, strict=True)
        return cls(factors, strides, count)

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes of all labels, ascending."""
        return tuple(sorted({axis for one in self.factors for axis in one.axes}))

    @property
    def nbytes(self) -> int:
        """Bytes of all keys in memory."""
        return sum(one.codes.nbytes for one in self.factors)

    @property
    def size(self) -> int:
        """Elements that have different keys: those along all axes of labels."""
        return math.prod(self._shape)

    @property
    def _shape(self) -> tuple[int, ...]:
        extents: dict[int, int] = {}
        for one in self.factors:
            extents |= zip(one.axes, one.codes.shape, strict=True)
        return tuple(extents[axis] for axis in self.axes)

    def along(self, axes: Sequence[int]) -> Keys:
        """Return them with axes that are numbered otherwise: by their places in `axes`, so far."""
        return self.of_factors(
            replace(one, axes=tuple(axes[n] for n in one.axes)) for one in self.factors
        )

    def of_factors(self, factors: Iterable[LabelCodes]) -> Keys:
        """Return them with others in the place of these, of the same labels."""
        return Keys(tuple(factors), self.strides, self.count)

    def reordered(self, along: Callable[[np.ndarray, tuple[int, ...]], np.ndarray]) -> Keys:
        """Return them in another order along axes; `along` gives it to what goes along some."""
        return self.of_factors(
            replace(one, codes=along(one.codes, one.axes)) for one in self.factors
        )

    def box_axes(self, ndim: int) -> tuple[int, ...]:
        """Return the axes that keys have in a box of so many."""
        del ndim
        return self.axes

    def device_bytes(self, leaf_elements: int) -> int:
        """Return the bytes that a block has of them on its device and on the host, at most."""
        whole, leaf = 4 * self.size, 4 * leaf_elements
        return min(whole, DEVICE_KEYS_BYTES + leaf) + min(whole, leaf)

    def packed(self) -> PackedKeys:
        """Return them as they travel: labels mostly repeat."""
        packed = tuple(
            (one.axes, zlib.compress(one.codes.tobytes(), 1), one.codes.dtype.name, one.codes.shape)
            for one in self.factors
        )
        counts = tuple(one.count for one in self.factors)
        return PackedKeys(packed, counts, self.strides, self.count)

    def place(self, pieces: Sequence[Piece], within: Sequence[slice]) -> Slices:
        """Return where the keys are of a part of a leaf."""
        return place_of(pieces, within, self.axes)

    def at(self, place: Slices) -> np.ndarray:
        """Return the keys at a place: int32, C-contiguous; those of what is in no group are < 0."""
        if len(self.factors) == 1:
            return np.ascontiguousarray(self.factors[0].codes[place], np.int32)
        spread = [self._spread(n, place) for n in range(len(self.factors))]
        return np.ascontiguousarray(functools.reduce(np.add, spread), np.int32)

    def whole(self) -> np.ndarray:
        """Return the keys of all that have different ones: int32, along `axes`."""
        return self.at(tuple(slice(0, size) for size in self._shape))

    def _spread(self, number: int, place: Slices) -> np.ndarray:
        """Return what a label adds to keys, as it is broadcast: what lacks it takes all of them."""
        one, stride = self._part(number, place), np.int32(self.strides[number])
        codes = one.spread(self.axes).astype(np.int32)
        return np.where(codes < 0, np.int32(-self.count), codes * stride)

    def _part(self, number: int, place: Slices) -> LabelCodes:
        """Return the codes of a label at a place."""
        one, axes = self.factors[number], self.axes
        cut = tuple(place[axes.index(axis)] for axis in one.axes)
        return replace(one, codes=one.codes[cut])

    def of_some(self, reach: Slices) -> tuple[Keys, np.ndarray] | None:
        """Return the keys among the groups that may be in a box alone, and which these are.

        None if all may be, or if labels are more than each block should have a copy of. Several
        labels give every combination of those in the box.

        Parameters
        ----------
        reach
            The box, along every axis of what is selected.

        Returns
        -------
        Keys, and numbers of groups: int64, ascending.
        """
        if self.nbytes > RENUMBERED_BYTES:
            return None
        factors, numbers = list[LabelCodes](), np.zeros(1, np.int64)
        for one, stride in zip(self.factors, self.strides, strict=True):
            met = np.unique(one.codes[tuple(reach[axis] for axis in one.axes)])
            met = met[met >= 0].astype(np.int64) if (met >= 0).any() else np.zeros(1, np.int64)
            renumbered = np.full(one.count + 1, -1)  # the last is of what has no label
            renumbered[met] = np.arange(len(met))
            codes = narrow(renumbered, len(met))[one.codes]
            factors.append(LabelCodes(one.axes, codes, len(met)))
            numbers = np.add.outer(numbers, met * stride).reshape(-1)
        if len(numbers) == self.count:
            return None
        strides = tuple(c_strides([one.count for one in factors]))
        return Keys(tuple(factors), strides, len(numbers)), numbers

    def counts(self, place: Slices) -> np.ndarray:
        """Count the keys of each group at a place: int64, (count,), not to be written to.

        Counts of the latest places are kept: leaves that differ along other axes have the same.
        """
        name = place_key(place)
        if name not in self._counted:
            found = self._count(place)
            if (len(self._counted) + 1) * found.nbytes > COUNTED_BYTES:
                self._counted.clear()
            self._counted[name] = found
        return self._counted[name]

    def _count(self, place: Slices) -> np.ndarray:
        if sum(len(one.axes) for one in self.factors) > len(self.axes):  # labels share some
            return _counted(self.at(place), self.count)
        each = [self._part(n, place) for n in range(len(self.factors))]
        counts = [_counted(one.codes, one.count) for one in each]
        return functools.reduce(np.multiply.outer, counts).reshape(-1)


@dataclass(frozen=True)
class PackedKeys:
    """Keys on their way to a worker."""

    factors: tuple[tuple[tuple[int, ...], bytes, str, tuple[int, ...]], ...]
    """For each label its axes, its codes packed, and their dtype and shape."""
    counts: tuple[int, ...]
    strides: tuple[int, ...]
    count: int

    def unpacked(self) -> Keys:
        """Return them as they were."""
        made = []
        for (axes, packed, dtype, shape), count in zip(self.factors, self.counts, strict=True):
            codes = np.frombuffer(zlib.decompress(packed), dtype).reshape(shape)
            made.append(LabelCodes(axes, codes, count))
        return Keys(tuple(made), self.strides, self.count)


def _nested(axes: Sequence[int], others: Sequence[int]) -> bool:
    return {*axes} <= {*others} or {*others} <= {*axes}


def _counted(codes: np.ndarray, count: int) -> np.ndarray:
    return np.bincount(codes[codes >= 0].astype(np.intp), minlength=count)

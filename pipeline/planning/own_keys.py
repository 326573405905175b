"""Groups that are bins of the reduced elements themselves: keys that devices make of these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from chunkfold.boxes import Slices
from chunkfold.errors import PlanError
from chunkfold.grid import Piece
from chunkfold.kernels import Accumulator, Packing, bind
from chunkfold.kernels.catalogue.histograms import bin_number
from chunkfold.sources.bins import Intervals, edges_for

_DEVICE_COPIES = 3
"""Numbers that a device has of each of a leaf's elements: folded, and copied, of two sizes."""


@dataclass(frozen=True, eq=False)
class OwnKeys:
    """The number of the interval that each element is in, as `Keys`, but that none is held."""

    axes: tuple[int, ...]
    """The axes of the source that are reduced."""
    intervals: Intervals

    nbytes = 0

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.intervals.edges) - 1

    def along(self, axes: Sequence[int]) -> OwnKeys:
        """Return them with axes that are numbered otherwise: by their places in `axes`, so far."""
        return replace(self, axes=tuple(axes[n] for n in self.axes))

    def reordered(self, along: Callable[..., Any]) -> OwnKeys:
        """Return them in another order along axes: elements bring theirs."""
        del along
        return self

    def box_axes(self, ndim: int) -> tuple[int, ...]:
        """Return the axes that keys have in a box of so many: each element has its own."""
        return tuple(range(ndim))

    def device_bytes(self, leaf_elements: int) -> int:
        """Return what a block has of them on its device, at most."""
        return _DEVICE_COPIES * np.dtype(np.int32).itemsize * leaf_elements

    def place(self, pieces: Sequence[Piece], within: Sequence[slice]) -> Slices:
        """Return where the keys are of a part of a leaf: nowhere."""
        del pieces, within
        return ()

    def packed(self) -> OwnKeys:
        """Return them as they travel."""
        return self

    def unpacked(self) -> OwnKeys:
        """Return them as they were."""
        return self

    def accumulator(self, dtype: np.dtype, packing: Packing | None, name: str) -> Accumulator:
        """Return what a device folds single elements into to number them.

        Raises
        ------
        PlanError
            If elements are of another kind than the edges.
        MonoidError
            If their unit does not hold the edges.
        """
        edges = self.intervals.edges
        value = packing.value_dtype(dtype) if packing else dtype
        given, wanted = (
            one.dtype.kind if one.dtype.kind in "mMc" else "number"
            for one in (np.empty(0, value), edges)
        )
        if given != wanted:
            raise PlanError(
                f"{name}: bins have edges of {edges.dtype}, but the elements are {value}: "
                f"{edges_for(value)}"
            )
        monoid = bin_number(edges, right=self.intervals.right)
        return bind([monoid], [dtype], packings=[packing]).accumulator

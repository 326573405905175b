"""Rows of a tile's elements: each is folded alone, and then put where it belongs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from chunkfold.boxes import Slices, extents_of, place_of
from chunkfold.grid import Piece
from chunkfold.kernels import Accumulator, Box, Partial
from chunkfold.kernels.accumulator.grouped_partials import regrouped
from chunkfold.kernels.accumulator.partial import assembled, zero_partial
from chunkfold.kernels.fold.shapes import CPU_ACCUMULATORS, SPLIT_BYTES
from chunkfold.planning.group_keys import Keys
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaf_boxes import InputTraits, leaf_box
from chunkfold.planning.tile_finishing import Combine

MOST_OPEN = 32
"""Boxes of rows that are folded at a time: each has accumulators of its own on the device."""


class PreaggregatedRead(NamedTuple):
    """The part of some rows that is read at once."""

    box: Box
    """To the kernels: its outputs are rows."""
    place: Slices
    """The box of rows among those of the selection, along axes that are kept or tell them apart."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a tile, which some of the reduced axes tell apart.

    If an array of times, latitudes and longitudes is reduced along all three and latitudes have
    weights, a row has all elements of one latitude.
    """

    layout: Layout
    """The tile's, in which those axes are kept."""
    output_axes: tuple[int, ...]
    """Axes that are kept of what is reduced."""
    inputs: InputTraits
    of_tile: int
    """Rows of a tile, at most."""
    boxes: int
    """Boxes of rows that leaves cut a tile into."""

    @classmethod
    def of(cls, layout: Layout, apart: Sequence[int], inputs: InputTraits) -> Rows:
        """Return the rows of a layout, which differ in their places along some axes."""
        along = [n for n in layout.reduced if n in apart]
        summed = tuple(n for n in layout.reduced if n not in apart)
        each = math.prod(layout.shape[n] for n in along)
        boxes = math.prod(int(np.count_nonzero(layout.axes[n].lengths)) for n in along)
        of_tile = each * max(layout.most_outputs, 1)
        return cls(replace(layout, reduced=summed), layout.kept, inputs, of_tile, boxes)

    @property
    def of_leaf(self) -> int:
        """Rows of a leaf, at most."""
        return max(self.layout.most_outputs, 1)

    @property
    def elements(self) -> int:
        """Elements of each."""
        return math.prod(self.layout.shape[n] for n in self.layout.reduced)

    @property
    def elements_of_leaf(self) -> int:
        """Elements of each that a leaf has, at most."""
        return math.prod(self.layout.axes[n].cells.cell for n in self.layout.reduced)

    def open_bytes(self, accumulator: Accumulator) -> int:
        """Return what the folds hold on the device that are open at a time."""
        each = accumulator.nbytes
        spare = min(SPLIT_BYTES, CPU_ACCUMULATORS * each)
        return min(self.boxes, MOST_OPEN) * max(self.of_leaf * each, spare)

    def read(self, pieces: Sequence[Piece], within: Sequence[slice]) -> PreaggregatedRead:
        """Describe a part of a leaf."""
        box = leaf_box(self.layout, pieces, within, self.inputs)
        return PreaggregatedRead(box, place_of(pieces, within, self.layout.kept))

    def outputs_at(self, place: Slices) -> np.ndarray:
        """Return which of the outputs of a box of rows each belongs to: int64, (rows,)."""
        shape = extents_of(place)
        own = [
            size if n in self.output_axes else 1
            for n, size in zip(self.layout.kept, shape, strict=True)
        ]
        numbers = np.arange(math.prod(own)).reshape(own)
        return np.broadcast_to(numbers, shape).reshape(-1)

    def grouped(
        self,
        accumulator: Accumulator,
        keys: Keys | None,
        done: Sequence[tuple[Slices, Partial]],
        outputs: int,
        combine: Combine,
    ) -> Partial:
        """Return the partial of so many outputs, of each group if there are groups.

        Parameters
        ----------
        keys
            Along axes that are kept, or tell rows apart.
        done
            Boxes of rows, and the partial of each. If a partial is of several groups, one after
            another, each has all rows of the box.
        """
        whole = outputs if keys is None else keys.count * outputs
        if not done:
            return zero_partial(accumulator, whole)
        numbers = np.concatenate([self._numbers(keys, outputs, *one) for one in done])
        sizes = itertools.accumulate((rows.outputs for _, rows in done), initial=0)
        each = zip(itertools.pairwise(sizes), done, strict=True)
        rows = assembled(
            accumulator,
            (len(numbers),),
            [((slice(*ends),), folded) for ends, (_, folded) in each],
        )
        return regrouped(accumulator, rows, numbers, whole, partial(combine, accumulator))

    def _numbers(
        self, keys: Keys | None, outputs: int, place: Slices, folded: Partial
    ) -> np.ndarray:
        """Return which output of which group each row of a box belongs to: integers, (rows,)."""
        if keys is None:
            numbers = self.outputs_at(place)
        else:
            along = [self.layout.kept.index(axis) for axis in keys.axes]
            codes, shape = keys.at(tuple(place[n] for n in along)), extents_of(place)
            codes = codes.reshape([size if n in along else 1 for n, size in enumerate(shape)])
            numbers = np.broadcast_to(codes, shape).reshape(-1)
            if outputs > 1:
                own = numbers.astype(np.int64) * outputs + self.outputs_at(place)
                numbers = np.where(numbers < 0, -1, own)
        return np.tile(numbers, folded.outputs // len(numbers)) if len(numbers) else numbers

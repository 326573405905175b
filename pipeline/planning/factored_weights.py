"""Weights that many elements share: these are added up first, and then weighed row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from chunkfold.boxes import Slices, extents_of, place_of
from chunkfold.grid import Piece
from chunkfold.kernels import Accumulator, Box
from chunkfold.kernels.accumulator.factoring import Factoring, factoring
from chunkfold.planning.broadcast_inputs import BroadcastInput
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaf_boxes import Inputs, leaf_box

MOST_ROWS = 1 << 14
"""Rows of a tile: the host multiplies each one's sum."""
LEAST_ELEMENTS = 256
"""Elements of a row: of fewer it is no less work to weigh them all."""


class RowsRead(NamedTuple):
    """What is read of some rows."""

    box: Box
    """To the kernels: its outputs are rows."""
    place: Slices
    """The rows, along the axes that are kept or have weights: among those of the selection."""


@dataclass(frozen=True, eq=False)
class FactoredWeights:
    """How a tile's outputs are made of rows, of which each has one weight."""

    factoring: Factoring
    layout: Layout
    """The tile's, in which axes of weights are kept."""
    outputs: tuple[int, ...]
    """Axes that are kept."""
    weights: BroadcastInput
    inputs: Inputs
    """All but the weights."""

    @property
    def most_rows(self) -> int:
        """Rows of a tile, at most."""
        return max(self.layout.most_outputs, 1)

    def read(self, pieces: Sequence[Piece], within: Sequence[slice]) -> RowsRead:
        """Describe a part of a leaf."""
        box = leaf_box(self.layout, pieces, within, self.inputs)
        return RowsRead(box, place_of(pieces, within, self.layout.kept))

    def weights_at(self, place: Slices) -> np.ndarray:
        """Return the weight of each row at a place: (rows,)."""
        region = [slice(0, 1)] * len(self.layout.axes)
        for n, along in zip(self.layout.kept, place, strict=True):
            region[n] = along
        return self.weights.at(region).reshape(-1)

    def outputs_at(self, place: Slices) -> np.ndarray:
        """Return which of a box of outputs each of their rows belongs to: int64, (rows,)."""
        shape = extents_of(place)
        own = [
            size if n in self.outputs else 1
            for n, size in zip(self.layout.kept, shape, strict=True)
        ]
        numbers = np.arange(math.prod(own)).reshape(own)
        return np.broadcast_to(numbers, shape).reshape(-1)


def factored_weights(
    accumulator: Accumulator, layout: Layout, held: Sequence[BroadcastInput], staged: int
) -> FactoredWeights | None:
    """Return how rows are weighed; None if elements are.

    Those of a row differ along the reduced axes that weights lack alone. These must be long, and
    exact sums all that is asked for. `held` are inputs behind so many `staged` ones: weights, then
    a mask.
    """
    if not held or layout.coarsened:
        return None
    weights, *others = held
    rows = [n for n in layout.reduced if n in weights.axes]
    summed = [n for n in layout.reduced if n not in weights.axes]
    shape = layout.shape
    each = math.prod(shape[n] for n in summed)
    many = math.prod(shape[n] for n in rows) * max(layout.most_outputs, 1)
    if each < LEAST_ELEMENTS or many > MOST_ROWS:
        return None
    found = factoring(accumulator, staged)
    if found is None or not np.isfinite(weights.values).all():
        return None
    inputs = Inputs(staged=staged, held=tuple(others))
    return FactoredWeights(
        found, replace(layout, reduced=tuple(summed)), layout.kept, weights, inputs
    )

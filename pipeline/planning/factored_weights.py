"""Weights that many elements share: these are added up first, and then weighed row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chunkfold.boxes import Slices
from chunkfold.kernels import Accumulator, Partial
from chunkfold.kernels.accumulator.factoring import Factoring, RowSums, factoring
from chunkfold.planning.broadcast_inputs import BroadcastInput
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaf_boxes import Inputs
from chunkfold.planning.rows import Rows
from chunkfold.planning.tiles import Combine

MOST_ROWS = 1 << 14
"""Rows of a tile: the host multiplies each one's sum."""
LEAST_ELEMENTS = 256
"""Elements of a row: of fewer it is no less work to weigh them all."""


@dataclass(frozen=True, eq=False)
class FactoredWeights:
    """How a tile's outputs are made of rows, of which each has one weight."""

    rows: Rows
    factoring: Factoring
    weights: BroadcastInput

    @property
    def folded(self) -> Accumulator:
        """What a row is folded into, without its weight."""
        return self.factoring.rows

    @property
    def left_out(self) -> int:
        """The number of the input that has weights."""
        return self.factoring.number

    @property
    def whole(self) -> Accumulator:
        """What comes of them."""
        return self.factoring.whole

    @property
    def nbytes(self) -> int:
        """Bytes of accumulators of rows, on the device and read back, beside those of results."""
        return self.rows.open_bytes(self.folded) + 3 * self.rows.of_tile * self.folded.nbytes

    def joined(
        self,
        done: Sequence[tuple[Slices, Partial]],
        outputs: int,
        combine: Combine,  # noqa: ARG002 # the host multiplies
    ) -> Partial:
        """Weigh rows, and add them up; see `WayOfRows`."""
        sums = [
            RowSums(partial, self._weights_at(place), self.rows.outputs_at(place))
            for place, partial in done
        ]
        return self.factoring.joined(sums, outputs)

    def _weights_at(self, place: Slices) -> np.ndarray:
        """Return the weight of each row at a place: (rows,)."""
        layout = self.rows.layout
        region = [slice(0, 1)] * len(layout.axes)
        for n, along in zip(layout.kept, place, strict=True):
            region[n] = along
        return self.weights.at(region).reshape(-1)


def factored_weights(
    accumulator: Accumulator, layout: Layout, held: Sequence[BroadcastInput], staged: int
) -> FactoredWeights | None:
    """Return how rows are weighed; None if elements are.

    Elements of a row differ only along reduced axes that weights lack. These must be long, and
    exact sums all that is asked for. `held` are inputs behind so many `staged` ones: weights, a
    mask, or weights and then a mask.
    """
    if not held or layout.coarsened:
        return None
    weights, *others = held
    rows = Rows.of(layout, weights.axes, Inputs(staged=staged, held=tuple(others)))
    if rows.elements < LEAST_ELEMENTS or rows.of_tile > MOST_ROWS:
        return None
    found = factoring(accumulator, staged)
    if found is None or not np.isfinite(weights.values).all():
        return None
    return FactoredWeights(rows, found, weights)

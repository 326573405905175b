"""Fold rows of elements first, where each row has one weight or one label.

Rows that have one weight each are weighed when they are folded. Rows that have one label each are
grouped then: where labels lack long axes, as those of a map lack that of time, that is no more work
for elements than a reduction along these axes, and CPUs fold by key several times slower.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from chunkfold.boxes import Slices
from chunkfold.kernels import Accumulator, Partial
from chunkfold.kernels.accumulator.factoring import Factoring, RowSums, factoring
from chunkfold.planning.broadcast_inputs import BroadcastInput
from chunkfold.planning.group_keys import Keys
from chunkfold.planning.grouping import AnyKeys
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaf_boxes import InputTraits
from chunkfold.planning.rows import MOST_OPEN, Rows
from chunkfold.planning.rules import PlanRule, applies
from chunkfold.planning.tile_finishing import Combine
from chunkfold.planning.workers import slow_by_key

MOST_ROWS = 1 << 14
"""Rows of a tile that are weighed: the host multiplies each one's sum."""
LEAST_WEIGHED = 256
"""Elements of a row that is weighed: to weigh all elements of shorter rows is no more work."""
LEAST_GROUPED = 128
"""Elements of a row that is grouped: to group shorter rows takes as long as to group elements."""
LEAST_OF_LEAF = 4
"""Elements of a row that a leaf has: for fewer, accumulators are read and written too often."""
MOST_BYTES = 512 << 20
"""Accumulators of a tile's rows, on the device and read back, in bytes."""
_COPIES = 6
"""Copies of rows that were read back, while they are grouped."""


class Preaggregation(Protocol):
    """Rows that are folded first, and the way in which results are made of them."""

    @property
    def rows(self) -> Rows:
        """The rows of a tile."""

    @property
    def folded(self) -> Accumulator:
        """Accumulator that a row is folded into."""

    @property
    def left_out(self) -> int | None:
        """Number of the input that rows are folded without, if there is one."""

    @property
    def whole(self) -> Accumulator:
        """Accumulator that rows are joined to."""

    @property
    def nbytes(self) -> int:
        """Bytes that accumulators of rows take, on the device and read back."""

    def joined(
        self, done: Sequence[tuple[Slices, Partial]], outputs: int, combine: Combine
    ) -> Partial:
        """Return the partial of so many outputs, of boxes of rows and what was folded of each."""


@dataclass(frozen=True, eq=False)
class FactoredWeights:
    """Rows that have one weight each, and are weighed when they are folded."""

    rows: Rows
    factoring: Factoring
    weights: BroadcastInput

    @classmethod
    def of(
        cls,
        accumulator: Accumulator,
        layout: Layout,
        broadcast: Sequence[BroadcastInput],
        staged: int,
    ) -> FactoredWeights | None:
        """Return the rows of a layout; None if something else than exact sums is weighed."""
        weights, *others = broadcast
        found = factoring(accumulator, staged)
        if found is None:
            return None
        rows = Rows.of(layout, weights.axes, InputTraits(staged=staged, broadcast=tuple(others)))
        return cls(rows, found, weights)

    @property
    def folded(self) -> Accumulator:
        """Accumulator that a row is folded into, without its weight."""
        return self.factoring.rows

    @property
    def left_out(self) -> int:
        """The number of the input that has weights."""
        return self.factoring.number

    @property
    def whole(self) -> Accumulator:
        """Accumulator that rows are joined to."""
        return self.factoring.whole

    @property
    def nbytes(self) -> int:
        """Bytes that accumulators of rows take, on the device and read back."""
        return self.rows.open_bytes(self.folded) + 3 * self.rows.of_tile * self.folded.nbytes

    def joined(
        self,
        done: Sequence[tuple[Slices, Partial]],
        outputs: int,
        combine: Combine,  # noqa: ARG002 # the host multiplies
    ) -> Partial:
        """Weigh rows, and add them up; see `Preaggregation`."""
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
    accumulator: Accumulator, layout: Layout, broadcast: Sequence[BroadcastInput], staged: int
) -> FactoredWeights | None:
    """Return rows to weigh; None if elements are weighed.

    Elements of a row differ only along reduced axes that weights lack. These must be long, and
    nothing but exact sums may be asked for. `broadcast` are inputs that follow `staged` others:
    weights, a mask, or weights and then a mask.
    """
    if layout.coarsened or not applies(PlanRule.FACTORED_WEIGHTS):
        return None
    made = FactoredWeights.of(accumulator, layout, broadcast, staged)
    if made is None or made.rows.elements < LEAST_WEIGHED or made.rows.of_tile > MOST_ROWS:
        return None
    return made if np.isfinite(made.weights.values).all() else None


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows that are in one group each, and are grouped when they are folded."""

    rows: Rows
    folded: Accumulator
    keys: Keys
    left_out: ClassVar[None] = None

    @classmethod
    def of(
        cls,
        accumulator: Accumulator,
        layout: Layout,
        keys: Keys,
        broadcast: Sequence[BroadcastInput],
        staged: int,
    ) -> LabelledRows:
        """Return the rows of a layout."""
        inputs = InputTraits(accumulator.uses_index, staged, tuple(broadcast))
        return cls(Rows.of(layout, keys.axes, inputs), accumulator, keys)

    @property
    def whole(self) -> Accumulator:
        """Accumulator that rows are joined to: the same for every group."""
        return self.folded

    @property
    def nbytes(self) -> int:
        """Bytes that accumulators of rows take, on the device and read back."""
        return self.rows.open_bytes(self.folded) + _COPIES * self.rows.of_tile * self.folded.nbytes

    def joined(
        self, done: Sequence[tuple[Slices, Partial]], outputs: int, combine: Combine
    ) -> Partial:
        """Group rows; see `Preaggregation`. Groups come first, each of all outputs."""
        return self.rows.grouped(self.folded, self.keys, done, outputs, combine)


def labelled_rows(
    accumulator: Accumulator,
    layout: Layout,
    keys: AnyKeys,
    broadcast: Sequence[BroadcastInput],
    staged: int,
    kinds: frozenset[str],
) -> LabelledRows | None:
    """Return rows to group; None if elements are grouped.

    `broadcast` are inputs that follow `staged` others, and `kinds` those of the devices.
    """
    if not isinstance(keys, Keys) or layout.coarsened or not slow_by_key(kinds):
        return None
    if not applies(PlanRule.LABELLED_ROWS):
        return None
    made = LabelledRows.of(accumulator, layout, keys, broadcast, staged)
    rows = made.rows
    if (
        rows.elements < LEAST_GROUPED
        or rows.elements_of_leaf < LEAST_OF_LEAF
        or rows.boxes > MOST_OPEN
        or made.nbytes > MOST_BYTES
    ):
        return None
    return made


def preaggregated(
    accumulator: Accumulator,
    layout: Layout,
    broadcast: Sequence[BroadcastInput],
    staged: int,
    keys: AnyKeys | None,
    kinds: frozenset[str],
) -> Preaggregation | None:
    """Return the rows that are folded first; None if elements are folded.

    Parameters
    ----------
    broadcast
        Inputs that lack axes of the data. They follow `staged` others.
    keys
        The group of each element, if there are groups.
    kinds
        Kinds of devices.
    """
    if keys is not None:
        return labelled_rows(accumulator, layout, keys, broadcast, staged, kinds)
    return factored_weights(accumulator, layout, broadcast, staged) if broadcast else None


def preaggregation_of(
    accumulator: Accumulator,
    layout: Layout,
    broadcast: Sequence[BroadcastInput],
    staged: int,
    keys: AnyKeys | None,
) -> Preaggregation:
    """Return the rows of a layout that planning has chosen to fold first; as `preaggregated`."""
    if isinstance(keys, Keys):
        return LabelledRows.of(accumulator, layout, keys, broadcast, staged)
    made = FactoredWeights.of(accumulator, layout, broadcast, staged)
    assert made is not None
    return made

"""Rows of elements that have one label each: they are folded first, and then grouped.

Where labels lack long axes, as those of a map do that of time, that is no more work for elements
than a reduction along these axes. CPUs fold by key several times slower.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from chunkfold.boxes import Slices
from chunkfold.kernels import Accumulator, Partial
from chunkfold.planning.broadcast_inputs import BroadcastInput
from chunkfold.planning.group_keys import Keys
from chunkfold.planning.grouping import AnyKeys
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaf_boxes import Inputs
from chunkfold.planning.rows import MOST_OPEN, Rows
from chunkfold.planning.tiles import Combine

KINDS = frozenset({"cpu"})
"""Of devices that fold by key slower than they are given elements: a GPU's memory is faster."""
LEAST_ELEMENTS = 128
"""Elements of a row: to group rows of fewer takes as long as to group these."""
LEAST_OF_LEAF = 4
"""Elements of a row that a leaf has: for fewer, accumulators are read and written too often."""
MOST_BYTES = 512 << 20
"""Of accumulators of a tile's rows, on the device and read back."""

_COPIES = 6
"""Of rows that were read back, while they are grouped."""


def slow_by_key(kinds: frozenset[str]) -> bool:
    """Whether devices, whose kinds are known, all fold by key slower than elements come."""
    return bool(kinds) and kinds <= KINDS


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """How a tile's groups are made of rows, of which each is in one."""

    rows: Rows
    folded: Accumulator
    keys: Keys
    left_out: ClassVar[None] = None

    @property
    def whole(self) -> Accumulator:
        """What comes of them: the same for every group."""
        return self.folded

    @property
    def nbytes(self) -> int:
        """Bytes of accumulators of rows, on the device and read back, beside those of results."""
        return self.rows.open_bytes(self.folded) + _COPIES * self.rows.of_tile * self.folded.nbytes

    def joined(
        self, done: Sequence[tuple[Slices, Partial]], outputs: int, combine: Combine
    ) -> Partial:
        """Group rows; see `WayOfRows`. Groups come first, each of all outputs."""
        return self.rows.grouped(self.folded, self.keys, done, outputs, combine)


def labelled_rows(
    accumulator: Accumulator,
    layout: Layout,
    keys: AnyKeys,
    held: Sequence[BroadcastInput],
    staged: int,
    kinds: frozenset[str],
) -> LabelledRows | None:
    """Return how rows are grouped; None if elements are.

    `held` are inputs behind so many `staged` ones, and `kinds` those of the devices.
    """
    if not isinstance(keys, Keys) or layout.coarsened or not slow_by_key(kinds):
        return None
    inputs = Inputs(accumulator.uses_index, staged, tuple(held))
    made = LabelledRows(Rows.of(layout, keys.axes, inputs), accumulator, keys)
    rows = made.rows
    if (
        rows.elements < LEAST_ELEMENTS
        or rows.elements_of_leaf < LEAST_OF_LEAF
        or rows.boxes > MOST_OPEN
        or made.nbytes > MOST_BYTES
    ):
        return None
    return made

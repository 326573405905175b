"""Rows of a tile's elements: each is folded alone, and then put where it belongs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from chunkfold.boxes import Slices, extents_of, place_of
from chunkfold.grid import Piece
from chunkfold.kernels import Accumulator, Box, Partial
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaf_boxes import Inputs, leaf_box
from chunkfold.planning.tiles import Combine


class RowsRead(NamedTuple):
    """What is read of some rows."""

    box: Box
    """To the kernels: its outputs are rows."""
    place: Slices
    """The rows, along the axes that are kept or tell rows apart: among those of the selection."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a tile, which some of the reduced axes tell apart."""

    layout: Layout
    """The tile's, in which those axes are kept."""
    outputs: tuple[int, ...]
    """Axes that are kept of what is reduced."""
    inputs: Inputs
    count: int
    """Rows of a tile, at most."""

    @classmethod
    def of(cls, layout: Layout, apart: Sequence[int], inputs: Inputs) -> Rows:
        """Return those of a layout, told apart by their places along some axes."""
        folded = tuple(n for n in layout.reduced if n not in apart)
        each = math.prod(layout.shape[n] for n in layout.reduced if n in apart)
        count = each * max(layout.most_outputs, 1)
        return cls(replace(layout, reduced=folded), layout.kept, inputs, count)

    @property
    def of_leaf(self) -> int:
        """Rows of a leaf, at most."""
        return max(self.layout.most_outputs, 1)

    @property
    def places(self) -> int:
        """In how many places leaves have rows of a tile, each of which is folded by itself."""
        return -(-self.count // self.of_leaf)

    @property
    def elements(self) -> int:
        """Elements of each."""
        return math.prod(self.layout.shape[n] for n in self.layout.reduced)

    @property
    def elements_of_leaf(self) -> int:
        """Elements of each that a leaf has, at most."""
        return math.prod(self.layout.axes[n].cells.cell for n in self.layout.reduced)

    def read(self, pieces: Sequence[Piece], within: Sequence[slice]) -> RowsRead:
        """Describe a part of a leaf."""
        box = leaf_box(self.layout, pieces, within, self.inputs)
        return RowsRead(box, place_of(pieces, within, self.layout.kept))

    def outputs_at(self, place: Slices) -> np.ndarray:
        """Return which of a box of outputs each of their rows belongs to: int64, (rows,)."""
        shape = extents_of(place)
        own = [
            size if n in self.outputs else 1
            for n, size in zip(self.layout.kept, shape, strict=True)
        ]
        numbers = np.arange(math.prod(own)).reshape(own)
        return np.broadcast_to(numbers, shape).reshape(-1)


class WayOfRows(Protocol):
    """How results come of rows: what each is folded into, and how they are joined."""

    @property
    def rows(self) -> Rows:
        """Which rows there are."""

    @property
    def folded(self) -> Accumulator:
        """What a row is folded into."""

    @property
    def without(self) -> int | None:
        """The number of the input that folds of rows do without, if any."""

    @property
    def whole(self) -> Accumulator:
        """What comes of them."""

    @property
    def nbytes(self) -> int:
        """Bytes of all accumulators of a tile's rows, on the device and read back."""

    def joined(
        self, done: Sequence[tuple[Slices, Partial]], outputs: int, combine: Combine
    ) -> Partial:
        """Return the partial of a box of outputs, by places of rows and what was folded there."""

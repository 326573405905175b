"""How the leaves of a selection are numbered, and what each covers: pure integer functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chunkfold.grid import Axis, Piece
from chunkfold.kernels.geometry import Box, box, c_strides


@dataclass(frozen=True)
class Layout:
    """How the leaves of a selection are numbered: by tile of outputs, then by part of a tile.

    A *tile* is the outputs that one cell of kept axes gives; a *part* is one leaf of a tile.
    Both count in C order over the leaf grid.
    """

    axes: tuple[Axis, ...]
    """Every axis, cut in leaves."""
    reduced: tuple[int, ...]

    @property
    def kept(self) -> tuple[int, ...]:
        """Axes that are not reduced."""
        return tuple(n for n in range(len(self.axes)) if n not in self.reduced)

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the selection."""
        return tuple(axis.length for axis in self.axes)

    @property
    def tiles(self) -> int:
        """Number of tiles."""
        return math.prod(self.axes[n].pieces for n in self.kept)

    @property
    def parts(self) -> int:
        """Number of leaves of each tile."""
        return math.prod(self.axes[n].pieces for n in self.reduced)

    @property
    def outputs(self) -> int:
        """Number of results."""
        return math.prod(self.shape[n] for n in self.kept)

    @property
    def elements(self) -> int:
        """Number of elements selected."""
        return math.prod(self.shape)

    def leaf(self, tile: int, part: int) -> tuple[Piece, ...]:
        """Return the pieces of one leaf, axis by axis."""
        numbers = dict(zip(self.kept, self._numbers(self.kept, tile), strict=True))
        numbers |= zip(self.reduced, self._numbers(self.reduced, part), strict=True)
        return tuple(axis.piece(numbers[n]) for n, axis in enumerate(self.axes))

    def leaf_elements(self) -> np.ndarray:
        """Return the elements of every leaf: int64, (tiles, parts)."""
        return self._by_leaf([axis.lengths for axis in self.axes])

    def leaf_sums(self, held: np.ndarray, cell: Sequence[int]) -> np.ndarray:
        """Add up for every leaf what the cells of a grid hold that it touches: (tiles, parts)."""
        for n, axis in enumerate(self.axes):
            first, last = axis.touched(cell[n])
            reached = np.insert(np.cumsum(held, axis=n), 0, 0, axis=n)
            held = reached.take(last, axis=n) - reached.take(first, axis=n)
        return held.transpose(self.kept + self.reduced).reshape(self.tiles, self.parts)

    def leaf_objects(self, tile: int, part: int, shape: Sequence[int]) -> tuple[slice, ...]:
        """Return which objects of a grid a leaf touches."""
        return tuple(
            slice(piece.source.start // size, (piece.source.stop - 1) // size + 1)
            for piece, size in zip(self.leaf(tile, part), shape, strict=True)
        )

    def _by_leaf(self, factors: Sequence[np.ndarray]) -> np.ndarray:
        """Multiply a number for each piece of each axis out, over all leaves."""
        product = np.ones((), np.int64)
        for n in (*self.kept, *self.reduced):
            product = np.multiply.outer(product, factors[n])
        return product.reshape(self.tiles, self.parts)

    def tile_pieces(self, tile: int) -> tuple[Piece, ...]:
        """Return the pieces of a tile along the kept axes."""
        numbers = self._numbers(self.kept, tile)
        return tuple(
            self.axes[n].piece(number) for n, number in zip(self.kept, numbers, strict=True)
        )

    def tile_place(self, tile: int) -> tuple[slice, ...]:
        """Return where a tile's outputs stand among all."""
        pieces = self.tile_pieces(tile)
        return tuple(slice(piece.position, piece.position + piece.length) for piece in pieces)

    def tile_shape(self, tile: int) -> tuple[int, ...]:
        """Return the extents of a tile's outputs."""
        return tuple(piece.length for piece in self.tile_pieces(tile))

    def tile_outputs(self, tile: int) -> int:
        """Return the number of outputs of a tile."""
        return math.prod(self.tile_shape(tile))

    @property
    def most_outputs(self) -> int:
        """Outputs of the largest tile: the first and the last of an axis may be cut."""
        return math.prod(int(self.axes[n].lengths.max(initial=0)) for n in self.kept)

    def leaf_box(self, pieces: Sequence[Piece], within: Sequence[slice], *, indexed: bool) -> Box:
        """Describe a part of a leaf that stands C-contiguous in a buffer of its own.

        `indexed` tells whether the reduction reads indices; if not, axes may merge freely.
        """
        shape = [cut.stop - cut.start for cut in within]
        if not indexed:
            return box(shape, self.reduced)
        strides = c_strides(self.shape)
        index = sum(
            (piece.position + cut.start) * stride
            for piece, cut, stride in zip(pieces, within, strides, strict=True)
        )
        return box(shape, self.reduced, index_strides=strides, index=index)

    def _numbers(self, axes: Sequence[int], flat: int) -> tuple[int, ...]:
        shape = tuple(self.axes[n].pieces for n in axes)
        return tuple(int(n) for n in np.unravel_index(flat, shape)) if shape else ()

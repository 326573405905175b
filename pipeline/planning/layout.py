"""Number the leaves of a selection, and say what each covers: pure integer functions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from chunkfold.axis_cuts import Cells
from chunkfold.grid import Axis, Piece


@dataclass(frozen=True)
class Layout:
    """A selection that is cut in leaves, which are numbered by tile, then by part of a tile.

    A *tile* is the outputs that one cell of kept axes gives; a *part* is one leaf of a tile.
    Both count in C order over the leaf grid. An axis of windows is kept, and each of its windows is
    reduced: where these are split, their pieces are parts of a tile.
    """

    axes: tuple[Axis, ...]
    """Every axis, cut in leaves."""
    reduced: tuple[int, ...]

    @cached_property
    def kept(self) -> tuple[int, ...]:
        """Axes that are not reduced."""
        return tuple(n for n in range(len(self.axes)) if n not in self.reduced)

    @cached_property
    def gathers(self) -> bool:
        """True if places are read along an axis that no slice with a positive step selects."""
        return any(axis.picked is not None or axis.step < 0 for axis in self.axes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Extents of the selection."""
        return tuple(axis.length for axis in self.axes)

    @cached_property
    def coarsened(self) -> tuple[int, ...]:
        """Axes that are reduced window by window."""
        return tuple(n for n in self.kept if self.axes[n].window)

    @cached_property
    def outputs_shape(self) -> tuple[int, ...]:
        """Extents of the results along the kept axes."""
        return tuple(self.axes[n].outputs for n in self.kept)

    @cached_property
    def by_window(self) -> tuple[int, ...]:
        """Extents of the selection, where an axis of windows is two: of windows, and in one."""
        return self.windowed([axis.outputs for axis in self.axes],
                               [axis.window for axis in self.axes])  # fmt: skip

    @cached_property
    def reduced_by_window(self) -> tuple[int, ...]:
        """The axes of `by_window` that are reduced."""
        flags = self.windowed(
            [n in self.reduced for n in range(len(self.axes))], [True] * len(self.axes)
        )
        return tuple(n for n, reduces in enumerate(flags) if reduces)

    def windowed(self, outer: Sequence[int], inner: Sequence[int]) -> tuple[int, ...]:
        """Put a number for the axis in a window behind that of an axis of windows."""
        coarsened = self.coarsened
        each = ((a, b) if n in coarsened else (a,)
                for n, (a, b) in enumerate(zip(outer, inner, strict=True)))  # fmt: skip
        return tuple(itertools.chain.from_iterable(each))

    @property
    def tiles(self) -> int:
        """Number of tiles."""
        return math.prod(self.tile_grid)

    @property
    def parts(self) -> int:
        """Number of leaves of each tile."""
        return math.prod(self.part_grid)

    @cached_property
    def tile_grid(self) -> tuple[int, ...]:
        """Tiles along each axis: 1 along those that are reduced."""
        return tuple(
            1 if n in self.reduced else axis.pieces // max(1, axis.parts)
            for n, axis in enumerate(self.axes)
        )

    @cached_property
    def part_grid(self) -> tuple[int, ...]:
        """Parts of a tile along each axis: 1 along those that are kept and whole."""
        return tuple(
            axis.pieces if n in self.reduced else axis.parts for n, axis in enumerate(self.axes)
        )

    @property
    def leaves(self) -> int:
        """Number of leaves of all tiles."""
        return self.tiles * self.parts

    @property
    def outputs(self) -> int:
        """Number of results."""
        return math.prod(self.outputs_shape)

    @property
    def elements(self) -> int:
        """Number of elements selected."""
        return math.prod(self.shape)

    def numbers(self, tile: Any, part: Any) -> list[Any]:
        """Return the number of a leaf's piece along each axis; or those of many leaves."""
        numbers = []
        for tiles, parts in zip(self.tile_grid[::-1], self.part_grid[::-1], strict=True):
            (tile, a), (part, b) = divmod(tile, tiles), divmod(part, parts)
            numbers.append(a * parts + b)
        return numbers[::-1]

    def tile_and_part(self, numbers: Sequence[Any]) -> tuple[Any, Any]:
        """Return of which tile which part a leaf is, by the numbers of its pieces; or of many.

        >>> from chunkfold.axis_cuts import Cells
        >>> axes = tuple(Axis(Cells(6, 2), 0, 6, 1) for _ in "yx")
        >>> [Layout(axes, reduced).tile_and_part((2, 1)) for reduced in ((0,), (1,), (0, 1))]
        [(1, 2), (2, 1), (0, 7)]
        """
        both = [divmod(n, parts) for n, parts in zip(numbers, self.part_grid, strict=True)]
        tile, part = 0, 0
        for (a, b), tiles, parts in zip(both, self.tile_grid, self.part_grid, strict=True):
            tile, part = tile * tiles + a, part * parts + b
        return tile, part

    def leaf(self, tile: int, part: int) -> tuple[Piece, ...]:
        """Return the pieces of one leaf, axis by axis."""
        numbers = self.numbers(tile, part)
        return tuple(axis.piece(number) for axis, number in zip(self.axes, numbers, strict=True))

    def reach(self, tiles: tuple[int, int], parts: tuple[int, int]) -> tuple[slice, ...]:
        """Return the least box of what is selected that has the leaves of some parts of tiles.

        >>> from chunkfold.axis_cuts import Cells
        >>> Layout((Axis(Cells(10, 4), 0, 10, 1),), (0,)).reach((0, 1), (1, 3))
        (slice(4, 10, None),)
        """
        ends = []
        numbers = self.numbers(np.arange(*tiles)[:, None], np.arange(*parts))
        for axis, along in zip(self.axes, numbers, strict=True):
            first, last = axis.piece(int(along.min())), axis.piece(int(along.max()))
            ends.append(slice(first.position, last.position + last.length))
        return tuple(ends)

    def leaf_elements(self) -> np.ndarray:
        """Return the elements of every leaf: int64, (tiles, parts)."""
        return self._by_leaf([axis.lengths for axis in self.axes])

    def part_depths(self, tile: int, parts: np.ndarray, place: Sequence[slice]) -> np.ndarray:
        """Return how many elements parts of a tile have for each output of a box: int64.

        The box is one of `alike`.
        """
        depths, boxes = np.ones(len(parts), np.int64), dict(zip(self.kept, place, strict=True))
        for n, number in enumerate(self.numbers(tile, parts)):
            axis = self.axes[n]
            lengths = np.broadcast_to(axis.lengths[number], len(parts))
            if n in self.reduced or axis.split:
                depths *= lengths
            elif axis.window:
                depths *= np.minimum(lengths - boxes[n].start * axis.window, axis.window)
        return depths

    def alike(self, tile: int) -> list[tuple[slice, ...]]:
        """Cut a tile's outputs into boxes of which all are made of as many elements.

        >>> from chunkfold.axis_cuts import Cells
        >>> Layout((Axis(Cells(9, 9), 0, 9, 1, window=2),), ()).alike(0)
        [(slice(0, 4, None),), (slice(4, 5, None),)]
        """
        cuts = []
        for n, piece in zip(self.kept, self.tile_pieces(tile), strict=True):
            axis = self.axes[n]
            outputs = -(-piece.length // axis.window) if axis.window else piece.length
            whole = outputs
            if axis.window and not axis.split:
                whole = piece.length // axis.window
            bounds = sorted({0, whole, outputs})
            cuts.append([slice(*ends) for ends in itertools.pairwise(bounds)] or [slice(0, 0)])
        return list(itertools.product(*cuts))

    def depth(self, within: Sequence[slice]) -> int:
        """Return how many elements a box has for each of its outputs."""
        sizes = [cut.stop - cut.start for cut in within]
        windows = (min(sizes[n], self.axes[n].window) for n in self.coarsened)
        return math.prod((*(sizes[n] for n in self.reduced), *windows))

    def _by_leaf(self, factors: Sequence[np.ndarray]) -> np.ndarray:
        """Multiply a number for each piece of each axis out, over all leaves."""
        product = np.ones((), np.int64)
        for along in factors:
            product = np.multiply.outer(product, along)
        return self.in_order(product)

    def in_order(self, pieces: np.ndarray) -> np.ndarray:
        """Lay what there is for each piece, axis by axis, out by tiles and parts."""
        grid = zip(self.tile_grid, self.part_grid, strict=True)
        apart = pieces.reshape(tuple(itertools.chain.from_iterable(grid)))
        tiles, parts = (range(first, apart.ndim, 2) for first in (0, 1))
        return apart.transpose((*tiles, *parts)).reshape(self.tiles, self.parts)

    def tile_pieces(self, tile: int) -> tuple[Piece, ...]:
        """Return the pieces of a tile's first part along the kept axes."""
        leaf = self.leaf(tile, 0)
        return tuple(leaf[n] for n in self.kept)

    def tile_region(self, tile: int) -> tuple[slice, ...]:
        """Return where a tile's outputs stand among all."""
        places = []
        for n, piece in zip(self.kept, self.tile_pieces(tile), strict=True):
            first, behind = piece.position, piece.position + piece.length
            if window := self.axes[n].window:
                first, behind = first // window, -(-behind // window)
            places.append(slice(first, behind))
        return tuple(places)

    def tile_shape(self, tile: int) -> tuple[int, ...]:
        """Return the extents of a tile's outputs."""
        return tuple(place.stop - place.start for place in self.tile_region(tile))

    def tile_outputs(self, tile: int) -> int:
        """Return the number of outputs of a tile."""
        return math.prod(self.tile_shape(tile))

    def outputs_along(self, axis: int) -> np.ndarray:
        """Return how many outputs each tile has along a kept axis: int64."""
        own = self.axes[axis]
        if own.split:
            return np.ones(own.outputs, np.int64)
        return np.asarray(-(-own.lengths // (own.window or 1)))

    def elements_along(self, axis: int, piece: Piece, outputs: slice) -> slice:
        """Return which elements of a piece some of its tile's outputs are made of, along an axis.

        >>> from chunkfold.axis_cuts import Cells
        >>> axis = Axis(Cells(10, 5), 0, 10, 1, window=2)
        >>> Layout((axis,), ()).elements_along(0, axis.piece(0), slice(1, 3))
        slice(2, 6, None)
        """
        window = self.axes[axis].window
        if not window:
            return outputs
        if self.axes[axis].split:
            return slice(0, piece.length)
        return slice(outputs.start * window, min(outputs.stop * window, piece.length))

    def outputs_of(self, within: Sequence[slice]) -> tuple[slice, ...]:
        """Return which of a tile's outputs some elements of a leaf are of.

        >>> from chunkfold.axis_cuts import Cells
        >>> axes = Axis(Cells(10, 5), 0, 10, 1, window=2), Axis(Cells(10, 5), 0, 10, 1)
        >>> Layout((*axes, axes[1]), (2,)).outputs_of([slice(2, 5), slice(1, 3), slice(0, 5)])
        (slice(1, 3, None), slice(1, 3, None))
        """
        each = ((self.axes[n], within[n]) for n in self.kept)
        bounds = ((1, 0, 1) if axis.split else (axis.window or 1, cut.start, cut.stop)
                  for axis, cut in each)  # fmt: skip
        return tuple(slice(start // by, -(-stop // by)) for by, start, stop in bounds)

    def output_cuts(self, axis: int, piece: Piece, grids: Sequence[Cells]) -> list[slice]:
        """Cut a tile's outputs along a kept axis so that all of a box have elements in one cell.

        But windows that are in several cells, which stand alone.
        """
        cuts, window = piece.cut(grids), self.axes[axis].window
        if not window:
            return cuts
        if self.axes[axis].split:
            return [slice(0, 1)]
        whole = piece.length // window
        bounds = {n for cut in cuts for n in (cut.start // window, -(-cut.stop // window))}
        bounds |= {-(-cut.start // window) for cut in cuts} | {cut.stop // window for cut in cuts}
        bounds |= {whole, -(-piece.length // window)}
        return [slice(*ends) for ends in itertools.pairwise(sorted(bounds))]

    def per_output(self) -> int:
        """Return how many elements an output has of a leaf, at most, along axes that are kept."""
        whole = (self.axes[n] for n in self.coarsened if not self.axes[n].split)
        return math.prod(axis.window for axis in whole)

    @property
    def most_outputs(self) -> int:
        """Outputs of the largest tile: the first and the last of an axis may be cut."""
        most = (int(self.axes[n].lengths.max(initial=0)) / (self.axes[n].window or 1)
                for n in self.kept)  # fmt: skip
        return math.prod(map(math.ceil, most))

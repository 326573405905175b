"""How the leaves of a selection are numbered, and what each covers: pure integer functions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from chunkfold.grid import Axis, Cells, Piece
from chunkfold.kernels import KeyedBox, keyed_box
from chunkfold.kernels.fold.fold import Run
from chunkfold.kernels.geometry import Box, box, c_strides
from chunkfold.planning.held_inputs import HeldInput

_SUMMED = 1 << 20
"""Cells that are added up at a time."""


@dataclass(frozen=True)
class Inputs:
    """What the boxes of a reduction depend on beside their place."""

    indexed: bool = False
    """Whether it reads indices; if not, axes may merge freely."""
    staged: int = 1
    """Inputs that stand in buffers as the first one does."""
    held: tuple[HeldInput, ...] = ()
    """Those behind them, which lack axes."""


@dataclass(frozen=True)
class Layout:
    """How the leaves of a selection are numbered: by tile of outputs, then by part of a tile.

    A *tile* is the outputs that one cell of kept axes gives; a *part* is one leaf of a tile.
    Both count in C order over the leaf grid. An axis of windows is kept, and each of its windows is
    reduced: where these are split, their pieces are parts of a tile.
    """

    axes: tuple[Axis, ...]
    """Every axis, cut in leaves."""
    reduced: tuple[int, ...]

    @property
    def kept(self) -> tuple[int, ...]:
        """Axes that are not reduced."""
        return tuple(n for n in range(len(self.axes)) if n not in self.reduced)

    @property
    def gathers(self) -> bool:
        """Whether places are read along an axis that no slices select, as sources are read by."""
        return any(axis.picked is not None or axis.step < 0 for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the selection."""
        return tuple(axis.length for axis in self.axes)

    @property
    def coarsened(self) -> tuple[int, ...]:
        """Axes that are reduced window by window."""
        return tuple(n for n in self.kept if self.axes[n].window)

    @property
    def outputs_shape(self) -> tuple[int, ...]:
        """Extents of the results along the kept axes."""
        return tuple(self.axes[n].outputs for n in self.kept)

    @property
    def by_window(self) -> tuple[int, ...]:
        """Extents of the selection, where an axis of windows is two: of windows, and in one."""
        return self._by_window([axis.outputs for axis in self.axes],
                               [axis.window for axis in self.axes])  # fmt: skip

    @property
    def reduced_by_window(self) -> tuple[int, ...]:
        """Which axes of `by_window` are reduced."""
        flags = self._by_window(
            [n in self.reduced for n in range(len(self.axes))], [True] * len(self.axes)
        )
        return tuple(n for n, reduces in enumerate(flags) if reduces)

    def _by_window(self, outer: Sequence[int], inner: Sequence[int]) -> tuple[int, ...]:
        """Put a number for the axis in a window behind that of an axis of windows."""
        coarsened = self.coarsened
        each = ((a, b) if n in coarsened else (a,)
                for n, (a, b) in enumerate(zip(outer, inner, strict=True)))  # fmt: skip
        return tuple(itertools.chain.from_iterable(each))

    @property
    def tiles(self) -> int:
        """Number of tiles."""
        return math.prod(self._tile_grid)

    @property
    def parts(self) -> int:
        """Number of leaves of each tile."""
        return math.prod(self._part_grid)

    @property
    def _tile_grid(self) -> tuple[int, ...]:
        """Tiles along each axis: 1 along those that are reduced."""
        return tuple(
            1 if n in self.reduced else axis.pieces // max(1, axis.parts)
            for n, axis in enumerate(self.axes)
        )

    @property
    def _part_grid(self) -> tuple[int, ...]:
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

    def leaf(self, tile: int, part: int) -> tuple[Piece, ...]:
        """Return the pieces of one leaf, axis by axis."""
        numbers = self._by_axis(tile, part)
        return tuple(axis.piece(number) for axis, number in zip(self.axes, numbers, strict=True))

    def reach(self, tiles: tuple[int, int], parts: tuple[int, int]) -> tuple[slice, ...]:
        """Return the least box of what is selected that has the leaves of some parts of tiles.

        >>> from chunkfold.grid import Cells
        >>> Layout((Axis(Cells(10, 4), 0, 10, 1),), (0,)).reach((0, 1), (1, 3))
        (slice(4, 10, None),)
        """
        ends = []
        numbers = self._by_axis(np.arange(*tiles)[:, None], np.arange(*parts))
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
        for n, number in enumerate(self._by_axis(tile, parts)):
            axis = self.axes[n]
            lengths = np.broadcast_to(axis.lengths[number], len(parts))
            if n in self.reduced or axis.split:
                depths *= lengths
            elif axis.window:
                depths *= np.minimum(lengths - boxes[n].start * axis.window, axis.window)
        return depths

    def alike(self, tile: int) -> list[tuple[slice, ...]]:
        """Cut a tile's outputs into boxes of which all are made of as many elements.

        >>> from chunkfold.grid import Cells
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

    def leaf_sums(
        self,
        held: np.ndarray,
        cell: Sequence[int],
        of: Callable[[np.ndarray], np.ndarray] = np.asarray,
        weights: Sequence[np.ndarray] | None = None,
    ) -> np.ndarray:
        """Add up for every leaf what the cells of a grid hold that it touches.

        Parameters
        ----------
        held
            Over the grid.
        cell
            Shape of a cell.
        of
            What is added up of what cells hold, element by element.
        weights
            Along each axis, by which that is multiplied.

        Returns
        -------
        int64, (tiles, parts).
        """
        if not self.axes:
            return np.array(of(held), np.int64).reshape(1, 1)
        touched = [axis.touched(size) for axis, size in zip(self.axes, cell, strict=True)]
        along = max(range(len(self.axes)), key=lambda n: held.shape[n])
        first, behind = touched[along]
        # Some leaves at a time along the longest axis: sums take more memory than what is summed.
        each = max(1, int(_SUMMED * len(first) / max(1, held.size)))
        sums = []
        for n in range(0, len(first), each):
            begin, end = int(first[n]), int(behind[n : n + each].max())
            rows: list[slice] = [slice(None)] * held.ndim
            rows[along] = slice(begin, end)
            some = of(held[tuple(rows)]).astype(np.int64)
            for axis, factors in enumerate(weights or ()):
                across = (1,) * axis + (-1,) + (1,) * (held.ndim - axis - 1)
                some *= factors[rows[axis]].reshape(across)
            ends = touched.copy()
            ends[along] = first[n : n + each] - begin, behind[n : n + each] - begin
            for axis, (least, most) in enumerate(ends):
                reached = np.insert(np.cumsum(some, axis=axis), 0, 0, axis=axis)
                some = reached.take(most, axis=axis) - reached.take(least, axis=axis)
            sums.append(some)
        whole = np.concatenate(sums, axis=along) if sums else np.zeros(self._grid, np.int64)
        return self._in_order(whole)

    def objects(self, shape: Sequence[int], grid: Sequence[int]) -> int:
        """Return how many objects of a shape, in a grid, have selected elements."""
        return math.prod(
            int(axis.hits(*along).sum())
            for axis, *along in zip(self.axes, shape, grid, strict=True)
        )

    @property
    def _grid(self) -> tuple[int, ...]:
        """Pieces along each axis."""
        return tuple(axis.pieces for axis in self.axes)

    def leaf_objects(self, tile: int, part: int, shape: Sequence[int]) -> tuple[slice, ...]:
        """Return which objects of a grid a leaf touches."""
        return next(self.leaves_objects(np.array([tile]), np.array([part]), shape))

    def leaves_objects(
        self, tiles: np.ndarray, parts: np.ndarray, shape: Sequence[int]
    ) -> Iterator[tuple[slice, ...]]:
        """Yield which objects of a grid each of some leaves touches."""
        along = []
        for axis, size, number in zip(self.axes, shape, self._by_axis(tiles, parts), strict=True):
            first, behind = axis.touched(size)
            along.append(map(slice, first[number].tolist(), behind[number].tolist()))
        return zip(*along, strict=True) if along else iter([()] * len(tiles))

    def _by_leaf(self, factors: Sequence[np.ndarray]) -> np.ndarray:
        """Multiply a number for each piece of each axis out, over all leaves."""
        product = np.ones((), np.int64)
        for along in factors:
            product = np.multiply.outer(product, along)
        return self._in_order(product)

    def _in_order(self, pieces: np.ndarray) -> np.ndarray:
        """Lay what there is for each piece, axis by axis, out by tiles and parts."""
        grid = zip(self._tile_grid, self._part_grid, strict=True)
        apart = pieces.reshape(tuple(itertools.chain.from_iterable(grid)))
        tiles, parts = (range(first, apart.ndim, 2) for first in (0, 1))
        return apart.transpose((*tiles, *parts)).reshape(self.tiles, self.parts)

    def tile_pieces(self, tile: int) -> tuple[Piece, ...]:
        """Return the pieces of a tile's first part along the kept axes."""
        leaf = self.leaf(tile, 0)
        return tuple(leaf[n] for n in self.kept)

    def tile_place(self, tile: int) -> tuple[slice, ...]:
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
        return tuple(place.stop - place.start for place in self.tile_place(tile))

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

        >>> from chunkfold.grid import Cells
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

    def leaf_box(
        self,
        pieces: Sequence[Piece],
        within: Sequence[slice],
        inputs: Inputs,
    ) -> Box:
        """Describe a part of a leaf that stands C-contiguous in a buffer of its own."""
        shape = tuple(cut.stop - cut.start for cut in within)
        if self.coarsened:
            shape = self._by_window(
                [max(1, n // (axis.window or 1)) for n, axis in zip(shape, self.axes, strict=True)],
                [min(n, axis.window) for n, axis in zip(shape, self.axes, strict=True)],
            )
        reduced = self.reduced_by_window
        if not inputs.indexed and not inputs.held:
            return _box(shape, reduced)
        if not inputs.indexed:
            strided = self._strided(pieces, within, inputs)
            others, firsts = tuple(strided["others"]), tuple(strided["other_offsets"])
            return replace(_strided_box(shape, reduced, others), others=firsts)
        return box(
            shape,
            reduced,
            **self._indices(pieces, within, inputs),
            **self._strided(pieces, within, inputs),
        )

    def keyed_leaf_box(
        self,
        pieces: Sequence[Piece],
        within: Sequence[slice],
        along: Sequence[int],
        inputs: Inputs,
    ) -> KeyedBox:
        """Describe one whose elements have keys along some axes; as `leaf_box`."""
        shape = tuple(cut.stop - cut.start for cut in within)
        if not inputs.indexed and not inputs.held:
            return _keyed_box(shape, self.reduced, tuple(along))
        return keyed_box(
            shape,
            self.reduced,
            along,
            **self._indices(pieces, within, inputs),
            **self._strided(pieces, within, inputs),
        )

    def kept_leaf_box(
        self,
        pieces: Sequence[Piece],
        within: Sequence[slice],
        inputs: Inputs,
    ) -> tuple[Box, list[Run]]:
        """Describe one whose elements are all kept, as `leaf_box`: rows of outputs.

        A row is one element of each output; the runs say which of the rows of the box follow each
        other among those of the tile.
        """
        order = (*self.reduced, *self.kept)
        shape = [within[n].stop - within[n].start for n in range(len(within))]
        own, given = c_strides(shape), self._strided(pieces, within, inputs)
        if given:
            each = given["others"]
            given["others"] = [one and [one[n] for n in order] for one in each]
        made = box([shape[n] for n in order], (), strides=[own[n] for n in order], **given)
        firsts = [pieces[n].position + within[n].start for n in self.reduced]
        extents = [self.shape[n] for n in self.reduced]
        return made, runs_within(extents, firsts, [shape[n] for n in self.reduced])

    def _indices(
        self, pieces: Sequence[Piece], within: Sequence[slice], inputs: Inputs
    ) -> dict[str, Any]:
        """Return what boxes are told of indices in the whole selection."""
        if not inputs.indexed:
            return {}
        strides = c_strides(self.by_window)
        places = [piece.position + cut.start for piece, cut in zip(pieces, within, strict=True)]
        windows = [axis.window or 1 for axis in self.axes]
        first = self._by_window(
            [n // window for n, window in zip(places, windows, strict=True)],
            [n % window for n, window in zip(places, windows, strict=True)],
        )
        index = sum(n * stride for n, stride in zip(first, strides, strict=True))
        return {"index_strides": strides, "index": index}

    def _strided(
        self,
        pieces: Sequence[Piece],
        within: Sequence[slice],
        inputs: Inputs,
    ) -> dict[str, Any]:
        """Return what boxes are told of inputs that are not as the first is."""
        staged, held = inputs.staged, inputs.held
        if not held:
            return {}
        own = [one.strides(len(within)) for one in held]
        windows = [axis.window or 1 for axis in self.axes]
        each = [
            self._by_window([n * window for n, window in zip(one, windows, strict=True)], one)
            for one in own
        ]
        firsts = [0] * (staged - 1) + [one.first(pieces, within) for one in held]
        return {"others": [None] * (staged - 1) + each, "other_offsets": firsts}

    def _by_axis(self, tile: Any, part: Any) -> list[Any]:
        """Return the number of a leaf's piece along each axis; or those of many leaves."""
        grid = self._part_grid
        tiles = np.unravel_index(tile, self._tile_grid) if self.axes else ()
        parts = np.unravel_index(part, grid) if self.axes else ()
        return [a * n + b for a, b, n in zip(tiles, parts, grid, strict=True)]


def runs_within(extents: Sequence[int], firsts: Sequence[int], shape: Sequence[int]) -> list[Run]:
    """Return the runs of a box's positions that follow each other in C order, in all extents.

    >>> runs_within((5, 4), (2, 0), (3, 4)), runs_within((5, 4), (2, 1), (2, 2))
    ([(0, 8, 12)], [(0, 9, 2), (2, 13, 2)])
    """
    inner = len(shape)
    while inner > 1 and shape[inner - 1] == extents[inner - 1]:
        inner -= 1
    along, strides = max(inner - 1, 0), c_strides(extents)
    count = math.prod(shape[along:])
    outer = itertools.product(*(range(n) for n in shape[:along]))
    start = sum(first * stride for first, stride in zip(firsts, strides, strict=True))
    return [
        (number * count, start + sum(a * b for a, b in zip(at, strides, strict=False)), count)
        for number, at in enumerate(outer)
    ]


@lru_cache(maxsize=64)
def _box(shape: tuple[int, ...], reduced: tuple[int, ...]) -> Box:
    """Describe a box of a buffer of its own: few of a run's differ in shape."""
    return box(shape, reduced)


@lru_cache(maxsize=64)
def _strided_box(
    shape: tuple[int, ...], reduced: tuple[int, ...], others: tuple[tuple[int, ...] | None, ...]
) -> Box:
    """The same of several inputs, of which some have strides of their own.

    The last is one that lacks axes: so the box has `others`.
    """
    return box(shape, reduced, others=others, other_offsets=[1] * len(others))


@lru_cache(maxsize=64)
def _keyed_box(
    shape: tuple[int, ...], reduced: tuple[int, ...], along: tuple[int, ...]
) -> KeyedBox:
    """The same of one whose elements have keys."""
    return keyed_box(shape, reduced, along)

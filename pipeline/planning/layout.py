"""How the leaves of a selection are numbered, and what each covers: pure integer functions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from chunkfold.grid import Axis, Piece
from chunkfold.kernels import KeyedBox, keyed_box
from chunkfold.kernels.fold.fold import Run
from chunkfold.kernels.geometry import Box, box, c_strides
from chunkfold.planning.held_inputs import HeldInput

_SUMMED = 1 << 20
"""Cells that are added up at a time."""


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
    def gathers(self) -> bool:
        """Whether places are read along an axis that no slices select, as sources are read by."""
        return any(axis.picked is not None or axis.step < 0 for axis in self.axes)

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
    def leaves(self) -> int:
        """Number of leaves of all tiles."""
        return self.tiles * self.parts

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
        numbers = self._by_axis(tile, part)
        return tuple(axis.piece(number) for axis, number in zip(self.axes, numbers, strict=True))

    def leaf_elements(self) -> np.ndarray:
        """Return the elements of every leaf: int64, (tiles, parts)."""
        return self._by_leaf([axis.lengths for axis in self.axes])

    def part_depths(self, parts: np.ndarray) -> np.ndarray:
        """Return how many elements parts of a tile have for each of its outputs: int64."""
        numbers = self._numbers(self.reduced, parts)
        depths = np.ones(len(parts), np.int64)
        for n, number in zip(self.reduced, numbers, strict=True):
            depths *= self.axes[n].lengths[number]
        return depths

    def depth(self, within: Sequence[slice]) -> int:
        """Return how many elements a box has for each of its outputs."""
        return math.prod(within[n].stop - within[n].start for n in self.reduced)

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
        return whole.transpose(self.kept + self.reduced).reshape(self.tiles, self.parts)

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

    def leaf_box(
        self,
        pieces: Sequence[Piece],
        within: Sequence[slice],
        *,
        indexed: bool,
        staged: int = 1,
        held: Sequence[HeldInput] = (),
    ) -> Box:
        """Describe a part of a leaf that stands C-contiguous in a buffer of its own.

        `indexed` tells whether the reduction reads indices; if not, axes may merge freely. So many
        inputs are `staged` as the first one is; behind them are those that are held.
        """
        shape = tuple(cut.stop - cut.start for cut in within)
        if not indexed and not held:
            return _box(shape, self.reduced)
        if not indexed:
            strided = _strided(pieces, within, staged, held)
            others, firsts = tuple(strided["others"]), tuple(strided["other_offsets"])
            return replace(_strided_box(shape, self.reduced, others), others=firsts)
        return box(
            shape,
            self.reduced,
            **self._indices(pieces, within, indexed=indexed),
            **_strided(pieces, within, staged, held),
        )

    def keyed_leaf_box(
        self,
        pieces: Sequence[Piece],
        within: Sequence[slice],
        along: Sequence[int],
        *,
        indexed: bool,
        staged: int = 1,
        held: Sequence[HeldInput] = (),
    ) -> KeyedBox:
        """Describe one whose elements have keys along some axes; as `leaf_box`."""
        shape = tuple(cut.stop - cut.start for cut in within)
        if not indexed and not held:
            return _keyed_box(shape, self.reduced, tuple(along))
        return keyed_box(
            shape,
            self.reduced,
            along,
            **self._indices(pieces, within, indexed=indexed),
            **_strided(pieces, within, staged, held),
        )

    def kept_leaf_box(
        self,
        pieces: Sequence[Piece],
        within: Sequence[slice],
        *,
        indexed: bool,
        staged: int = 1,
        held: Sequence[HeldInput] = (),
    ) -> tuple[Box, list[Run]]:
        """Describe one whose elements are all kept, as `leaf_box`: rows of outputs.

        A row is one element of each output; the runs say which of the rows of the box follow each
        other among those of the tile.
        """
        del indexed
        order = (*self.reduced, *self.kept)
        shape = [within[n].stop - within[n].start for n in range(len(within))]
        own, given = c_strides(shape), _strided(pieces, within, staged, held)
        if given:
            each = given["others"]
            given["others"] = [one and [one[n] for n in order] for one in each]
        made = box([shape[n] for n in order], (), strides=[own[n] for n in order], **given)
        firsts = [pieces[n].position + within[n].start for n in self.reduced]
        extents = [self.shape[n] for n in self.reduced]
        return made, runs_within(extents, firsts, [shape[n] for n in self.reduced])

    def _indices(
        self, pieces: Sequence[Piece], within: Sequence[slice], *, indexed: bool
    ) -> dict[str, Any]:
        """Return what boxes are told of indices in the whole selection."""
        if not indexed:
            return {}
        return {"index_strides": c_strides(self.shape), "index": self._index(pieces, within)}

    def _index(self, pieces: Sequence[Piece], within: Sequence[slice]) -> int:
        """Return the index of the first element of a part of a leaf, in the whole selection."""
        return sum(
            (piece.position + cut.start) * stride
            for piece, cut, stride in zip(pieces, within, c_strides(self.shape), strict=True)
        )

    def _by_axis(self, tile: Any, part: Any) -> list[Any]:
        numbers = dict(zip(self.kept, self._numbers(self.kept, tile), strict=True))
        numbers |= zip(self.reduced, self._numbers(self.reduced, part), strict=True)
        return [numbers[n] for n in range(len(self.axes))]

    def _numbers(self, axes: Sequence[int], flat: Any) -> tuple[Any, ...]:
        """Return the numbers of pieces along axes: of one leaf's, or of many."""
        shape = tuple(self.axes[n].pieces for n in axes)
        return tuple(np.unravel_index(flat, shape)) if shape else ()


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


def _strided(
    pieces: Sequence[Piece], within: Sequence[slice], staged: int, held: Sequence[HeldInput]
) -> dict[str, Any]:
    """Return what boxes are told of inputs that are not as the first is."""
    if not held:
        return {}
    others = [None] * (staged - 1) + [one.strides(len(within)) for one in held]
    firsts = [0] * (staged - 1) + [one.first(pieces, within) for one in held]
    return {"others": others, "other_offsets": firsts}


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

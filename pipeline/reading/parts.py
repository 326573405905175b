"""Which parts of a tile are read, and how much of it is fill: pure functions of a run's layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from chunkfold.boxes import Slices, elements_of, extents_of
from chunkfold.grid import Piece
from chunkfold.planning.blocks import Block
from chunkfold.planning.group_keys import Keys
from chunkfold.planning.leaf_objects import SPARSE, expected_objects
from chunkfold.planning.work import Work
from chunkfold.sources.source import Source
from chunkfold.stores.expected import Expected, Listed

READ_BYTES = 1 << 20
"""Decoded bytes that cost as much to fill and to fold as one read more does."""
_ALL: tuple[Slices, ...] | None = None
"""Of the cells of a leaf."""


@dataclass(frozen=True)
class TileLeaf:
    """A leaf of a tile, and what is to be read of it."""

    number: int
    elements: int
    """That are read."""
    nbytes: int
    """Decoded bytes of all inputs that are stored of these, as far as it is known."""
    absent: bool
    """Whether nothing of it is stored: it is filled, not read."""
    known: tuple[Expected, ...]
    """Of each input what is known of its objects."""
    cells: tuple[Slices, ...] | None = None
    """The boxes that are read, if others are not; None: all of it."""


@dataclass(frozen=True)
class ImplicitFill:
    """Fill values that are folded without being read."""

    count: int = 0
    """Of each output."""
    of_groups: np.ndarray | None = None
    """Of each output and group, int64, where elements are in groups: some may be in none."""

    def __bool__(self) -> bool:
        return self.count > 0


Absent = Sequence[set[tuple[int, ...]]]
"""For each input the objects that were asked for, in a store that cannot list, and not there."""


def parts_of(
    work: Work, block: Block, tile: int, place: Slices, missed: Absent
) -> tuple[tuple[TileLeaf, ...], ImplicitFill]:
    """Return what a block reads for a box of a tile's outputs, and the fill that is not read.

    All of these are made of as many elements: see `Layout.alike`.

    A reduction that reads indices is given the first of those that are not stored, which are equal;
    or every one, where it may make something else of each.
    """
    needed = ~block.passed_parts(tile)
    numbers, absent = np.arange(*block.parts)[needed], block.unstored_parts(tile)[needed]
    outputs, itemsizes = elements_of(place), [s.dtype.itemsize for s in work.sources]
    depths = work.layout.part_depths(tile, numbers, place)
    fills_implicitly, implicit, parts = work.fills_implicitly, 0, list[TileLeaf]()
    of_groups = None if work.keys is None else np.zeros(work.groups, np.int64)
    first = work.accumulator.uses_index
    """Whether the first that is not stored is still to be given."""
    for number, lacks, depth in zip(
        numbers.tolist(), absent.tolist(), depths.tolist(), strict=True
    ):
        if not depth:  # it pads a window that has fewer parts than others
            continue
        if lacks and fills_implicitly and not first:
            implicit += depth
            if of_groups is not None:
                of_groups += _of_groups(work, tile, number)
            continue
        known = expected_objects(
            work.layout,
            work.sources,
            work.listings,
            block,
            tile,
            number,
            missed,
            needed=work.wants_all,
        )
        shares, cells = [float(not lacks)] * len(known), _ALL
        if lacks and fills_implicitly:
            pieces = work.layout.leaf(tile, number)
            first, cells = False, (_first(work, [slice(0, piece.length) for piece in pieces]),)
        elif not lacks and any(map(_sparse, work.sources, known)):
            shares, cells = _held(work, known, tile, number)
        read = depth if cells is None else sum(_depth(work, tile, cell, place) for cell in cells)
        implicit += depth - read
        if of_groups is not None and read < depth:
            of_groups += _of_groups(work, tile, number, cells or ())
        nbytes = round(outputs * depth * np.dot(shares, itemsizes))
        parts.append(TileLeaf(number, read * outputs, nbytes, lacks, known, cells))
    return tuple(parts), ImplicitFill(implicit, of_groups)


def _depth(work: Work, tile: int, cell: Slices, place: Slices) -> int:
    """Return how many elements of a cell of a leaf each output of a box has."""
    layout, pieces = work.layout, work.layout.tile_pieces(tile)
    along = list(cell)
    for n, piece, box in zip(layout.kept, pieces, place, strict=True):
        if not layout.axes[n].split:
            along[n] = layout.elements_along(n, piece, box)
    return layout.depth(along)


def _of_groups(work: Work, tile: int, part: int, read: Sequence[Slices] = ()) -> np.ndarray:
    """Count the elements of each group that an output has of a leaf, but for what is read of it."""
    assert work.keys is not None
    pieces = work.layout.leaf(tile, part)
    others = [n for n in work.layout.reduced if n not in work.keys.axes]

    def counts(within: Slices) -> np.ndarray:
        assert isinstance(work.keys, Keys)  # others are made of every element
        return work.keys.counts(work.keys.place(pieces, within)) * elements_of(
            [within[n] for n in others]
        )

    whole = counts(tuple(slice(0, piece.length) for piece in pieces))
    return whole - sum(map(counts, read))


def _sparse(source: Source, known: Expected) -> bool:
    """Whether so little is stored of a leaf that its other objects may be left out."""
    if not isinstance(known, Listed) or known.size:
        return False
    share = known.stored.mean()
    return bool(share < 1 and (source.remote or share <= SPARSE))


def _held(
    work: Work, known: Sequence[Expected], tile: int, part: int
) -> tuple[list[float], tuple[Slices, ...] | None]:
    """Return what share of each input's objects a leaf has, and the cells that are to be read.

    None if all are: where too little is missing, where cells cut the outputs, whose
    implicit fill would then differ, and where each index counts. Where the first does, that of what
    is missing is read, too.
    """
    pieces = work.layout.leaf(tile, part)
    cuts = [piece.cut(work.grids_along(axis)) for axis, piece in enumerate(pieces)]
    stored, shares = np.zeros([len(along) for along in cuts], bool), []
    for source, one in zip(work.sources, known, strict=True):
        if not isinstance(one, Listed) or not _sparse(source, one):
            stored[...] = True
            shares.append(1.0)
            continue
        objects, there = (
            list(map(_objects, pieces, cuts, source.object_shape, one.first)),
            one.stored,
        )
        stored |= there[np.ix_(*objects)]
        shares.append(float(there[np.ix_(*map(np.unique, objects))].mean()))
    extents = np.ix_(*(extents_of(along) for along in cuts))
    sizes = reduce(np.multiply, extents, np.ones((), np.int64))
    lacking = int(sizes[~stored].sum()) * sum(source.dtype.itemsize for source in work.sources)
    whole = any(
        len(cuts[axis]) > 1 and not work.layout.axes[axis].split for axis in work.layout.kept
    )
    if not work.fills_implicitly or whole or lacking < READ_BYTES * int(stored.sum()):
        return shares, None

    def cells(which: np.ndarray) -> list[Slices]:
        places = np.argwhere(which).tolist()
        return [tuple(along[n] for along, n in zip(cuts, one, strict=True)) for one in places]

    missing = cells(~stored)[:1] if work.accumulator.uses_index else []
    return shares, (*cells(stored), *(_first(work, cell) for cell in missing))


def _first(work: Work, cell: Sequence[slice]) -> Slices:
    """Return the first of a cell's elements for each output."""
    kept = work.layout.kept
    return tuple(
        along if axis in kept else slice(along.start, along.start + 1)
        for axis, along in enumerate(cell)
    )


def _objects(piece: Piece, cuts: Sequence[slice], size: int, first: int) -> np.ndarray:
    """Return in which objects cells lie along an axis, counted from the first of the leaf."""
    starts = np.array([cut.start for cut in cuts], np.int64)
    objects: np.ndarray = piece.places(starts) // size - first
    return objects

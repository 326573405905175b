"""Find the leaves of a tile that are read, and the fill that is not: pure functions of a layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from chunkfold.boxes import Slices, elements_of, extents_of
from chunkfold.grid import Piece
from chunkfold.planning.blocks import Block
from chunkfold.planning.folding import Folding
from chunkfold.planning.group_keys import Keys
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaf_objects import SPARSE, expected_objects
from chunkfold.planning.work import Work
from chunkfold.sources.source import Source
from chunkfold.stores.expected import Expected, Listed

READ_BYTES = 1 << 20
"""Decoded bytes whose fill and fold cost as much as one more read."""
_ALL: tuple[Slices, ...] | None = None
"""The cells of a leaf that is read whole."""


@dataclass(frozen=True)
class TileLeaf:
    """A leaf of a tile, and the elements to read of it."""

    number: int
    elements: int
    """Number of elements that are read."""
    nbytes: int
    """Decoded bytes of these in all inputs, without those known not to be stored."""
    unstored: bool
    """True if nothing of it is stored: it is filled, not read."""
    known: tuple[Expected, ...]
    """The listing of its objects, for each input."""
    cells: tuple[Slices, ...] | None = None
    """The boxes that are read; None: all of it."""


@dataclass(frozen=True)
class ImplicitFill:
    """Fill values that are folded without a read."""

    count: int = 0
    """Number for each output."""
    of_groups: np.ndarray | None = None
    """Number for each output and group, int64, where elements have groups: some may have none."""

    def __bool__(self) -> bool:
        return self.count > 0


Missed = Sequence[set[tuple[int, ...]]]
"""For each input the objects that were requested, of a store that cannot list, and are missing."""


def leaves_to_read(
    work: Work, block: Block, tile: int, place: Slices, missed: Missed
) -> tuple[tuple[TileLeaf, ...], ImplicitFill]:
    """Return the leaves that a block reads for a box of a tile's outputs, and the implicit fill.

    All outputs of the box have the same number of elements: see `Layout.alike`.

    Missing elements are equal. A reduction that reads indices gets the first of them; or all, if
    each may give another result.
    """
    needed = ~block.unneeded_parts(tile)
    numbers, unstored = np.arange(*block.parts)[needed], block.unstored_parts(tile)[needed]
    outputs, itemsizes = elements_of(place), [s.dtype.itemsize for s in work.scan.sources]
    question, layout = work.first, work.first.layout
    depths = layout.part_depths(tile, numbers, place)
    fills_implicitly, implicit, leaves = work.fills_implicitly, 0, list[TileLeaf]()
    of_groups = None if question.keys is None else np.zeros(question.groups, np.int64)
    first = question.accumulator.uses_index
    """True until the first missing element is read."""
    for number, lacks, depth in zip(
        numbers.tolist(), unstored.tolist(), depths.tolist(), strict=True
    ):
        if not depth:  # it pads a window that has fewer parts than others
            continue
        if lacks and fills_implicitly and not first:
            implicit += depth
            if of_groups is not None:
                of_groups += _of_groups(question, tile, number)
            continue
        known = expected_objects(
            layout,
            work.scan.sources,
            work.scan.listings,
            block,
            tile,
            number,
            missed,
            needed=work.scan.wants_all,
        )
        shares, cells = [float(not lacks)] * len(known), _ALL
        if lacks and fills_implicitly:
            pieces = layout.leaf(tile, number)
            first, cells = False, (_first(layout, [slice(0, piece.length) for piece in pieces]),)
        elif not lacks and any(map(_sparse, work.scan.sources, known)):
            shares, cells = _stored_cells(work, known, tile, number)
        read = depth if cells is None else sum(_depth(layout, tile, cell, place) for cell in cells)
        implicit += depth - read
        if of_groups is not None and read < depth:
            of_groups += _of_groups(question, tile, number, cells or ())
        nbytes = round(outputs * depth * np.dot(shares, itemsizes))
        leaves.append(TileLeaf(number, read * outputs, nbytes, lacks, known, cells))
    return tuple(leaves), ImplicitFill(implicit, of_groups)


def _depth(layout: Layout, tile: int, cell: Slices, place: Slices) -> int:
    """Return the number of elements of a leaf's cell for each output of a box."""
    along = list(cell)
    for n, piece, box in zip(layout.kept, layout.tile_pieces(tile), place, strict=True):
        if not layout.axes[n].split:
            along[n] = layout.elements_along(n, piece, box)
    return layout.depth(along)


def _of_groups(question: Folding, tile: int, part: int, read: Sequence[Slices] = ()) -> np.ndarray:
    """Count the elements of each group of a leaf, for one output, without those in `read`."""
    layout, keys = question.layout, question.keys
    assert isinstance(keys, Keys)  # other keys are made from elements
    pieces = layout.leaf(tile, part)
    others = [n for n in layout.reduced if n not in keys.axes]

    def counts(within: Slices) -> np.ndarray:
        return keys.counts(keys.place(pieces, within)) * elements_of([within[n] for n in others])

    whole = counts(tuple(slice(0, piece.length) for piece in pieces))
    return whole - sum(map(counts, read))


def _sparse(source: Source, known: Expected) -> bool:
    """Return whether so little of a leaf is stored that its missing objects may be left out."""
    if not isinstance(known, Listed) or known.size:
        return False
    share = known.stored.mean()
    return bool(share < 1 and (source.remote or share <= SPARSE))


def _stored_cells(
    work: Work, known: Sequence[Expected], tile: int, part: int
) -> tuple[list[float], tuple[Slices, ...] | None]:
    """Return the stored share of each input's objects in a leaf, and the cells to read.

    The cells are None, which is all, if too little is missing, if cells cut the outputs, whose
    implicit fill would then differ, or if each index counts. If only the first index counts, the
    first missing element is read, too.
    """
    layout = work.first.layout
    pieces = layout.leaf(tile, part)
    cuts = [piece.cut(work.scan.grids[axis]) for axis, piece in enumerate(pieces)]
    stored, shares = np.zeros([len(along) for along in cuts], bool), []
    for source, one in zip(work.scan.sources, known, strict=True):
        if not isinstance(one, Listed) or not _sparse(source, one):
            stored[...] = True
            shares.append(1.0)
            continue
        objects = list(map(_objects, pieces, cuts, source.object_shape, one.first))
        stored |= one.stored[np.ix_(*objects)]
        shares.append(float(one.stored[np.ix_(*map(np.unique, objects))].mean()))
    lengths = np.ix_(*(extents_of(along) for along in cuts))
    sizes = reduce(np.multiply, lengths, np.ones((), np.int64))
    lacking = int(sizes[~stored].sum()) * sum(source.dtype.itemsize for source in work.scan.sources)
    whole = any(len(cuts[axis]) > 1 and not layout.axes[axis].split for axis in layout.kept)
    if not work.fills_implicitly or whole or lacking < READ_BYTES * int(stored.sum()):
        return shares, None

    def cells(which: np.ndarray) -> list[Slices]:
        places = np.argwhere(which).tolist()
        return [tuple(along[n] for along, n in zip(cuts, one, strict=True)) for one in places]

    missing = cells(~stored)[:1] if work.first.accumulator.uses_index else []
    return shares, (*cells(stored), *(_first(layout, cell) for cell in missing))


def _first(layout: Layout, cell: Sequence[slice]) -> Slices:
    """Return the box of the first element of a cell for each output."""
    return tuple(
        along if axis in layout.kept else slice(along.start, along.start + 1)
        for axis, along in enumerate(cell)
    )


def _objects(piece: Piece, cuts: Sequence[slice], size: int, first: int) -> np.ndarray:
    """Return the object of each cell along an axis, counted from the first of the leaf."""
    starts = np.array([cut.start for cut in cuts], np.int64)
    objects: np.ndarray = piece.places(starts) // size - first
    return objects

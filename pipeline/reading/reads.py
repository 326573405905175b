"""List the reads that bring a block's leaves to its outputs: pure functions of a run's layout."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from chunkfold.boxes import (
    Slices,
    elements_of,
    extents_of,
    overlaps,
    shifted,
    slabs,
    slabs_of_cells,
)
from chunkfold.grid import Piece, Taken
from chunkfold.kernels import Box, KeyedBox
from chunkfold.kernels.geometry import OutputRun
from chunkfold.planning.blocks import Block
from chunkfold.planning.folding import Folding
from chunkfold.planning.rows import PreaggregatedRead
from chunkfold.planning.work import Work
from chunkfold.reading.tile_leaves import ImplicitFill, Missed, TileLeaf, leaves_to_read
from chunkfold.stores.expected import Expected


class FoldInput(NamedTuple):
    """The geometry of a box of a leaf, as the folds of a question take it."""

    shape: tuple[int, ...]
    box: Box
    """The box as kernels take it."""
    keyed: tuple[KeyedBox, Slices] | None
    """The box and its keys as kernels take them, and the place of the keys among those of the run;
    None: elements have no keys."""
    preaggregated: PreaggregatedRead | None
    """The rows of elements that are folded first; None: no rows are."""


@dataclass(frozen=True)
class Read:
    """A box of a leaf that one reader brings into staging memory."""

    region: tuple[Taken, ...]
    """Its place in the arrays."""
    within: Slices
    """Its place in the leaf."""
    fold_input: FoldInput
    """Its geometry for folds of the first question."""
    nbytes: int
    """Decoded bytes of all inputs, without those known not to be stored."""
    unstored: bool
    """True if nothing of it is stored."""
    known: tuple[Expected, ...]
    """The listing of the leaf's objects, for each input."""
    in_turn: bool
    """True if its chunks stand one after another in staging memory, in place of the region's
    order: so they are decoded in place, whatever their shape."""
    kept: tuple[Box, list[OutputRun]] | None = None
    """The box as kernels that keep all elements take it, and the tile's rows that get them."""
    leaf: tuple[int, int] = (0, 0)
    """Its tile, and its part of the tile."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the box."""
        return self.fold_input.shape

    @property
    def box(self) -> Box:
        """The box as kernels take it."""
        return self.fold_input.box


@dataclass(frozen=True)
class OutputBox:
    """A box of a tile's outputs, and the leaves that are folded into them."""

    tile: int
    leaves: Sequence[TileLeaf]
    """Leaves in the order of the fold."""
    place: Slices
    """The outputs along each kept axis."""
    by_cell: bool = False
    """True: cells are read one by one, and those that cannot be read are left out."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the box."""
        return extents_of(self.place)

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return math.prod(self.shape)

    def within(self, inner: Slices) -> OutputBox:
        """Return a box within this one."""
        return replace(self, place=shifted(self.place, inner))


@dataclass(frozen=True)
class Share:
    """The work of a block for a box of a tile's outputs."""

    tile: int
    place: Slices
    """The outputs; all have the same number of elements."""
    last: bool
    """True for the last one of its tile."""
    leaves: Sequence[TileLeaf]
    """Leaves that are read."""
    implicit: ImplicitFill
    """Fill values of its outputs that are not read."""
    output_boxes: Sequence[OutputBox]
    """Boxes of its outputs: a buffer has room for an element of each output of one."""


def shares_of(work: Work, block: Block, buffer_bytes: int, missed: Missed) -> Iterator[Share]:
    """Yield the work of a block, tile by tile; for `missed` see `leaves_to_read`."""
    for tile in range(*block.tiles):
        boxes = work.first.layout.alike(tile)
        for number, place in enumerate(boxes, 1):
            leaves, implicit = leaves_to_read(work, block, tile, place, missed)
            output_boxes = output_boxes_within(work, tile, place, leaves, buffer_bytes)
            read = output_boxes if leaves or not implicit else []
            yield Share(tile, place, number == len(boxes), leaves, implicit, read)


def all_outputs(work: Work, tile: int, leaves: Sequence[TileLeaf]) -> OutputBox:
    """Return all outputs of a tile."""
    return OutputBox(tile, leaves, tuple(slice(0, n) for n in work.first.layout.tile_shape(tile)))


def output_boxes_within(
    work: Work, tile: int, place: Slices, leaves: Sequence[TileLeaf], buffer_bytes: int
) -> list[OutputBox]:
    """Cut a box of a tile's outputs so that a buffer has room for an element of each output.

    Outputs of several elements along kept axes, as windows are, count with all of these.
    """
    output_box = OutputBox(tile, leaves, place)
    return [
        output_box.within(inner)
        for inner in slabs(output_box.shape, _output_bytes(work), buffer_bytes)
    ]


def output_boxes_by_cell(
    work: Work, tile: int, place: Slices, leaves: Sequence[TileLeaf], buffer_bytes: int
) -> list[OutputBox]:
    """Cut the same so that each cell has elements for all outputs of a box, or for none."""
    layout = work.first.layout
    pieces = zip(layout.kept, layout.tile_pieces(tile), place, strict=True)
    cuts = [
        overlaps(layout.output_cuts(axis, one, work.scan.grids[axis]), box)
        for axis, one, box in pieces
    ]
    whole = [OutputBox(tile, leaves, each, by_cell=True) for each in itertools.product(*cuts)]
    return [
        output_box.within(inner)
        for output_box in whole
        for inner in slabs(output_box.shape, _output_bytes(work), buffer_bytes)
    ]


def reads_of(
    work: Work, output_box: OutputBox, buffer_bytes: int, number: int = 0, of: int = 1
) -> Iterator[Read]:
    """Yield the reads for a box of outputs, each no larger than a staging buffer.

    Leaves are cut at boundaries of cells, if these fit. All reads, or a share of them: every
    `of`-th from the `number`-th on.
    """
    first, layout, found = work.first, work.first.layout, itertools.count()
    cut_axes = _cut_axes(work, output_box)
    indexed = first.accumulator.uses_index
    placed = indexed or first.keys or first.broadcast or first.choosers or work.folded_secondary
    whole_run = output_box.outputs == 1 and not placed
    in_turn = whole_run and all_in_turn(work)
    for leaf in output_box.leaves:
        pieces = layout.leaf(output_box.tile, leaf.number)
        for whole in _boxes(work, output_box, leaf, pieces, cut_axes):
            for slab in _slabs(work, pieces, whole, cut_axes, buffer_bytes):
                if next(found) % of != number:
                    continue
                within = list(whole)
                for n, along in zip(cut_axes, slab, strict=True):
                    within[n] = along
                fold_input = fold_input_of(first, pieces, within)
                yield Read(
                    region=tuple(map(Piece.taken, pieces, within)),
                    within=tuple(within),
                    fold_input=fold_input,
                    nbytes=leaf.nbytes * fold_input.box.elements // leaf.elements,
                    unstored=leaf.unstored,
                    known=leaf.known,
                    in_turn=in_turn,
                    kept=first.kept_box(pieces, within),
                    leaf=(output_box.tile, leaf.number),
                )


def _cut_axes(work: Work, output_box: OutputBox) -> list[int]:
    """Return the axes along which leaves may be cut: all elements along them have one output."""
    layout = work.first.layout
    kept = zip(layout.kept, output_box.shape, strict=True)
    alone = [n for n, outputs in kept if outputs == 1 and layout.axes[n].window]
    return sorted([*layout.reduced, *alone])


def _boxes(
    work: Work, output_box: OutputBox, leaf: TileLeaf, pieces: Sequence[Piece], axes: Sequence[int]
) -> Iterable[Slices]:
    """Return the boxes of a leaf that are read for a box of outputs."""
    layout = work.first.layout
    along = [slice(0, piece.length) for piece in pieces]
    for n, outputs in zip(layout.kept, output_box.place, strict=True):
        along[n] = layout.elements_along(n, pieces[n], outputs)
    if leaf.cells is not None:
        own = [n in layout.reduced or layout.axes[n].split for n in range(len(pieces))]
        return (
            tuple(cut if cuts else whole for cuts, cut, whole in zip(own, cell, along, strict=True))
            for cell in leaf.cells
        )
    return itertools.product(
        *(
            _cut_within(work, n, pieces[n], whole) if output_box.by_cell and n in axes else [whole]
            for n, whole in enumerate(along)
        )
    )


def fold_input_of(question: Folding, pieces: Sequence[Piece], within: Sequence[slice]) -> FoldInput:
    """Return the geometry of a box of a leaf for the folds of a question."""
    keyed = preaggregated = None
    if question.keys is not None:
        keyed = question.keyed_box(pieces, within), question.keys.place(pieces, within)
    if question.preaggregation is not None:
        preaggregated = question.preaggregation.rows.read(pieces, within)
    box = question.box(pieces, within)
    return FoldInput(extents_of(within), box, keyed, preaggregated)


def _slabs(
    work: Work, pieces: Sequence[Piece], whole: Slices, axes: Sequence[int], limit: int
) -> Iterable[Slices]:
    """Cut a box of a leaf along some axes."""
    box = [whole[n] for n in axes]
    row = [along for n, along in enumerate(whole) if n not in axes]
    row_bytes = elements_of(row) * _itemsize(work)
    if row_bytes * elements_of(box) <= limit:
        return [tuple(box)]
    cuts = [_cut_within(work, n, pieces[n], along) for n, along in zip(axes, box, strict=True)]
    return slabs_of_cells(cuts, row_bytes, limit)


def _cut_within(work: Work, axis: int, piece: Piece, along: slice) -> list[slice]:
    """Cut some elements of a piece at boundaries of cells."""
    return overlaps(piece.cut(work.scan.grids[axis]), along)


def all_in_turn(work: Work) -> bool:
    """Return whether all sources can decode their chunks one after another, in the same order."""
    sources = work.scan.sources
    return (
        not work.first.layout.gathers
        and sources[0].in_turn is not None
        and len({source.in_turn for source in sources}) == 1
    )


def _itemsize(work: Work) -> int:
    return max(source.dtype.itemsize for source in work.scan.sources)


def _output_bytes(work: Work) -> int:
    return _itemsize(work) * work.first.layout.per_output()

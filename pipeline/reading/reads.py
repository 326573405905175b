"""What is read for some outputs of a tile: pure functions of a run's layout."""

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
from chunkfold.planning.rows import RowsRead
from chunkfold.planning.work import Work
from chunkfold.reading.parts import Absent, ImplicitFill, TileLeaf, parts_of
from chunkfold.stores.expected import Expected


class FoldInput(NamedTuple):
    """What folds of a question are told of a box of a leaf."""

    shape: tuple[int, ...]
    box: Box
    """What it is to the kernels."""
    keyed: tuple[KeyedBox, Slices] | None
    """Where keys are, where elements have some: to the kernels, and among those of the run."""
    rows: RowsRead | None
    """Where rows of elements are that are folded first, if they are."""


@dataclass(frozen=True)
class Read:
    """A box of a leaf that one reader brings into staging memory."""

    region: tuple[Taken, ...]
    """Where it stands in the arrays."""
    within: Slices
    """Where it is in the leaf."""
    told: FoldInput
    """What folds are told of it."""
    nbytes: int
    """Decoded bytes of all inputs that are stored of it, as far as it is known."""
    absent: bool
    """Whether nothing of it is stored."""
    known: tuple[Expected, ...]
    """Of each input what is known of the leaf's objects."""
    in_turn: bool
    """Whether its chunks stand one after another in staging memory, not each where it is in the
    region: so they are decoded in place, whatever their shape."""
    kept: tuple[Box, list[OutputRun]] | None = None
    """Where elements are that are all kept, to the kernels, and in which rows of the tile."""
    leaf: tuple[int, int] = (0, 0)
    """Of which tile it is, and of which part."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the box."""
        return self.told.shape

    @property
    def box(self) -> Box:
        """What its elements are to the kernels."""
        return self.told.box


@dataclass(frozen=True)
class OutputBox:
    """A box of a tile's outputs, and what is folded into them."""

    tile: int
    parts: Sequence[TileLeaf]
    """In the order they are folded."""
    place: Slices
    """The box, along the kept axes: of outputs."""
    by_cell: bool = False
    """Whether to read cell by cell, and leave out those that cannot be read."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the box."""
        return extents_of(self.place)

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return math.prod(self.shape)

    def within(self, inner: Slices) -> OutputBox:
        """Return a part of it."""
        return replace(self, place=shifted(self.place, inner))


@dataclass(frozen=True)
class Share:
    """What a block has to do for a box of a tile's outputs."""

    tile: int
    place: Slices
    """All of its outputs are made of as many elements."""
    last: bool
    """Whether it is the last one of its tile."""
    parts: Sequence[TileLeaf]
    """That are read."""
    implicit: ImplicitFill
    """Fill values more for its outputs."""
    output_boxes: Sequence[OutputBox]
    """In which its outputs are read: a buffer holds an element of each of a box's."""


def shares_of(work: Work, block: Block, buffer_bytes: int, missed: Absent) -> Iterator[Share]:
    """Yield what a block has to do, tile by tile; for `missed` see `parts_of`."""
    for tile in range(*block.tiles):
        boxes = work.layout.alike(tile)
        for number, place in enumerate(boxes, 1):
            parts, implicit = parts_of(work, block, tile, place, missed)
            output_boxes = output_boxes_within(work, tile, place, parts, buffer_bytes)
            read = output_boxes if parts or not implicit else []
            yield Share(tile, place, number == len(boxes), parts, implicit, read)


def all_outputs(work: Work, tile: int, parts: Sequence[TileLeaf]) -> OutputBox:
    """Return all outputs of a tile."""
    return OutputBox(tile, parts, tuple(slice(0, n) for n in work.layout.tile_shape(tile)))


def output_boxes_within(
    work: Work, tile: int, place: Slices, parts: Sequence[TileLeaf], buffer_bytes: int
) -> list[OutputBox]:
    """Cut a box of a tile's outputs so that a buffer holds an element of each of a part's.

    Of outputs that are of several along kept axes all of these, if they fit.
    """
    output_box = OutputBox(tile, parts, place)
    return [
        output_box.within(inner)
        for inner in slabs(output_box.shape, _output_bytes(work), buffer_bytes)
    ]


def output_boxes_by_cell(
    work: Work, tile: int, place: Slices, parts: Sequence[TileLeaf], buffer_bytes: int
) -> list[OutputBox]:
    """Cut them further, so that no cell is of some of a box's outputs, and not of others."""
    pieces = zip(work.layout.kept, work.layout.tile_pieces(tile), place, strict=True)
    cuts = [
        overlaps(work.layout.output_cuts(axis, one, work.grids_along(axis)), box)
        for axis, one, box in pieces
    ]
    whole = [OutputBox(tile, parts, each, by_cell=True) for each in itertools.product(*cuts)]
    return [
        output_box.within(inner)
        for output_box in whole
        for inner in slabs(output_box.shape, _output_bytes(work), buffer_bytes)
    ]


def reads_of(
    work: Work, output_box: OutputBox, buffer_bytes: int, number: int = 0, of: int = 1
) -> Iterator[Read]:
    """Yield what is read for a box of outputs, in pieces that staging buffers of a size hold.

    Leaves are cut where cells meet, if these fit. All pieces, or a share: every `of`-th from
    `number` on.
    """
    layout, found = work.layout, itertools.count()
    cut_axes = _cut_axes(work, output_box)
    indexed = work.accumulator.uses_index
    placed = indexed or work.keys or work.held or work.choosers or work.folded_beside
    whole_run = output_box.outputs == 1 and not placed
    in_turn = whole_run and all_in_turn(work)
    for part in output_box.parts:
        pieces = layout.leaf(output_box.tile, part.number)
        for whole in _boxes(work, output_box, part, pieces, cut_axes):
            # All outputs at a time.
            for slab in _slabs(work, pieces, whole, cut_axes, buffer_bytes):
                if next(found) % of != number:
                    continue
                within = list(whole)
                for n, along in zip(cut_axes, slab, strict=True):
                    within[n] = along
                told = fold_input_of(work, pieces, within)
                yield Read(
                    region=tuple(map(Piece.taken, pieces, within)),
                    within=tuple(within),
                    told=told,
                    nbytes=part.nbytes * told.box.elements // part.elements,
                    absent=part.absent,
                    known=part.known,
                    in_turn=in_turn,
                    kept=work.kept_box(pieces, within),
                    leaf=(output_box.tile, part.number),
                )


def _cut_axes(work: Work, output_box: OutputBox) -> list[int]:
    """Return the axes along which leaves may be cut: what is reduced into the same outputs."""
    layout = work.layout
    kept = zip(layout.kept, output_box.shape, strict=True)
    alone = [n for n, outputs in kept if outputs == 1 and layout.axes[n].window]
    return sorted([*layout.reduced, *alone])


def _boxes(
    work: Work, output_box: OutputBox, part: TileLeaf, pieces: Sequence[Piece], axes: Sequence[int]
) -> Iterable[Slices]:
    """Return the boxes of a leaf that are read for a box of outputs."""
    layout = work.layout
    along = [slice(0, piece.length) for piece in pieces]
    for n, outputs in zip(layout.kept, output_box.place, strict=True):
        along[n] = layout.elements_along(n, pieces[n], outputs)
    if part.cells is not None:
        own = [n in layout.reduced or layout.axes[n].split for n in range(len(pieces))]
        return (
            tuple(cut if cuts else whole for cuts, cut, whole in zip(own, cell, along, strict=True))
            for cell in part.cells
        )
    return itertools.product(
        *(
            _cut_within(work, n, pieces[n], whole) if output_box.by_cell and n in axes else [whole]
            for n, whole in enumerate(along)
        )
    )


def fold_input_of(work: Work, pieces: Sequence[Piece], within: Sequence[slice]) -> FoldInput:
    """Return what folds of a question are told of a box of a leaf."""
    keyed = rows = None
    if work.keys is not None:
        keyed = work.keyed_box(pieces, within), work.keys.place(pieces, within)
    if work.rowwise is not None:
        rows = work.rowwise.rows.read(pieces, within)
    return FoldInput(extents_of(within), work.box(pieces, within), keyed, rows)


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
    """Cut some elements of a piece where cells meet."""
    return overlaps(piece.cut(work.grids_along(axis)), along)


def all_in_turn(work: Work) -> bool:
    """Whether all sources bring their chunks one after another, and the same ones."""
    sources = work.sources
    return (
        not work.layout.gathers
        and sources[0].in_turn is not None
        and len({source.in_turn for source in sources}) == 1
    )


def _itemsize(work: Work) -> int:
    return max(source.dtype.itemsize for source in work.sources)


def _output_bytes(work: Work) -> int:
    return _itemsize(work) * work.layout.per_output()

"""What is read for some outputs of a tile: pure functions of a run's layout."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from chunkfold.decoding.decode_units import elements_of
from chunkfold.grid import Piece, Taken
from chunkfold.kernels import Box, KeyedBox
from chunkfold.kernels.fold.fold import Run
from chunkfold.kernels.fold.keyed.plan import way_of
from chunkfold.kernels.geometry import FOLDS
from chunkfold.planning.blocks import Block
from chunkfold.planning.work import Work
from chunkfold.reading.parts import ImplicitFill, Missed, Part, Place, parts_of
from chunkfold.reading.slabs import shifted, slabs, slabs_of_cells
from chunkfold.stores.expected import Expected

_MOST_SHAPES = 64
"""Of leaves, that are looked at one by one."""


@dataclass(frozen=True)
class Read:
    """A box of a leaf that one reader brings into staging memory."""

    region: tuple[Taken, ...]
    """Where it stands in the arrays."""
    shape: tuple[int, ...]
    box: Box
    """What it is to the kernels."""
    nbytes: int
    """Decoded bytes of all inputs that are stored of it, as far as it is known."""
    absent: bool
    """Whether nothing of it is stored."""
    known: tuple[Expected, ...]
    """Of each input what is known of the leaf's objects."""
    in_turn: bool
    """Whether its chunks stand one after another in staging memory, not each where it is in the
    region: so they are decoded in place, whatever their shape."""
    keyed: tuple[KeyedBox, Place] | None = None
    """Where keys are, where elements have some: to the kernels, and among those of the run."""
    kept: tuple[Box, list[Run]] | None = None
    """Where elements are that are all kept, to the kernels, and in which rows of the tile."""


@dataclass(frozen=True)
class Window:
    """A box of a tile's outputs, and what is folded into them."""

    tile: int
    parts: Sequence[Part]
    """In the order they are folded."""
    place: Place
    """The box, along the kept axes."""
    by_cell: bool = False
    """Whether to read cell by cell, and leave out those that cannot be read."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the box."""
        return tuple(along.stop - along.start for along in self.place)

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return math.prod(self.shape)

    def within(self, inner: Place) -> Window:
        """Return a part of it."""
        return replace(self, place=shifted(self.place, inner))


@dataclass(frozen=True)
class Share:
    """What a block has to do of a tile."""

    tile: int
    parts: Sequence[Part]
    """That are read."""
    implicit: ImplicitFill
    """Fill values more for its outputs."""
    windows: Sequence[Window]
    """In which its outputs are read: a buffer holds an element of each of a window's."""


def shares_of(work: Work, block: Block, buffer_bytes: int, missed: Missed) -> Iterator[Share]:
    """Yield what a block has to do, tile by tile; for `missed` see `parts_of`."""
    for tile in range(*block.tiles):
        parts, implicit = parts_of(work, block, tile, missed)
        windows = windows_within(work, tile, parts, buffer_bytes) if parts or not implicit else []
        yield Share(tile, parts, implicit, windows)


def whole_window(work: Work, tile: int, parts: Sequence[Part]) -> Window:
    """Return all outputs of a tile."""
    return Window(tile, parts, tuple(slice(0, n) for n in work.layout.tile_shape(tile)))


def windows_within(work: Work, tile: int, parts: Sequence[Part], buffer_bytes: int) -> list[Window]:
    """Cut a tile's outputs so that a buffer holds an element of each of a window's."""
    shape = work.layout.tile_shape(tile)
    return [Window(tile, parts, place) for place in slabs(shape, _itemsize(work), buffer_bytes)]


def windows_by_cell(
    work: Work, tile: int, parts: Sequence[Part], buffer_bytes: int
) -> list[Window]:
    """Cut them further, so that no cell is of some of a window's outputs, and not of others."""
    pieces = zip(work.layout.kept, work.layout.tile_pieces(tile), strict=True)
    cuts = [piece.cut(work.grids_along(axis)) for axis, piece in pieces]
    whole = [Window(tile, parts, place, by_cell=True) for place in itertools.product(*cuts)]
    return [
        window.within(inner)
        for window in whole
        for inner in slabs(window.shape, _itemsize(work), buffer_bytes)
    ]


def reads_of(
    work: Work, window: Window, buffer_bytes: int, number: int = 0, of: int = 1
) -> Iterator[Read]:
    """Yield what is read for a window, in pieces that staging buffers of a size hold.

    Leaves are cut where cells meet, if these fit. All pieces, or a share: every `of`-th from
    `number` on.
    """
    layout, found = work.layout, itertools.count()
    kept = dict(zip(layout.kept, window.place, strict=True))
    row_bytes = window.outputs * _itemsize(work)
    indexed = work.accumulator.uses_index
    placed = indexed or work.keys or work.held or work.choosers
    whole_run = window.outputs == 1 and not placed
    in_turn = whole_run and all_in_turn(work)

    def cuts_along(axis: int, piece: Piece) -> list[slice]:
        if axis in kept:
            return [kept[axis]]
        return piece.cut(work.grids_along(axis)) if window.by_cell else [slice(0, piece.length)]

    def boxes(part: Part, pieces: Sequence[Piece]) -> Iterable[Place]:
        if part.cells is None:
            return itertools.product(*itertools.starmap(cuts_along, enumerate(pieces)))
        return (tuple(kept.get(n, cut) for n, cut in enumerate(cell)) for cell in part.cells)

    for part in window.parts:
        pieces = layout.leaf(window.tile, part.number)
        for whole in boxes(part, pieces):
            # All outputs at a time.
            for slab in _slabs(work, pieces, whole, row_bytes, buffer_bytes):
                if next(found) % of != number:
                    continue
                within = list(whole)
                for n, along in zip(layout.reduced, slab, strict=True):
                    within[n] = along
                box = work.box(pieces, within)
                yield Read(
                    region=tuple(map(Piece.taken, pieces, within)),
                    shape=tuple(cut.stop - cut.start for cut in within),
                    box=box,
                    nbytes=part.nbytes * box.elements // part.elements,
                    absent=part.absent,
                    known=part.known,
                    in_turn=in_turn,
                    keyed=_keyed(work, pieces, within),
                    kept=work.kept_box(pieces, within),
                )


def _keyed(
    work: Work, pieces: Sequence[Piece], within: Sequence[slice]
) -> tuple[KeyedBox, Place] | None:
    if work.keys is None:
        return None
    return work.keyed_box(pieces, within), work.keys.place(pieces, within)


def kernels_of(work: Work, window: Window, buffer_bytes: int) -> frozenset[str]:
    """Return which kernels fold what is read for a window: of `FOLDS`, or of `BY_KEY`."""
    if work.keys is not None:
        return frozenset({way_of(window.outputs)})
    boxes = boxes_of(work, window, buffer_bytes)
    return frozenset(FOLDS if boxes is None else (box.kernel for box in boxes))


def boxes_of(work: Work, window: Window, buffer_bytes: int) -> list[Box] | None:
    """Return a box of every kind that is read for a window; None if there may be others.

    Of what is folded by key none is among them.

    Boxes differ in extents, but what matters of one is whether it is 1 and whether it is all there
    is: the least and the largest along an axis are of every kind that occurs.
    """
    if work.keys is not None:
        return []
    layout = work.layout
    extents = [{int(axis.lengths.min()), int(axis.lengths.max())} for axis in layout.axes]
    for axis, cell in itertools.product(layout.reduced, _cells(window)):
        extents[axis].add(cell[axis].stop - cell[axis].start)
    for axis, along in zip(layout.kept, window.place, strict=True):
        extents[axis] = {along.stop - along.start}
    cut = window.by_cell or work.leaf_bytes > buffer_bytes
    if cut or math.prod(map(len, extents)) > _MOST_SHAPES:
        return None
    pieces = layout.leaf(0, 0)
    return [
        work.box(pieces, [slice(0, size) for size in shape])
        for shape in itertools.product(*extents)
    ]


def _slabs(
    work: Work, pieces: Sequence[Piece], whole: Place, row_bytes: int, limit: int
) -> Iterable[Place]:
    """Cut a box of a leaf along the reduced axes."""
    box = [whole[n] for n in work.layout.reduced]
    if row_bytes * elements_of(box) <= limit:
        return [tuple(box)]
    cuts = [
        [cut for cut in pieces[n].cut(work.grids_along(n)) if _holds(along, cut)]
        for n, along in zip(work.layout.reduced, box, strict=True)
    ]
    return slabs_of_cells(cuts, row_bytes, limit)


def _holds(along: slice, cut: slice) -> bool:
    return bool(along.start <= cut.start and cut.stop <= along.stop)


def all_in_turn(work: Work) -> bool:
    """Whether all sources bring their chunks one after another, and the same ones."""
    sources = work.sources
    return (
        not work.layout.gathers
        and sources[0].in_turn is not None
        and len({source.in_turn for source in sources}) == 1
    )


def _cells(window: Window) -> Iterator[Place]:
    return itertools.chain.from_iterable(part.cells or () for part in window.parts)


def _itemsize(work: Work) -> int:
    return max(source.dtype.itemsize for source in work.sources)

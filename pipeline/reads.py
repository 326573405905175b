"""What is read for some outputs of a tile: pure functions of a run's layout."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from chunkfold.blocks import Block
from chunkfold.grid import Piece, slabs
from chunkfold.kernels import Box
from chunkfold.kernels.geometry import FOLDS
from chunkfold.objects import Known
from chunkfold.work import Work

_MOST_SHAPES = 64
"""Of leaves, that are looked at one by one."""
Place = tuple[slice, ...]
"""A box, axis by axis."""


@dataclass(frozen=True)
class Read:
    """A box of a leaf that one reader brings into staging memory."""

    region: Place
    """Where it stands in the arrays."""
    shape: tuple[int, ...]
    box: Box
    """What it is to the kernels."""
    absent: bool
    """Whether nothing of it is stored."""
    known: tuple[Known | None, ...]
    """Of each input, which of the leaf's objects are stored, if that is known."""


@dataclass(frozen=True)
class Window:
    """A box of a tile's outputs, and what is folded into them."""

    tile: int
    parts: Mapping[int, bool]
    """Parts of the tile, in the order they are folded, and whether nothing of them is stored."""
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
        return replace(self, place=_shifted(self.place, inner))


def whole_window(work: Work, tile: int, parts: Mapping[int, bool]) -> Window:
    """Return all outputs of a tile."""
    return Window(tile, parts, tuple(slice(0, n) for n in work.layout.tile_shape(tile)))


def windows_within(
    work: Work, tile: int, parts: Mapping[int, bool], buffer_bytes: int
) -> list[Window]:
    """Cut a tile's outputs so that a buffer holds an element of each of a window's."""
    shape = work.layout.tile_shape(tile)
    return [Window(tile, parts, place) for place in slabs(shape, _itemsize(work), buffer_bytes)]


def windows_by_cell(
    work: Work, tile: int, parts: Mapping[int, bool], buffer_bytes: int
) -> list[Window]:
    """Cut them further, so that no cell is of some of a window's outputs, and not of others."""
    pieces = zip(work.layout.kept, work.layout.tile_pieces(tile), strict=True)
    cuts = [piece.cut(work.cells_along(axis)) for axis, piece in pieces]
    whole = [Window(tile, parts, place, by_cell=True) for place in itertools.product(*cuts)]
    return [
        window.within(inner)
        for window in whole
        for inner in slabs(window.shape, _itemsize(work), buffer_bytes)
    ]


def reads_of(work: Work, block: Block, window: Window, buffer_bytes: int) -> Iterator[Read]:
    """Yield what is read for a window, in pieces that staging buffers of a size hold."""
    layout = work.layout
    kept = dict(zip(layout.kept, window.place, strict=True))
    row_bytes = window.outputs * _itemsize(work)

    def cuts_along(axis: int, piece: Piece) -> list[slice]:
        if axis in kept:
            return [kept[axis]]
        return piece.cut(work.cells_along(axis)) if window.by_cell else [slice(0, piece.length)]

    for part, absent in window.parts.items():
        pieces = layout.leaf(window.tile, part)
        known = _known(work, block, window.tile, part)
        for whole in itertools.product(*itertools.starmap(cuts_along, enumerate(pieces))):
            shape = [along.stop - along.start for along in whole]
            # All outputs at a time.
            for slab in slabs([shape[n] for n in layout.reduced], row_bytes, buffer_bytes):
                cuts = dict(zip(layout.reduced, slab, strict=True))
                within = _shifted(whole, [cuts.get(n, slice(0, m)) for n, m in enumerate(shape)])
                yield Read(
                    region=tuple(map(_in_array, pieces, within)),
                    shape=tuple(cut.stop - cut.start for cut in within),
                    box=layout.leaf_box(pieces, within, indexed=work.accumulator.uses_index),
                    absent=absent,
                    known=known,
                )


def kernels_of(work: Work, window: Window, buffer_bytes: int) -> frozenset[str]:
    """Return which kernels fold what is read for a window: of `kernels.geometry.FOLDS`.

    Boxes differ in extents, but what matters of one is whether it is 1 and whether it is all there
    is: the least and the largest along an axis are of every kind that occurs.
    """
    layout = work.layout
    extents = [{int(axis.lengths.min()), int(axis.lengths.max())} for axis in layout.axes]
    for axis, along in zip(layout.kept, window.place, strict=True):
        extents[axis] = {along.stop - along.start}
    cut = window.by_cell or work.leaf_bytes > buffer_bytes
    if cut or math.prod(map(len, extents)) > _MOST_SHAPES:
        return frozenset(FOLDS)
    pieces, indexed = layout.leaf(0, 0), work.accumulator.uses_index
    return frozenset(
        layout.leaf_box(pieces, [slice(0, size) for size in shape], indexed=indexed).kernel
        for shape in itertools.product(*extents)
    )


def _itemsize(work: Work) -> int:
    return max(source.dtype.itemsize for source in work.sources)


def _in_array(piece: Piece, cut: slice) -> slice:
    """Return where elements of a piece stand in the array."""
    start, step = piece.source.start, piece.source.step
    return slice(start + cut.start * step, start + (cut.stop - 1) * step + 1, step)


def _known(work: Work, block: Block, tile: int, part: int) -> tuple[Known | None, ...]:
    """Return what a block knows of a leaf's objects, input by input."""
    found: list[Known | None] = []
    for number, source in enumerate(work.sources):
        bits = block.gaps.get((tile, part, number))
        if bits is None:
            found.append(None)
            continue
        box = work.layout.leaf_objects(tile, part, source.object_shape)
        shape = [along.stop - along.start for along in box]
        flat = np.unpackbits(np.frombuffer(bits, np.uint8), count=math.prod(shape))
        first = tuple(along.start for along in box)
        found.append(Known(first, flat.reshape(shape).astype(bool)))
    return tuple(found)


def _shifted(whole: Sequence[slice], part: Sequence[slice]) -> Place:
    """Return a part of a box where the box stands."""
    return tuple(
        slice(along.start + cut.start, along.start + cut.stop)
        for along, cut in zip(whole, part, strict=True)
    )

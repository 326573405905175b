"""Which kernels fold what is read: the kinds of boxes that leaves are to them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from chunkfold.boxes import Slices
from chunkfold.kernels import Box
from chunkfold.kernels.fold.keyed.plan import way_of
from chunkfold.kernels.geometry import FOLDS, ONE_OUTPUT
from chunkfold.planning.work import Work
from chunkfold.reading.reads import OutputBox

_MOST_SHAPES = 64
"""Of leaves, that are looked at one by one."""


def kernels_of(
    work: Work, output_box: OutputBox, buffer_bytes: int, *, by_rows: bool = True
) -> frozenset[str]:
    """Return which kernels fold what is read for a box of outputs: of `FOLDS`, or of `BY_KEY`.

    Without `by_rows` those that fold elements, also where rows are folded first.
    """
    by_rows &= work.rowwise is not None
    if work.keys is not None and not by_rows:
        return frozenset({way_of(output_box.outputs)})
    boxes = boxes_of(work, output_box, buffer_bytes, by_rows=by_rows)
    return frozenset(FOLDS if boxes is None else (box.kernel for box in boxes))


def window_beside(work: Work, tile: int, place: Slices) -> OutputBox:
    """Return the outputs that a question has of what another one reads."""
    return OutputBox(tile, (), place, by_cell=work.skips)


def kernels_beside(work: Work, window: OutputBox, buffer_bytes: int) -> frozenset[str]:
    """Return which kernels fold what another question reads into some outputs of a question."""
    if window.outputs == 1 and work.keys is None and work.rowwise is None:
        return ONE_OUTPUT  # whatever is read of a leaf
    return kernels_of(work, window, buffer_bytes)


def boxes_of(
    work: Work, output_box: OutputBox, buffer_bytes: int, *, by_rows: bool = True
) -> list[Box] | None:
    """Return a box of every kind that is read for a box of outputs; None if there may be others.

    Of what is folded by key none is among them.

    Boxes differ in extents, but what matters of one is whether it is 1 and whether it is all there
    is: the least and the largest along an axis are of every kind that occurs.
    """
    by_rows &= work.rowwise is not None
    if work.keys is not None and not by_rows:
        return []
    layout = work.layout
    lengths = [axis.lengths[axis.lengths > 0] for axis in layout.axes]
    extents = [{int(along.min()), int(along.max())} for along in lengths]
    cut_axes = [n for n, axis in enumerate(layout.axes) if n in layout.reduced or axis.split]
    for axis, cell in itertools.product(cut_axes, _cells(output_box)):
        extents[axis].add(cell[axis].stop - cell[axis].start)
    tile = layout.leaf(output_box.tile, 0)
    for axis, place in zip(layout.kept, output_box.place, strict=True):
        if axis not in cut_axes:
            along = layout.elements_along(axis, tile[axis], place)
            extents[axis] = {along.stop - along.start}
    cut = output_box.by_cell or work.leaf_bytes > buffer_bytes
    if cut or math.prod(map(len, extents)) > _MOST_SHAPES:
        return None
    pieces = layout.leaf(0, 0)
    box_of = work.folded_box if by_rows else work.box
    return [
        box_of(pieces, [slice(0, size) for size in shape]) for shape in itertools.product(*extents)
    ]


def _cells(output_box: OutputBox) -> Iterator[Slices]:
    return itertools.chain.from_iterable(part.cells or () for part in output_box.parts)

"""Name the kernels that fold the reads of outputs, by the shapes of their boxes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from chunkfold.boxes import Slices
from chunkfold.kernels import Box
from chunkfold.kernels.fold.keyed.keyed_plan import way_of
from chunkfold.kernels.geometry import FOLDS, ONE_OUTPUT
from chunkfold.planning.work import Work
from chunkfold.reading.reads import OutputBox

_MOST_SHAPES = 64
"""Most shapes of leaves that are looked at one by one."""


def kernels_of(
    work: Work, output_box: OutputBox, buffer_bytes: int, *, preaggregates: bool = True
) -> frozenset[str]:
    """Return the kernels that fold the reads of a box of outputs: of `FOLDS`, or of `BY_KEY`.

    Without `preaggregates` they fold elements, even if the work folds rows first.
    """
    preaggregates &= work.first.preaggregation is not None
    if work.first.keys is not None and not preaggregates:
        return frozenset({way_of(output_box.outputs)})
    boxes = boxes_of(work, output_box, buffer_bytes, preaggregates=preaggregates)
    return frozenset(FOLDS if boxes is None else (box.kernel for box in boxes))


def secondary_window(work: Work, tile: int, place: Slices) -> OutputBox:
    """Return the outputs of a secondary question that a read of the first one reaches."""
    return OutputBox(tile, (), place, by_cell=work.scan.skips)


def secondary_kernels(work: Work, window: OutputBox, buffer_bytes: int) -> frozenset[str]:
    """Return the kernels that fold reads of the first question into outputs of a secondary one."""
    if window.outputs == 1 and work.first.keys is None and work.first.preaggregation is None:
        return ONE_OUTPUT  # whatever the shape of a read
    return kernels_of(work, window, buffer_bytes)


def boxes_of(
    work: Work, output_box: OutputBox, buffer_bytes: int, *, preaggregates: bool = True
) -> list[Box] | None:
    """Return a box of every shape that is read for a box of outputs; None if not all are known.

    Work with keys has none.

    Kernels depend on the lengths along axes only by whether these are 1 or the whole axis: so the
    least and the largest length along each axis stand for all others.
    """
    preaggregates &= work.first.preaggregation is not None
    if work.first.keys is not None and not preaggregates:
        return []
    first, layout = work.first, work.first.layout
    lengths = [axis.lengths[axis.lengths > 0] for axis in layout.axes]
    sizes = [{int(along.min()), int(along.max())} for along in lengths]
    cut_axes = [n for n, axis in enumerate(layout.axes) if n in layout.reduced or axis.split]
    for axis, cell in itertools.product(cut_axes, _cells(output_box)):
        sizes[axis].add(cell[axis].stop - cell[axis].start)
    tile = layout.leaf(output_box.tile, 0)
    for axis, place in zip(layout.kept, output_box.place, strict=True):
        if axis not in cut_axes:
            along = layout.elements_along(axis, tile[axis], place)
            sizes[axis] = {along.stop - along.start}
    cut = output_box.by_cell or work.scan.leaf_bytes > buffer_bytes
    if cut or math.prod(map(len, sizes)) > _MOST_SHAPES:
        return None
    pieces = layout.leaf(0, 0)
    box_of = first.folded_box if preaggregates else first.box
    return [
        box_of(pieces, [slice(0, size) for size in shape]) for shape in itertools.product(*sizes)
    ]


def _cells(output_box: OutputBox) -> Iterator[Slices]:
    return itertools.chain.from_iterable(leaf.cells or () for leaf in output_box.leaves)

"""Fold a tile: what is stored of it, what is not, what cannot be read, what was lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from chunkfold.boxes import Slices, elements_of, extents_of, shifted, slabs
from chunkfold.errors import ChunkError
from chunkfold.kernels import Accumulator, Partial
from chunkfold.kernels.accumulator.partial import assembled
from chunkfold.kernels.accumulator.sums import Rounded, any_lost, restored
from chunkfold.planning.memory import AGAIN_BYTES
from chunkfold.reading.parts import ImplicitFill
from chunkfold.reading.reads import OutputBox, Share, output_boxes_by_cell
from chunkfold.worker.fills import fills_of_groups
from chunkfold.worker.level_fold import LevelArrays
from chunkfold.worker.stream import LeafStream


def tiles_of(stream: LeafStream) -> Iterator[Partial | LevelArrays | Rounded]:
    """Fold what is the stream's block's, tile by tile: into a partial, or what is done already."""
    work, done = stream.work, list[tuple[Slices, Partial]]()
    for share in stream.shares:
        found: Partial | LevelArrays | Rounded | None = stream.levels(share)
        if found is None:
            found = stream.rounded(share)
        if found is not None:
            if isinstance(found, Partial):
                found = _restored(stream, share.output_boxes[0], found)
            yield found
            continue
        done.append((work.outputs_region(share.place), _fold_share(stream, share)))
        if share.last:
            shape = work.outputs_shape(work.layout.tile_shape(share.tile))
            yield assembled(work.accumulator, shape, done)
            done.clear()


def _fold_share(stream: LeafStream, share: Share) -> Partial:
    """Fold outputs that are made of as many elements."""
    if not share.implicit:
        return _fold_parts(stream, share)
    filled = _fold_fill(stream, elements_of(share.place), share.implicit)
    if not share.parts:
        return filled
    return stream.combine(stream.work.accumulator, [_fold_parts(stream, share), filled])


def _fold_fill(stream: LeafStream, outputs: int, implicit: ImplicitFill) -> Partial:
    """Fold the implicit fill values of some outputs of a tile, without any data."""
    accumulator = stream.work.accumulator
    stream.totals.elements += implicit.count * outputs
    for other in stream.beside:
        other.add_fill(implicit.count * outputs)
    if implicit.of_groups is None:
        return stream.fills.of(accumulator, implicit.count, outputs)
    return fills_of_groups(stream.fills, stream.combine, accumulator, implicit.of_groups, outputs)


def _fold_parts(stream: LeafStream, share: Share) -> Partial:
    """Fold what is read of a tile; chunks that cannot be are left out, if they are to be."""
    work, counted = stream.work, (stream.totals.elements, stream.totals.nbytes)
    for other in stream.beside if work.skips else ():
        other.keep()
    try:
        return _fold_output_boxes(stream, share, share.output_boxes)
    except ChunkError:
        if stream.totals.stuck or not work.skips:
            raise
    for other in stream.beside:
        other.drop()
    stream.totals.elements, stream.totals.nbytes = counted
    by_cell = output_boxes_by_cell(work, share.tile, share.place, share.parts, stream.buffer_bytes)
    return _fold_output_boxes(stream, share, by_cell)


def _fold_output_boxes(
    stream: LeafStream, share: Share, output_boxes: Sequence[OutputBox]
) -> Partial:
    """Fold boxes of outputs that are all of a share's outputs."""
    done = [(output_box.place, _fold_output_box(stream, output_box)) for output_box in output_boxes]
    if len(done) == 1:
        return done[0][1]
    work, firsts = stream.work, [along.start for along in share.place]
    done = [
        (work.outputs_region(shifted([slice(-n, 0) for n in firsts], place)), partial)
        for place, partial in done
    ]
    shape = extents_of(share.place)
    return assembled(work.accumulator, work.outputs_shape(shape), done)


def _fold_output_box(stream: LeafStream, output_box: OutputBox) -> Partial:
    return _restored(stream, output_box, _folded(stream, stream.work.accumulator, output_box))


def _restored(stream: LeafStream, output_box: OutputBox, partial: Partial) -> Partial:
    """Fold exact sums that expansions have lost once more, in limbs."""
    accumulator = stream.work.accumulator
    work, shape = stream.work, stream.work.outputs_shape(output_box.shape)
    lost = any_lost(accumulator, partial).reshape(-1, *output_box.shape)
    missing = np.asarray(lost.any(axis=0))
    if not missing.any():
        return partial
    limbs = accumulator.with_limbs()
    places = np.arange(partial.outputs).reshape(shape)
    for slab in slabs(output_box.shape, work.groups * limbs.nbytes, AGAIN_BYTES):
        inner = _around(missing, slab)
        if inner is not None:
            again = _folded(stream, limbs, output_box.within(inner))
            chosen = places[work.outputs_region(inner)].reshape(-1)
            partial = restored(accumulator, partial, chosen, again)
    return partial


def _folded(stream: LeafStream, accumulator: Accumulator, output_box: OutputBox) -> Partial:
    tuning = stream.tuning(accumulator, output_box)
    return stream.way(accumulator, output_box).fold(accumulator, tuning, output_box)


def _around(chosen: np.ndarray, slab: Slices) -> Slices | None:
    """Return the least box within a slab that has all that is chosen there; None if nothing is."""
    if not slab:  # one output, of each group
        return () if chosen else None
    found = np.nonzero(chosen[slab])
    if not len(found[0]):
        return None
    return tuple(
        slice(along.start + int(places.min()), along.start + int(places.max()) + 1)
        for along, places in zip(slab, found, strict=True)
    )

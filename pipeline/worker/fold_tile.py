"""Fold a tile: its stored leaves, its fill values, its bad chunks, and sums that were lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from chunkfold.boxes import Slices, elements_of, extents_of, shifted, slabs
from chunkfold.errors import ChunkError
from chunkfold.kernels import Accumulator, Partial
from chunkfold.kernels.accumulator.partial import Wide, assembled, zero_partial
from chunkfold.kernels.accumulator.sums import Rounded, any_lost, restored
from chunkfold.kernels.fold.power import Powers
from chunkfold.planning.memory import AGAIN_BYTES
from chunkfold.planning.tile_finishing import Combine
from chunkfold.reading.reads import OutputBox, Share, output_boxes_by_cell
from chunkfold.reading.tile_leaves import ImplicitFill
from chunkfold.worker.level_fold import LevelArrays
from chunkfold.worker.stream import LeafStream


def tiles_of(stream: LeafStream) -> Iterator[Partial | LevelArrays | Rounded]:
    """Fold the stream's block tile by tile, each into a partial, or finished levels or results."""
    question, done = stream.work.first, list[tuple[Slices, Partial]]()
    for share in stream.shares:
        found: Partial | LevelArrays | Rounded | None = stream.levels(share)
        if found is None:
            found = stream.rounded(share)
        if found is not None:
            if isinstance(found, Partial):
                found = _restored(stream, share.output_boxes[0], found)
            yield found
            continue
        done.append((question.outputs_region(share.place), _fold_share(stream, share)))
        if share.last:
            shape = question.outputs_shape(question.layout.tile_shape(share.tile))
            yield assembled(question.accumulator, shape, done)
            done.clear()


def _fold_share(stream: LeafStream, share: Share) -> Partial:
    """Fold the outputs of a share: what is read, and the implicit fill."""
    if not share.implicit:
        return _fold_leaves(stream, share)
    filled = _fold_fill(stream, elements_of(share.place), share.implicit)
    if not share.leaves:
        return filled
    return stream.combine(stream.work.first.accumulator, [_fold_leaves(stream, share), filled])


def _fold_fill(stream: LeafStream, outputs: int, implicit: ImplicitFill) -> Partial:
    """Fold the implicit fill values of some outputs of a tile, without any data."""
    accumulator = stream.work.first.accumulator
    stream.totals.elements += implicit.count * outputs
    for other in stream.secondary:
        other.add_fill(implicit.count * outputs)
    if implicit.of_groups is None:
        return stream.fills.of(accumulator, implicit.count, outputs)
    return _fills_of_groups(stream.fills, stream.combine, accumulator, implicit.of_groups, outputs)


def _fold_leaves(stream: LeafStream, share: Share) -> Partial:
    """Fold the leaves of a share; skip chunks that cannot be read, if the run does."""
    work, counted = stream.work, (stream.totals.elements, stream.totals.nbytes)
    for other in stream.secondary if work.scan.skips else ():
        other.keep()
    try:
        return _fold_output_boxes(stream, share, share.output_boxes)
    except ChunkError:
        if stream.totals.stuck or not work.scan.skips:
            raise
    for other in stream.secondary:
        other.drop()
    stream.totals.elements, stream.totals.nbytes = counted
    by_cell = output_boxes_by_cell(work, share.tile, share.place, share.leaves, stream.buffer_bytes)
    return _fold_output_boxes(stream, share, by_cell)


def _fold_output_boxes(
    stream: LeafStream, share: Share, output_boxes: Sequence[OutputBox]
) -> Partial:
    """Fold boxes that together are a share's outputs."""
    done = [(output_box.place, _fold_output_box(stream, output_box)) for output_box in output_boxes]
    if len(done) == 1:
        return done[0][1]
    question, firsts = stream.work.first, [along.start for along in share.place]
    done = [
        (question.outputs_region(shifted([slice(-n, 0) for n in firsts], place)), partial)
        for place, partial in done
    ]
    shape = extents_of(share.place)
    return assembled(question.accumulator, question.outputs_shape(shape), done)


def _fold_output_box(stream: LeafStream, output_box: OutputBox) -> Partial:
    return _restored(stream, output_box, _folded(stream, stream.work.first.accumulator, output_box))


def _restored(stream: LeafStream, output_box: OutputBox, partial: Partial) -> Partial:
    """Fold exact sums that expansions lost once more, in limbs."""
    question = stream.work.first
    accumulator, shape = question.accumulator, question.outputs_shape(output_box.shape)
    lost = any_lost(accumulator, partial).reshape(-1, *output_box.shape)
    missing = np.asarray(lost.any(axis=0))
    if not missing.any():
        return partial
    limbs = accumulator.with_limbs()
    places = np.arange(partial.outputs).reshape(shape)
    for slab in slabs(output_box.shape, question.groups * limbs.nbytes, AGAIN_BYTES):
        inner = _around(missing, slab)
        if inner is not None:
            again = _folded(stream, limbs, output_box.within(inner))
            chosen = places[question.outputs_region(inner)].reshape(-1)
            partial = restored(accumulator, partial, chosen, again)
    return partial


def _folded(stream: LeafStream, accumulator: Accumulator, output_box: OutputBox) -> Partial:
    tuning = stream.tuning(accumulator, output_box)
    return stream.way(accumulator, output_box).fold(accumulator, tuning, output_box)


def _around(chosen: np.ndarray, slab: Slices) -> Slices | None:
    """Return the least box within a slab around all chosen outputs; None if none is chosen."""
    if not slab:  # one output, of each group
        return () if chosen else None
    found = np.nonzero(chosen[slab])
    if not len(found[0]):
        return None
    return tuple(
        slice(along.start + int(places.min()), along.start + int(places.max()) + 1)
        for along, places in zip(slab, found, strict=True)
    )


def _fills_of_groups(
    powers: Powers, combine: Combine, accumulator: Accumulator, counts: np.ndarray, outputs: int
) -> Partial:
    """Fold an element into outputs of groups: `counts` times for each group, int64.

    Each bit of the counts has one partial, of all groups.
    """
    bits = range(int(counts.max(initial=0)).bit_length())
    parts = [
        _for_groups(
            accumulator, powers.of(accumulator, 1 << bit, 1), (counts >> bit & 1).astype(bool)
        )
        for bit in bits
    ]
    of_groups = combine(accumulator, parts) if parts else zero_partial(accumulator, len(counts))
    return _for_outputs(of_groups, outputs)


def _for_groups(accumulator: Accumulator, one: Partial, which: np.ndarray) -> Partial:
    """Return a partial with one output's state for chosen groups, and zero for others."""
    arrays = dict(zero_partial(accumulator, len(which)).arrays)
    for array, own in zip(arrays.values(), map(one.arrays.__getitem__, arrays), strict=True):
        array[which] = own
    at = np.flatnonzero(which)
    wide = {
        name: Wide(at, np.repeat(rows.tables, len(at), axis=0)) for name, rows in one.wide.items()
    }
    return Partial(arrays, wide)


def _for_outputs(of_groups: Partial, outputs: int) -> Partial:
    """Return a partial in which each output of a group has the group's state."""
    arrays = {name: np.repeat(array, outputs, axis=0) for name, array in of_groups.arrays.items()}
    wide = {
        name: Wide(
            (rows.at[:, None] * outputs + np.arange(outputs)).reshape(-1),
            np.repeat(rows.tables, outputs, axis=0),
        )
        for name, rows in of_groups.wide.items()
    }
    return Partial(arrays, wide)

"""Try the laws of users' monoids on some of the data that a run folds."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

import numpy as np

from chunkfold.axis_cuts import Cells
from chunkfold.errors import ChunkfoldError, MonoidError
from chunkfold.grid import Piece, Taken
from chunkfold.kernels import Accumulator, Packing
from chunkfold.kernels.binding.law_samples import MOST
from chunkfold.kernels.binding.laws import depends_on_order_of, try_laws
from chunkfold.planning.blocks import Block
from chunkfold.planning.broadcast_inputs import BroadcastInput
from chunkfold.planning.work import Work
from chunkfold.sources.gathering import read_region
from chunkfold.worker.worker_device import WorkerDevice


def try_on_data(
    worker_device: WorkerDevice, work: Work, number: int, block: Block
) -> Mapping[str, bool]:
    """Try the laws of a question's monoids on elements of a block, once for each worker and run.

    Returns for each tried monoid whether any element changed its accumulators; nothing if all are
    known to be monoids, or the worker has tried them before.

    Raises
    ------
    MonoidError
        If a law fails; with the counter-example.
    """
    question, tried_as = work.questions[number], (work.scan.run, number)
    accumulator = question.accumulator
    doubted = [part for part in accumulator.components if part.rtol is not None]
    if not doubted:
        return {}
    with worker_device.trying:  # other blocks of the run wait for the verdict
        if (
            tried_as in worker_device.tried
            or (data := _some_data(work, question.broadcast, block)) is None
        ):
            return {}
        present = _present(data, accumulator.packings)
        if present is None:
            return {}
        worker_device.tried.append(tried_as)
        tried = try_laws(accumulator, present)
        odd = _of_nan(accumulator, data)
    if tried.broken or odd:
        raise MonoidError(tried.broken or odd)
    return {part.origin: part.origin not in tried.unmoved for part in doubted}


def _of_nan(accumulator: Accumulator, data: Sequence[np.ndarray]) -> str:
    """Return a message if results of data with NaN depend on their order; else ""."""
    if not any(array.dtype.kind in "fc" and np.isnan(array).any() for array in data):
        return ""
    return depends_on_order_of(accumulator, np.nan)


def _some_data(
    work: Work, broadcast: Sequence[BroadcastInput], block: Block
) -> Sequence[np.ndarray] | None:
    """Return elements of the first stored chunk of a block; None if it has none."""
    layout = work.first.layout
    for tile in range(*block.tiles):
        parts = np.arange(*block.parts)
        stored = ~block.unstored_parts(tile) & (
            layout.part_depths(tile, parts, layout.alike(tile)[0]) > 0
        )
        if not stored.any():
            continue
        pieces = layout.leaf(tile, int(parts[stored][0]))
        within = [
            _spread(piece, cells, each)
            for piece, cells, each in zip(
                pieces, work.scan.sources[0].grid, _lengths(len(pieces)), strict=True
            )
        ]
        region = tuple(map(_taken, pieces, within))
        arrays = []
        with contextlib.suppress(ChunkfoldError):  # the fold of that chunk raises the error
            for source in work.scan.sources:
                arrays.append(np.empty(list(map(len, within)), source.dtype))
                read_region(source, region, arrays[-1])
            arrays += [one.at(list(map(_selected, pieces, within))) for one in broadcast]
            return [array.reshape(-1) for array in arrays]
    return None


def _taken(piece: Piece, within: range) -> Taken:
    """Return the places in the array of some elements of a piece."""
    if not isinstance(piece.source, slice):
        return piece.source[within.start : within.stop : within.step]
    places = range(piece.source.start, piece.source.stop, piece.source.step)
    some = places[within.start : within.stop : within.step]
    return slice(some[0], some[-1] + 1, some.step)


def _selected(piece: Piece, within: range) -> slice:
    """Return the numbers of the same elements among all selected ones."""
    first = piece.position
    return slice(first + within.start, first + within.stop, within.step)


def _lengths(axes: int) -> Sequence[int]:
    """Return the number of elements to take along each axis, most along the last ones.

    >>> _lengths(1), _lengths(2), _lengths(3)
    ([1024], [32, 32], [8, 8, 16])
    """
    left, lengths = MOST.bit_length() - 1, []
    for axis in range(axes):
        taken = left // (axes - axis)
        lengths.append(1 << taken)
        left -= taken
    return lengths


def _spread(piece: Piece, cells: Cells, most: int) -> range:
    """Return at most `most` elements of a piece's first chunk, far apart."""
    first = piece.cut([cells])[0]
    elements = range(first.stop)
    return elements[:: max(1, len(elements) // most)][:most]


def _present(
    arrays: Sequence[np.ndarray], packings: Sequence[Packing | None]
) -> Sequence[np.ndarray] | None:
    """Return the finite elements: laws need not hold for others."""
    present = np.ones(len(arrays[0]), bool)
    for array, packing in zip(arrays, packings, strict=True):
        values = array if packing is None else packing.values(array)
        if values.dtype.kind in "mM":
            present &= ~np.isnat(values)
        elif values.dtype.kind in "fc":
            present &= np.isfinite(values)
        elif values.dtype.kind == "V":  # bfloat16
            present &= np.isfinite(values.astype(np.float32))
    return [array[present] for array in arrays] if present.any() else None

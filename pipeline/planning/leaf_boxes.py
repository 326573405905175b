"""Describe leaves to kernels as boxes of buffers: pure integer functions of a layout."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from chunkfold.grid import Piece
from chunkfold.kernels import KeyedBox, keyed_box
from chunkfold.kernels.geometry import Box, OutputRun, box
from chunkfold.kernels.strides import c_strides
from chunkfold.planning.broadcast_inputs import BroadcastInput
from chunkfold.planning.layout import Layout


@dataclass(frozen=True)
class InputTraits:
    """Facts about a reduction's inputs that its boxes depend on."""

    reads_index: bool = False
    """True if it reads indices; if not, axes may merge freely."""
    staged: int = 1
    """Inputs that stand in buffers as the first one does."""
    broadcast: tuple[BroadcastInput, ...] = ()
    """Inputs behind the staged ones, which lack axes."""


def leaf_box(
    layout: Layout,
    pieces: Sequence[Piece],
    within: Sequence[slice],
    inputs: InputTraits,
) -> Box:
    """Describe a part of a leaf that stands C-contiguous in a buffer of its own."""
    shape = tuple(cut.stop - cut.start for cut in within)
    if layout.coarsened:
        shape = layout.windowed(
            [max(1, n // (axis.window or 1)) for n, axis in zip(shape, layout.axes, strict=True)],
            [min(n, axis.window) for n, axis in zip(shape, layout.axes, strict=True)],
        )
    reduced = layout.reduced_by_window
    if not inputs.reads_index and not inputs.broadcast:
        return _box(shape, reduced)
    if not inputs.reads_index:
        strided = _strided(layout, pieces, within, inputs)
        strides, offsets = tuple(strided["other_strides"]), tuple(strided["other_offsets"])
        return replace(_strided_box(shape, reduced, strides), other_offsets=offsets)
    return box(
        shape,
        reduced,
        **_indices(layout, pieces, within, inputs),
        **_strided(layout, pieces, within, inputs),
    )


def keyed_leaf_box(
    layout: Layout,
    pieces: Sequence[Piece],
    within: Sequence[slice],
    along: Sequence[int],
    inputs: InputTraits,
) -> KeyedBox:
    """Describe a part of a leaf whose elements have keys along some axes; as `leaf_box`."""
    shape = tuple(cut.stop - cut.start for cut in within)
    if not inputs.reads_index and not inputs.broadcast:
        return _keyed_box(shape, layout.reduced, tuple(along))
    return keyed_box(
        shape,
        layout.reduced,
        along,
        **_indices(layout, pieces, within, inputs),
        **_strided(layout, pieces, within, inputs),
    )


def unreduced_leaf_box(
    layout: Layout,
    pieces: Sequence[Piece],
    within: Sequence[slice],
    inputs: InputTraits,
) -> tuple[Box, list[OutputRun]]:
    """Describe a part of a leaf whose elements are all kept, as `leaf_box`: rows of outputs.

    A row is one element of each output; the runs say which of the rows of the box follow each
    other among those of the tile.
    """
    order = (*layout.reduced, *layout.kept)
    shape = [within[n].stop - within[n].start for n in range(len(within))]
    strides, given = c_strides(shape), _strided(layout, pieces, within, inputs)
    if given:
        each = given["other_strides"]
        given["other_strides"] = [one and [one[n] for n in order] for one in each]
    made = box([shape[n] for n in order], (), strides=[strides[n] for n in order], **given)
    starts = [pieces[n].position + within[n].start for n in layout.reduced]
    extents = [layout.shape[n] for n in layout.reduced]
    return made, _runs_within(extents, starts, [shape[n] for n in layout.reduced])


def _indices(
    layout: Layout, pieces: Sequence[Piece], within: Sequence[slice], inputs: InputTraits
) -> dict[str, Any]:
    """Return arguments of `box`: indices in the whole selection; none if they are not read."""
    if not inputs.reads_index:
        return {}
    strides = c_strides(layout.by_window)
    places = [piece.position + cut.start for piece, cut in zip(pieces, within, strict=True)]
    windows = [axis.window or 1 for axis in layout.axes]
    starts = layout.windowed(
        [n // window for n, window in zip(places, windows, strict=True)],
        [n % window for n, window in zip(places, windows, strict=True)],
    )
    start_index = sum(n * stride for n, stride in zip(starts, strides, strict=True))
    return {"index_strides": strides, "index": start_index}


def _strided(
    layout: Layout,
    pieces: Sequence[Piece],
    within: Sequence[slice],
    inputs: InputTraits,
) -> dict[str, Any]:
    """Return arguments of `box`: strides of inputs that lack axes; none if no input does."""
    staged, broadcast = inputs.staged, inputs.broadcast
    if not broadcast:
        return {}
    strides = [one.strides(len(within)) for one in broadcast]
    windows = [axis.window or 1 for axis in layout.axes]
    each = [
        layout.windowed([n * window for n, window in zip(one, windows, strict=True)], one)
        for one in strides
    ]
    offsets = [0] * (staged - 1) + [one.first(pieces, within) for one in broadcast]
    return {"other_strides": [None] * (staged - 1) + each, "other_offsets": offsets}


def _runs_within(
    extents: Sequence[int], starts: Sequence[int], shape: Sequence[int]
) -> list[OutputRun]:
    """Return the runs of a box's positions that follow each other in C order, in all extents.

    >>> _runs_within((5, 4), (2, 0), (3, 4)), _runs_within((5, 4), (2, 1), (2, 2))
    ([(0, 8, 12)], [(0, 9, 2), (2, 13, 2)])
    """
    inner = len(shape)
    while inner > 1 and shape[inner - 1] == extents[inner - 1]:
        inner -= 1
    along, strides = max(inner - 1, 0), c_strides(extents)
    count = math.prod(shape[along:])
    outer = itertools.product(*(range(n) for n in shape[:along]))
    start_index = sum(start * stride for start, stride in zip(starts, strides, strict=True))
    return [
        (number * count, start_index + sum(a * b for a, b in zip(at, strides, strict=False)), count)
        for number, at in enumerate(outer)
    ]


@lru_cache(maxsize=64)
def _box(shape: tuple[int, ...], reduced: tuple[int, ...]) -> Box:
    """Describe a box of a buffer of its own: few of a run's differ in shape."""
    return box(shape, reduced)


@lru_cache(maxsize=64)
def _strided_box(
    shape: tuple[int, ...],
    reduced: tuple[int, ...],
    other_strides: tuple[tuple[int, ...] | None, ...],
) -> Box:
    """Describe a box of several inputs, of which some have strides of their own.

    The last is one that lacks axes: so the box has `other_offsets`.
    """
    offsets = [1] * len(other_strides)
    return box(shape, reduced, other_strides=other_strides, other_offsets=offsets)


@lru_cache(maxsize=64)
def _keyed_box(
    shape: tuple[int, ...], reduced: tuple[int, ...], along: tuple[int, ...]
) -> KeyedBox:
    """Describe a box of a buffer of its own whose elements have keys."""
    return keyed_box(shape, reduced, along)

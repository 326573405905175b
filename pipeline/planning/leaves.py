"""What leaves are made of: whole cells, or what costs least where inputs are cut unlike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from chunkfold.axis_cuts import Cells
from chunkfold.grid import Axis
from chunkfold.planning.layout import Layout
from chunkfold.sources.source import Source

_LARGER = (1, 2, 4)
"""How much larger than the target leaves of inputs that are cut unlike may be."""
_ALIGNED = 64
"""Most cells that are joined so that windows end where they do."""


def layouts_of(
    sources: Sequence[Source],
    chosen: Sequence[Axis],
    reduced: tuple[int, ...],
    target_bytes: int,
    groups: int = 1,
) -> list[Layout]:
    """Return ways to cut a selection in leaves, best first.

    Small cells are joined to leaves of at most `target_bytes` of decoded elements. Of inputs that
    are cut alike that is the only way. Of others a cell is decoded again for each leaf that it
    reaches into, so leaves may be cut as either input, or along each axis as the coarser, and be
    larger: the less is decoded the better, and then the smaller they are. So it is where windows do
    not end where cells do; there as many cells may be joined as it takes until they do. Windows
    that are larger than a leaf are cut in several.

    Parameters
    ----------
    chosen
        What is selected along each axis.
    groups
        Of each output.
    """
    grids = list(dict.fromkeys(source.grid for source in sources))
    itemsize = max(source.dtype.itemsize for source in sources)

    spans = [max(1, axis.window * abs(axis.step)) for axis in chosen]

    def layout(cells: Sequence[Cells], target: int) -> Layout:
        factors = leaf_factors(cells, itemsize, target, reduced, groups, spans)
        cuts = (cut.coarsened(factor) for cut, factor in zip(cells, factors, strict=True))
        axes = (
            replace(
                axis, cells=cut, split=axis.together == 1 and axis.window > 0 and span > cut.cell
            )
            for axis, cut, span in zip(chosen, cuts, spans, strict=True)
        )
        return Layout(tuple(axes), reduced)

    if len(grids) == 1:
        found = layout(grids[0], target_bytes)
        if not found.coarsened or repeats(sources[0], found) == 1:
            return [found]
    ends = [span * axis.together for span, axis in zip(spans, chosen, strict=True)]
    grids += [aligned for cells in grids if (aligned := _aligned(cells, ends)) not in grids]
    coarser = tuple(max(along, key=lambda cut: cut.cell) for along in zip(*grids, strict=True))
    made = [layout(cells, n * target_bytes) for n in _LARGER for cells in (*grids, coarser)]
    least = min(leaf_elements(one) for one in made)
    most = max(least, _LARGER[-1] * target_bytes // itemsize)
    return sorted(
        dict.fromkeys(one for one in made if leaf_elements(one) <= most),
        key=lambda one: (round(_decoded(sources, one), 1), leaf_elements(one)),
    )


def _aligned(cells: Sequence[Cells], spans: Sequence[int]) -> tuple[Cells, ...]:
    """Join cells of each axis until they end where windows do, if these are not too many."""
    joined = []
    for cut, span in zip(cells, spans, strict=True):
        factor = math.lcm(span, max(1, cut.cell)) // max(1, cut.cell)
        joined.append(cut.coarsened(factor) if cut.bounds is None and factor <= _ALIGNED else cut)
    return tuple(joined)


def leaf_elements(layout: Layout) -> int:
    """Return the most elements of a leaf, without listing them."""
    return math.prod(map(_longest, layout.axes))


def leaf_bytes(sources: Sequence[Source], layout: Layout) -> int:
    """Return the most decoded bytes of a leaf of one input."""
    return max(source.dtype.itemsize for source in sources) * leaf_elements(layout)


def repeats(source: Source, layout: Layout) -> float:
    """Return how many times chunks of an input are decoded: 1 if each is in one leaf only."""
    times = 1.0
    for axis, cell in zip(layout.axes, source.grid, strict=True):
        if axis.length:
            first, behind = axis.touched(cell)
            times *= float((behind - first).sum() / (behind.max() - first.min()))
    return times


def _decoded(sources: Sequence[Source], layout: Layout) -> float:
    """Return what is decoded of all inputs, by what is selected of them."""
    sizes = [source.dtype.itemsize for source in sources]
    times = [repeats(source, layout) for source in sources]
    return float(np.average(times, weights=sizes))


def _longest(axis: Axis) -> int:
    if not axis.length:
        return 0
    uneven = axis.picked is not None or axis.window or axis.pieces_of is not None
    if uneven or axis.cells.bounds is not None:
        return int(axis.lengths.max())
    return min(axis.length, -(-axis.cells.cell // abs(axis.step)))


LEAST_OUTPUTS = 1 << 16
"""Outputs that fill a device."""


def leaf_factors(
    cells: Sequence[Cells],
    itemsize: int,
    target_bytes: int,
    reduced: Sequence[int],
    groups: int = 1,
    spans: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """Return how many cells per axis make a leaf: powers of two, at most `target_bytes`.

    Depends on nothing that changes when the array grows, once an axis has cells enough, so that
    leaves stay what they are. Axes are doubled in turn, the last one first, until all of their
    cells are in a leaf. Kept ones are first, until a leaf has outputs enough to fill a device. Then
    come reduced ones, since each leaf reads and writes the accumulators of its outputs, one of each
    of `groups`.
    Along kept axes an output is of so many elements as `spans` says; None: of one.

    >>> planes = [Cells(99, 1), Cells(999, 256), Cells(999, 256)]
    >>> leaf_factors(planes, 4, 1 << 20, (0, 1, 2)), leaf_factors(planes, 4, 1 << 20, (0,))
    ((1, 2, 2), (4, 1, 1))
    """
    factors = [1] * len(cells)
    cell = [max(1, axis.cell) for axis in cells]
    order = range(len(cells) - 1, -1, -1)
    nbytes = math.prod(cell) * itemsize
    while nbytes * 2 <= target_bytes:
        outputs = groups * math.prod(
            -(-cell[n] * factors[n] // (spans[n] if spans else 1))
            for n in order
            if n not in reduced
        )
        growing = [n for n in order if cell[n] * factors[n] < cells[n].size]
        if not growing:
            break
        widen = outputs < LEAST_OUTPUTS
        # Of the axes that are to grow the one that grew least; of the others, if there is none.
        chosen = min(growing, key=lambda n: ((n in reduced) == widen, factors[n]))
        factors[chosen] *= 2
        nbytes *= 2
    return tuple(factors)

"""Cut a selection in leaves: whole cells, or what costs least."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chunkfold.axis_cuts import Cells
from chunkfold.grid import Axis
from chunkfold.planning.group_keys import Keys
from chunkfold.planning.layout import Layout
from chunkfold.planning.request import Request
from chunkfold.planning.rules import PlanRule, applies
from chunkfold.planning.workers import Terms, slow_by_key
from chunkfold.sources.chunk_index import Listing
from chunkfold.sources.source import Source

if TYPE_CHECKING:
    from chunkfold.planning.folding import Folding

_LARGER = (1, 2, 4)
"""Factors by which leaves of inputs that are cut unlike may be larger than the target."""
_ALIGNED = 64
"""Most cells that are joined so that windows end where they do."""


class LeavesRead(NamedTuple):
    """The amount that a plan reads of its leaves, and what is known of that."""

    leaf_bytes: int
    """Most decoded bytes of a leaf of one input."""
    nbytes: int
    """Decoded bytes that will be read: not those of objects that are known not to be stored."""
    unstored: int
    """Leaves of which nothing is stored: they are not read."""
    unneeded: int
    """Elements that are not read, since they do not count any more."""
    listings: tuple[Listing | None, ...]
    """For each input what is stored of it, or None if its store cannot be listed."""


def layouts_of(
    sources: Sequence[Source],
    chosen: Sequence[Axis],
    reduced: tuple[int, ...],
    target_bytes: int,
    groups: int = 1,
) -> list[Layout]:
    """Return ways to cut a selection in leaves, best first.

    Small cells are joined to leaves of at most `target_bytes` of decoded elements. If inputs are
    cut alike, that is the only way. If not, a cell is decoded again for each leaf that it reaches
    into, so leaves may be cut as either input, or along each axis as the coarser, and be larger:
    the least decoded bytes come first, then the smallest leaves. The same goes for windows that do
    not end where cells do; there cells may be joined until they do. Windows that are larger than a
    leaf are cut in several.

    Parameters
    ----------
    chosen
        What is selected along each axis.
    groups
        Groups of each output.
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
        # The axis that grew least, among those that are to grow, if there are any.
        chosen = min(growing, key=lambda n: ((n in reduced) == widen, factors[n]))
        factors[chosen] *= 2
        nbytes *= 2
    return tuple(factors)


LARGER_BYTES = (32 << 20, 64 << 20, 128 << 20)
"""Decoded bytes of larger leaves, at most."""
LEAST_LEAVES = 2
"""Leaves for each thread that reads, at least: with fewer some would wait for the last."""
_GAIN = 1.25
"""Ratio of bytes moved for an element that each larger size must reach at least."""
_LOOKED_AT = 8
"""Leaves of which the keys are looked at."""


def larger_leaves(
    request: Request,
    terms: Terms,
    cut: Callable[[int], list[Layout]],
    folded: Callable[[Layout], Sequence[Folding]],
    usual_bytes: int,
) -> Layout | None:
    """Return the layout whose leaves are larger than usual; None if they do not pay.

    Their decoded bytes are at most those of all accumulators: staging takes no more than these.

    Parameters
    ----------
    cut
        Cuts leaves of so many bytes at most: see `layouts_of`.
    folded
        Says how elements of leaves are folded, for each question that they are folded for.
    usual_bytes
        Decoded bytes of usual leaves, at most.
    """
    if not applies(PlanRule.LARGER_LEAVES) or request.keeping or not slow_by_key(terms.kinds):
        return None
    usual = cut(usual_bytes)[0]
    if usual.coarsened or not usual.elements:
        return None
    best, (moved, accumulated) = usual, _bytes_moved(request.sources, folded(usual))
    if accumulated <= leaf_bytes(request.sources, usual):  # as of all that has few outputs
        return None
    for most_bytes in LARGER_BYTES:
        larger = cut(most_bytes)[0]
        nbytes = leaf_bytes(request.sources, larger)
        if (
            leaf_bytes(request.sources, best) < nbytes <= min(most_bytes, accumulated)
            and larger.leaves >= LEAST_LEAVES * terms.readers * terms.workers
        ):
            fewer, _ = _bytes_moved(request.sources, folded(larger))
            if fewer * _GAIN <= moved:
                best, moved = larger, fewer
    return None if best is usual else best


def _bytes_moved(sources: Sequence[Source], questions: Sequence[Folding]) -> tuple[float, int]:
    """Return the bytes that are moved for each element, and those of all accumulators.

    An element of each input is read, and accumulators are read and written.
    """
    moved, accumulated = float(sum(source.dtype.itemsize for source in sources)), 0
    for one in questions:
        each, whole = _accumulators(one)
        moved += 2 * each
        accumulated += whole
    return moved, accumulated


def _accumulators(question: Folding) -> tuple[float, int]:
    """Return the bytes of accumulators that a leaf touches for an element, and those of a tile."""
    if question.preaggregation is not None:
        nbytes, rows = question.folded.nbytes, question.preaggregation.rows
        return nbytes / max(1, rows.elements_of_leaf), nbytes * rows.of_tile
    nbytes, layout, keys = question.accumulator.nbytes, question.layout, question.keys
    whole = nbytes * question.groups * layout.most_outputs
    if keys is not None and not isinstance(keys, Keys):
        return 0.0, whole  # whatever leaves are: any element may be in any group
    return nbytes * _touched(layout, keys), whole


def _touched(layout: Layout, keys: Keys | None) -> float:
    """Return how many accumulators of an output leaves touch for each of its elements, about."""
    touched = elements = 0
    for part in range(min(layout.parts, _LOOKED_AT)):
        reach = layout.reach((0, 1), (part, part + 1))
        if keys is None:
            touched += 1
        else:
            place = tuple(reach[axis] for axis in keys.axes)
            touched += int(np.count_nonzero(keys.counts(place)))
        elements += math.prod(reach[n].stop - reach[n].start for n in layout.reduced)
    return touched / max(1, elements)


def secondary_layout(request: Request, first: Layout) -> Layout:
    """Return the layout of a question whose leaves are those of another.

    If the other alone has windows, leaves are cut as it has them all the same.
    """
    axes = (
        replace(cut, order=own.order)
        if own.window == cut.window
        else replace(own, cells=cut.cells, pieces_of=cut)
        for cut, own in zip(first.axes, request.chosen, strict=True)
    )
    return Layout(tuple(axes), request.reduced)

"""Several questions that one read answers: which is planned first, and what the others take."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from chunkfold.errors import PlanError
from chunkfold.kernels import Accumulator
from chunkfold.kernels.fold.shapes import MOST_GROUPS
from chunkfold.planning.combine_tree import Tree
from chunkfold.planning.keeping import keepable, saves_reads
from chunkfold.planning.layout import Layout
from chunkfold.planning.memory import projected
from chunkfold.planning.request import Request
from chunkfold.planning.ways_of_rows import way_of_rows
from chunkfold.planning.workers import Terms

OPEN_BYTES = 64 << 20
"""Of accumulators that a block keeps on its device for questions beside the first, but for one tile
of each: those used last."""


def first_of(
    request: Request, terms: Terms, layouts: Callable[[Request], Iterator[Layout]]
) -> Request:
    """Return questions with the one first whose tiles, one after another, leaves are read for.

    It is the one whose results leave as they come, or one that has windows, for leaves end where
    they do; else one that keeps elements to choose some, for blocks have whole tiles of it alone.
    Else the one that has most accumulators: of others a block has those of all tiles that it meets.
    """
    if not request.beside:
        return request

    def weight(one: Request) -> tuple[bool, bool, bool, int]:
        keeping = replace(one, keeping=True)
        keeps = saves_reads(one, terms) and keepable(keeping, next(layouts(one)), terms)
        size = accumulator_of(one, terms).nbytes * one.groups * one.outputs
        return one.streams, any(_windows(one)), keeps, size

    alone = [replace(one, beside=()) for one in request.together]
    first = max(alone, key=weight)
    others = tuple(one for one in alone if one is not first)
    return replace(first, beside=others, passed=request.passed)


def accumulator_of(request: Request, terms: Terms) -> Accumulator:
    """Return what is folded, in the form that suits the number of outputs."""
    bound = request.bound(fp64=terms.fp64)
    return bound.accumulator.for_outputs(request.groups * request.outputs)


def refuse_other_windows(requests: Sequence[Request]) -> None:
    """See that leaves which end where windows do suit all questions.

    Raises
    ------
    PlanError
        If two have different windows, or windows leave elements out that others have.
    """
    windowed = [one for one in requests if any(_windows(one))]
    for one in windowed[1:]:
        if _windows(one) != _windows(windowed[0]):
            raise PlanError(
                f"{one.question}: its windows are {_told(one)}, but those of "
                f"{windowed[0].question} are {_told(windowed[0])}: leaves end where windows do, so "
                "give all the same, or ask in several reads"
            )
    for one, other in itertools.product(windowed, requests):
        if [axis.length for axis in one.chosen] != [axis.length for axis in other.chosen]:
            raise PlanError(
                f"{one.question}: its last windows are trimmed, but {other.question} has their "
                "elements: give boundary='pad', or ask it in a read of its own"
            )


def _windows(request: Request) -> tuple[int, ...]:
    return tuple(axis.window for axis in request.chosen)


def _told(request: Request) -> str:
    return ", ".join(f"{size:,} along {n}" for n, size in enumerate(_windows(request)) if size)


def layout_beside(request: Request, first: Layout) -> Layout:
    """Return the layout of a question whose leaves are those of another.

    Where the other alone has windows, they are cut as it has them all the same.
    """
    axes = (
        replace(cut, order=own.order)
        if own.window == cut.window
        else replace(own, cells=cut.cells, pieces_of=cut)
        for cut, own in zip(first.axes, request.chosen, strict=True)
    )
    return Layout(tuple(axes), request.reduced)


def bytes_beside(
    request: Request,
    first: Layout,
    terms: Terms,
    leaf_bytes: int,
    threads: int,
    readers: int,
    tree: Tree,
    roots: int,
    *,
    by_rows: bool,
) -> int:
    """Return what a worker takes at most for accumulators of the questions beside the first.

    A block may meet all tiles of theirs, and so may each of so many `roots` of the first one's.
    Where bad chunks are left out a block has what was there before each of its tiles, too.
    """
    total = outputs = 0
    held = threads * (1 + request.options.skips) + -(-roots // terms.workers)
    for one in request.beside:
        layout, accumulator = layout_beside(one, first), accumulator_of(one, terms)
        everything = one.groups * layout.outputs * accumulator.nbytes
        total += held * everything
        if one.roll_up is not None:
            total += threads * one.roll_up.nbytes
            continue
        keys = None if one.grouping is None else one.grouping.keys
        rows = way_of_rows(accumulator, layout, one.held, len(one.sources), keys, terms.kinds)
        own = projected(
            layout,
            accumulator,
            one.sources,
            leaf_bytes,
            threads,
            readers,
            tree,
            terms.workers,
            0,
            keys,
            one.held,
            rows if by_rows else None,
        )
        total += own.accumulators
        if layout.outputs > 1 or not accumulator.tables:  # else one tile's splits are counted
            outputs += everything
    return total + threads * min(OPEN_BYTES, MOST_GROUPS * outputs)

"""Several questions that one read answers: which is planned first, and what the others take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from chunkfold.errors import PlanError
from chunkfold.kernels import Accumulator
from chunkfold.kernels.fold.shapes import MOST_GROUPS
from chunkfold.planning.combine_tree import Tree
from chunkfold.planning.keeping import keepable, saves_reads
from chunkfold.planning.layout import Layout
from chunkfold.planning.memory import projected
from chunkfold.planning.request import Request
from chunkfold.planning.workers import Terms
from chunkfold.units import size_text

OPEN_BYTES = 64 << 20
"""Of accumulators that a block keeps on its device for questions beside the first, but for one tile
of each: those used last."""


def first_of(
    request: Request, terms: Terms, layouts: Callable[[Request], Iterator[Layout]]
) -> Request:
    """Return questions with the one first whose tiles, one after another, leaves are read for.

    It is one that keeps elements to choose some, for blocks have whole tiles of it alone. Else the
    one that has most accumulators: of others a block has those of all tiles that it meets.
    """
    if not request.beside:
        return request

    def weight(one: Request) -> tuple[bool, int]:
        keeping = replace(one, keeping=True)
        keeps = saves_reads(one, terms) and keepable(keeping, next(layouts(one)), terms)
        return keeps, accumulator_of(one, terms).nbytes * one.groups * one.outputs

    alone = [replace(one, beside=()) for one in request.together]
    first = max(alone, key=weight)
    others = tuple(one for one in alone if one is not first)
    return replace(first, beside=others, passed=request.passed)


def accumulator_of(request: Request, terms: Terms) -> Accumulator:
    """Return what is folded, in the form that suits the number of outputs."""
    bound = request.bound(fp64=terms.fp64)
    return bound.accumulator.for_outputs(request.groups * request.outputs)


def layout_beside(request: Request, first: Layout) -> Layout:
    """Return the layout of a question whose leaves are those of another."""
    axes = zip(first.axes, request.chosen, strict=True)
    return Layout(tuple(replace(cut, order=own.order) for cut, own in axes), request.reduced)


def bytes_beside(
    request: Request,
    first: Layout,
    terms: Terms,
    leaf_bytes: int,
    threads: int,
    readers: int,
    tree: Tree,
    roots: int,
) -> int:
    """Return what a worker takes at most for accumulators of the questions beside the first.

    A block may meet all tiles of theirs, and so may each of so many `roots` of the first one's.
    """
    total = outputs = 0
    for one in request.beside:
        layout, accumulator = layout_beside(one, first), accumulator_of(one, terms)
        keys = None if one.grouping is None else one.grouping.keys
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
        )
        everything = one.groups * layout.outputs * accumulator.nbytes
        total += own.accumulators + (threads + roots) * everything
        outputs += everything
    return total + threads * min(OPEN_BYTES, MOST_GROUPS * outputs)


def refuse_large_leaves(request: Request, leaf_bytes: int, terms: Terms) -> None:
    """See that a device's buffer holds a leaf, where several questions are asked of it.

    Raises
    ------
    PlanError
        If it does not.
    """
    room = terms.buffer_bytes
    if request.beside and room is not None and leaf_bytes > room:
        raise PlanError(
            f"{request.name}: several questions are asked of whole leaves, and a leaf has "
            f"{size_text(leaf_bytes)}, but a buffer of the device at most {size_text(room)}: ask "
            "them one by one"
        )

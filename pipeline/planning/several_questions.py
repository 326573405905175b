"""Several questions that one read answers: which is planned first, and what the others take."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from chunkfold.errors import PlanError
from chunkfold.planning.in_memory import keepable
from chunkfold.planning.layout import Layout
from chunkfold.planning.request import Request
from chunkfold.planning.workers import Terms


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
        keeps = one.reads_again(fp64=terms.fp64) and keepable(keeping, next(layouts(one)), terms)
        size = one.accumulator(terms).nbytes * one.groups * one.outputs
        return one.streams, any(_windows(one)), keeps, size

    alone = [replace(one, beside=()) for one in request.together]
    first = max(alone, key=weight)
    others = tuple(one for one in alone if one is not first)
    return replace(first, beside=others, passed=request.passed)


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

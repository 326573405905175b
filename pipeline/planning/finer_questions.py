"""Questions that fold no element: they are made of what another keeps for each of its outputs.

Where a map of means over time is asked for, the means of its zones need not be folded again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from chunkfold.kernels import Accumulator
from chunkfold.planning.broadcast_inputs import BroadcastInput
from chunkfold.planning.group_keys import Keys
from chunkfold.planning.grouping import AnyKeys
from chunkfold.planning.labelled_rows import LEAST_ELEMENTS, MOST_BYTES, slow_by_key
from chunkfold.planning.request import Request
from chunkfold.planning.roll_up import RollUp, roll_up
from chunkfold.planning.together import accumulator_of
from chunkfold.planning.workers import Terms


def with_roll_ups(request: Request, terms: Terms) -> Request:
    """Return questions of which those are made of others that can be, and gain by it.

    The first one is folded. A question may be made of one that is made of another itself.
    """
    requests, made = request.together, dict[int, RollUp | None]()
    sizes = [one.groups * one.outputs for one in requests]
    finest_first = sorted(range(len(requests)), key=lambda n: (n > 0, -sizes[n]))
    for place, own in enumerate(finest_first[1:], 1):
        finer = sorted(finest_first[:place], key=sizes.__getitem__)
        each = (_made_of(requests, own, other, terms) for other in finer)
        made[own] = next((one for one in each if one is not None), None)
    first, *others = (_with(one, made.get(n)) for n, one in enumerate(requests))
    return replace(first, beside=tuple(others)) if others else first


def _with(request: Request, roll_up: RollUp | None) -> Request:
    return request if request.roll_up is roll_up else replace(request, roll_up=roll_up)


def _made_of(requests: Sequence[Request], own: int, other: int, terms: Terms) -> RollUp | None:
    """Return how a question is made of another; None if it is not."""
    one, finer = requests[own], requests[other]
    accumulator = accumulator_of(one, terms)
    if any(statistic.rounds for statistic in one.bound(fp64=terms.fp64).statistics):
        return None  # the order of elements is then in its last bits
    if not _rolls(one, finer) or not _gains(finer, accumulator, terms):
        return None
    apart = tuple(n for n in one.reduced if n not in finer.reduced)
    combined, counted = finer.groups * finer.outputs, finer.grouping is None
    return roll_up(
        accumulator, accumulator_of(finer, terms), other, apart, combined, counted=counted
    )


def _rolls(one: Request, finer: Request) -> bool:
    """Whether every output of a question is of whole outputs of another."""
    keys, others = (None if r.grouping is None else r.grouping.keys for r in (one, finer))
    whole = {*finer.reduced} <= {*one.reduced}
    along = keys is None or (isinstance(keys, Keys) and not {*keys.axes} & {*finer.reduced})
    plain = not any(
        r.streams or r.keeping or r.reads_again or any(axis.window for axis in r.chosen)
        for r in (one, finer)
    )
    return whole and along and plain and _have_all(others) and _alike(one.held, finer.held)


def _have_all(keys: AnyKeys | None) -> bool:
    """Whether every element is in a group."""
    if keys is None:
        return True
    return isinstance(keys, Keys) and all(bool((one.codes >= 0).all()) for one in keys.factors)


def _alike(held: Sequence[BroadcastInput], others: Sequence[BroadcastInput]) -> bool:
    return len(held) == len(others) and all(
        one.axes == other.axes
        and one.values.dtype == other.values.dtype
        and one.values.shape == other.values.shape
        and one.values.tobytes() == other.values.tobytes()
        for one, other in zip(held, others, strict=True)
    )


def _gains(finer: Request, accumulator: Accumulator, terms: Terms) -> bool:
    """Whether workers have far fewer accumulators to combine than elements to fold.

    A GPU folds elements faster than its host brings accumulators.
    """
    elements = math.prod(finer.chosen[n].length for n in finer.reduced)
    accumulators = finer.groups * finer.outputs
    return (
        slow_by_key(terms.kinds)
        and elements >= LEAST_ELEMENTS * finer.groups * terms.workers
        and accumulators * accumulator.nbytes <= MOST_BYTES
    )

"""Questions that need no pass over the data: another keeps all they need for finer outputs.

Where a map of means over time is asked for, means of its zones are made of the map's sums.
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
    """Return questions that say of which other each is made, where it can be and is less work.

    Elements are folded for the request itself in any case. A question may be made of one that is
    made of another in its turn.
    """
    requests, made = request.together, dict[int, RollUp | None]()
    sizes = [one.groups * one.outputs for one in requests]
    # The request itself, and then whoever has most outputs: a question is made of one before it.
    order = sorted(range(len(requests)), key=lambda n: (n > 0, -sizes[n]))
    for place, own in enumerate(order[1:], 1):
        smallest_first = sorted(order[:place], key=sizes.__getitem__)
        each = (_made_of(requests, own, finer, terms) for finer in smallest_first)
        made[own] = next((one for one in each if one is not None), None)
    first, *others = (_with(one, made.get(n)) for n, one in enumerate(requests))
    return replace(first, beside=tuple(others)) if others else first


def _with(request: Request, roll_up: RollUp | None) -> Request:
    return request if request.roll_up is roll_up else replace(request, roll_up=roll_up)


def _made_of(
    requests: Sequence[Request], own_number: int, finer_number: int, terms: Terms
) -> RollUp | None:
    """Return how a question is made of another; None if it is not."""
    own, finer = requests[own_number], requests[finer_number]
    accumulator = accumulator_of(own, terms)
    if not _is_less_work(finer, accumulator, terms) or not _is_of_whole_outputs(own, finer):
        return None
    if any(statistic.rounds for statistic in own.bound(fp64=terms.fp64).statistics):
        return None  # the order of elements is then in its last bits
    return roll_up(
        accumulator,
        accumulator_of(finer, terms),
        finer_number,
        extra_axes=tuple(n for n in own.reduced if n not in finer.reduced),
        finer_outputs=finer.groups * finer.outputs,
        has_count=finer.grouping is None,
    )


def _is_of_whole_outputs(own: Request, finer: Request) -> bool:
    """Whether every output of a question is of whole outputs of another."""
    keys, finer_keys = (None if r.grouping is None else r.grouping.keys for r in (own, finer))
    if not {*finer.reduced} <= {*own.reduced}:
        return False
    if keys is not None and (not isinstance(keys, Keys) or {*keys.axes} & {*finer.reduced}):
        return False
    if any(
        r.streams or r.keeping or r.reads_again or any(axis.window for axis in r.chosen)
        for r in (own, finer)
    ):
        return False
    return _every_element_has_a_key(finer_keys) and _same_inputs(own.held, finer.held)


def _every_element_has_a_key(keys: AnyKeys | None) -> bool:
    if keys is None:
        return True
    return isinstance(keys, Keys) and all(bool((one.codes >= 0).all()) for one in keys.factors)


def _same_inputs(held: Sequence[BroadcastInput], others: Sequence[BroadcastInput]) -> bool:
    return len(held) == len(others) and all(
        one.axes == other.axes
        and one.values.dtype == other.values.dtype
        and one.values.shape == other.values.shape
        and one.values.tobytes() == other.values.tobytes()
        for one, other in zip(held, others, strict=True)
    )


def _is_less_work(finer: Request, accumulator: Accumulator, terms: Terms) -> bool:
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

"""Plan another read of the same data, for what the reads before it have found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from chunkfold.kernels import Monoid
from chunkfold.kernels.monoid.finish_context import NextPass
from chunkfold.planning.broadcast_inputs import BroadcastInput
from chunkfold.planning.group_keys import Keys
from chunkfold.planning.leaf_extremes import LeafExtremes, skipped_leaves
from chunkfold.planning.plan import Plan
from chunkfold.planning.planner import make_plan
from chunkfold.planning.request import Request

Pending = Sequence[tuple[Monoid, NextPass]]
"""Reductions that were folded, and what each asks of another read."""


def next_plan(waiting: Sequence[tuple[Plan, Pending]], extremes: LeafExtremes | None) -> Plan:
    """Return the plan of the next read, for the same workers: nothing is opened or listed anew.

    It is for all questions that need one: each with its plan, and what its results wait for. Leaves
    are passed over whose extremes none of them needs.

    Raises
    ------
    PlanError
        If it takes more memory than they have.
    """
    first, *others = (_asked_next(plan, pending) for plan, pending in waiting)
    plan = waiting[0][0]
    each = ((one.layout, [more for _, more in pending]) for one, pending in waiting)
    again = make_plan(
        replace(first, secondary=tuple(others)),
        plan.scan.listings,
        plan.terms,
        skipped=skipped_leaves(each, extremes),
        ledger=plan.ledger,
    )
    return replace(again, device=plan.device)


def _asked_next(plan: Plan, pending: Pending) -> Request:
    """Return what is asked of the next read for a question."""
    request, ops, slots = plan.request, list[Monoid](), list[np.ndarray]()
    total = sum(len(more.slots) for _, more in pending)
    for monoid, more in pending:
        ops.append(more.monoid(len(slots), total).alike(monoid))
        slots.extend(more.slots)
    weights = request.broadcast[: request.options.weights is not None]
    masks = request.broadcast[len(request.broadcast) - (request.options.mask is not None) :]
    inputs = (_laid_out(one, plan) for one in slots)
    asked = replace(request.options, op=tuple(ops))
    return replace(request, options=asked, broadcast=(*weights, *inputs, *masks), secondary=())


def _laid_out(slot: np.ndarray, plan: Plan) -> BroadcastInput:
    """Lay an element for each output along the axes that outputs, and groups, are along."""
    if slot.size == 1:
        return BroadcastInput("what was found so far", (), slot.reshape(()))
    layout = plan.layout
    shape, kept = layout.outputs_shape, layout.kept
    keys = plan.request.keys
    if keys is not None:
        assert isinstance(keys, Keys)  # of others there is one read
        return _by_labels(slot.reshape(plan.groups, *shape), kept, keys)
    each = slot.reshape(shape)
    for n in layout.coarsened:  # elements of a window have what it has
        axis, at = layout.axes[n], kept.index(n)
        each = np.repeat(each, axis.window, axis=at).take(range(axis.length), axis=at)
    return BroadcastInput("what was found so far", kept, each)


def _by_labels(slot: np.ndarray, kept: tuple[int, ...], keys: Keys) -> BroadcastInput:
    """Give every place that has a label what its group has."""
    each = slot[np.maximum(keys.whole(), 0)]
    axes = [*keys.axes, *kept]
    order = sorted(range(len(axes)), key=axes.__getitem__)
    found = np.ascontiguousarray(each.transpose(order))
    return BroadcastInput("what was found so far", tuple(axes[n] for n in order), found)

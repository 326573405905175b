"""Questions that need no pass over the data: another keeps all they need for finer outputs.

If a map of means over time is asked for, means of its zones are made of the map's sums. Gray et
al., "Data Cube" (1997), call that rolling up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from chunkfold.kernels import Accumulator, Partial
from chunkfold.kernels.accumulator.accumulator import Slot
from chunkfold.kernels.accumulator.component import ELEMENTS, BoundField, Component
from chunkfold.planning.broadcast_inputs import BroadcastInput
from chunkfold.planning.group_keys import Keys
from chunkfold.planning.preaggregation import LEAST_GROUPED, MOST_BYTES
from chunkfold.planning.request import Request
from chunkfold.planning.rules import PlanRule, applies
from chunkfold.planning.workers import Terms, slow_by_key

_COUNT = Component("", (ELEMENTS,))
_COPIES = 6
"""Copies of the finer question's accumulators, while they are combined."""


@dataclass(frozen=True)
class RollUp:
    """The way to make a question's accumulators of those of another, the finer one."""

    finer: int
    """Number of the finer question, among those of a plan."""
    extra_axes: tuple[int, ...]
    """Axes that this question reduces, and the finer one keeps."""
    finer_outputs: int
    """Number of the finer one's accumulators, of all groups."""
    form: Accumulator
    """This question's accumulator, whose exact sums are kept as those of the finer one are."""
    arrays: Mapping[str, str | None]
    """Array of the finer one for each array of `form`; None: how many elements there are."""
    sums: Mapping[str, str]
    """The same of exact sums, by the names that their arrays begin with."""
    counts: str | None
    """Array of the finer one that counts elements; None if its partials have a count."""

    @property
    def nbytes(self) -> int:
        """Bytes of a block's accumulators of the finer one, and of copies, while combined."""
        return _COPIES * self.finer_outputs * self.form.nbytes

    def of(self, partial: Partial) -> Partial:
        """Return what a partial of the finer question has of this one: it has the same outputs."""
        known = partial.count if self.counts is None else partial.arrays[self.counts]
        counts = np.array(np.broadcast_to(known, partial.outputs), np.int64)
        arrays = {
            own: counts if name is None else partial.arrays[name]
            for own, name in self.arrays.items()
        }
        wide = {own: partial.wide[name] for own, name in self.sums.items() if name in partial.wide}
        return Partial(arrays, wide, counts)


def roll_up(
    accumulator: Accumulator,
    of_finer: Accumulator,
    finer: int,
    *,
    extra_axes: tuple[int, ...],
    finer_outputs: int,
    has_count: bool,
) -> RollUp | None:
    """Return how an accumulator is made of a finer question's; None if it is not.

    Each of its components must be one of that, and read nothing of where elements are.

    Parameters
    ----------
    finer, extra_axes, finer_outputs
        Fields of a `RollUp`.
    has_count
        Whether the finer one's partials know of how many elements they are.
    """
    form = accumulator if of_finer.in_limbs else accumulator.for_outputs(2)
    inputs = form.stored, form.value, form.swapped, form.packings
    if inputs != (of_finer.stored, of_finer.value, of_finer.swapped, of_finer.packings):
        return None
    if form.uses_index or (of_finer.in_limbs and not accumulator.in_limbs):
        return None
    numbers = {_comparable(part): n for n, part in reversed([*enumerate(of_finer.components)])}
    count = _comparable(_COUNT)
    elements = numbers.get(count)
    counts = None if has_count or elements is None else Slot(elements, ELEMENTS).name
    if not has_count and counts is None:
        return None
    sources = [numbers.get(_comparable(part)) for part in form.components]
    arrays: dict[str, str | None] = {}
    for slot in form.slots:
        source, part = sources[slot.component], form.components[slot.component]
        if source is not None:
            field = of_finer.components[source].fields[part.fields.index(slot.field)]
            arrays[slot.name] = replace(slot, component=source, field=field).name
        elif _comparable(part) == count:
            arrays[slot.name] = counts
        else:
            return None
    sums = {}
    for n, source in enumerate(sources):
        if source is not None and form.components[n].limbs:
            sums[_sum_name(form, n)] = _sum_name(of_finer, source)
    return RollUp(finer, extra_axes, finer_outputs, form, arrays, sums, counts)


def _sum_name(accumulator: Accumulator, number: int) -> str:
    """Return what the arrays of a component's sum begin with."""
    return Slot(number, accumulator.components[number].fields[0]).name


def _comparable(part: Component) -> object:
    """Return what is equal of components that fold the same, however their sums are kept.

    Names of fields count only where trees read fields by them.
    """
    by_name = part.state is not None or not all(isinstance(f.op, str) for f in part.fields)
    fields = tuple(_with_limbs(field, by_name=by_name) for field in part.fields)
    return replace(part, fields=fields).identity


def _with_limbs(field: BoundField, *, by_name: bool) -> BoundField:
    limbed = field.with_limbs()
    return limbed if by_name else replace(limbed, name="")


def roll_ups(requests: Sequence[Request], terms: Terms) -> list[RollUp | None]:
    """Return for each question of which other it is made, where it can be and is less work.

    Elements are folded for the first one in any case. A question may be made of one that is made of
    another in its turn.
    """
    made = dict[int, RollUp | None]()
    sizes = [one.groups * one.outputs for one in requests]
    # The first one, and then whoever has most outputs: a question is made of one before it.
    order = sorted(range(len(requests)), key=lambda n: (n > 0, -sizes[n]))
    for place, own in enumerate(order[1:], 1):
        smallest_first = sorted(order[:place], key=sizes.__getitem__)
        each = (_made_of(requests, own, finer, terms) for finer in smallest_first)
        found = each if applies(PlanRule.ROLL_UP) else ()
        made[own] = next((one for one in found if one is not None), None)
    return [made.get(n) for n in range(len(requests))]


def _made_of(
    requests: Sequence[Request], own_number: int, finer_number: int, terms: Terms
) -> RollUp | None:
    """Return how a question is made of another; None if it is not."""
    own, finer = requests[own_number], requests[finer_number]
    accumulator = own.accumulator(terms)
    if not _is_less_work(finer, accumulator, terms) or not _is_of_whole_outputs(own, finer):
        return None
    if any(statistic.rounds for statistic in own.bound(fp64=terms.fp64).statistics):
        return None  # the order of elements is then in its last bits
    return roll_up(
        accumulator,
        finer.accumulator(terms),
        finer_number,
        extra_axes=tuple(n for n in own.reduced if n not in finer.reduced),
        finer_outputs=finer.groups * finer.outputs,
        has_count=finer.keys is None,
    )


def _is_of_whole_outputs(own: Request, finer: Request) -> bool:
    """Tell if every output of a question is of whole outputs of another."""
    keys = own.keys
    if not {*finer.reduced} <= {*own.reduced}:
        return False
    if keys is not None and (not isinstance(keys, Keys) or {*keys.axes} & {*finer.reduced}):
        return False
    if any(
        r.streamed is not None
        or r.keeping
        or r.reads_again()
        or any(axis.window for axis in r.chosen)
        for r in (own, finer)
    ):
        return False
    return _every_element_has_a_key(finer) and _same_inputs(own.broadcast, finer.broadcast)


def _every_element_has_a_key(request: Request) -> bool:
    keys = request.keys
    return keys is None or (
        isinstance(keys, Keys) and all(bool((one.codes >= 0).all()) for one in keys.factors)
    )


def _same_inputs(some: Sequence[BroadcastInput], others: Sequence[BroadcastInput]) -> bool:
    return len(some) == len(others) and all(
        one.axes == other.axes
        and one.values.dtype == other.values.dtype
        and one.values.shape == other.values.shape
        and one.values.tobytes() == other.values.tobytes()
        for one, other in zip(some, others, strict=True)
    )


def _is_less_work(finer: Request, accumulator: Accumulator, terms: Terms) -> bool:
    """Tell if workers have far fewer accumulators to combine than elements to fold.

    A GPU folds elements faster than its host brings accumulators.
    """
    elements = math.prod(finer.chosen[n].length for n in finer.reduced)
    accumulators = finer.groups * finer.outputs
    return (
        slow_by_key(terms.kinds)
        and elements >= LEAST_GROUPED * finer.groups * terms.workers
        and accumulators * accumulator.nbytes <= MOST_BYTES
    )

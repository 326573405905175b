"""How a question's accumulators are made of those of another question, which keeps more axes.

Sums of a map are made of those of its points. Gray et al., "Data Cube" (1997), call that rolling
up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from chunkfold.kernels import Accumulator, Partial
from chunkfold.kernels.accumulator.accumulator import Slot
from chunkfold.kernels.accumulator.component import ELEMENTS, BoundField, Component

_COUNT = Component("", (ELEMENTS,))
_COPIES = 6
"""Of the finer question's accumulators, while they are combined."""


@dataclass(frozen=True)
class RollUp:
    """How a question's accumulators are made of those of another, the finer one."""

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

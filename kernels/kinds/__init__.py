"""The kinds that components are of: what each one's functions are written by."""

from __future__ import annotations

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.component import Component
from chunkfold.kernels.accumulator.traits import traits_of
from chunkfold.kernels.kinds.counters import Counters
from chunkfold.kernels.kinds.exact_sum import ExactSum, LimbSum
from chunkfold.kernels.kinds.kind import Kind
from chunkfold.kernels.kinds.plain import Plain
from chunkfold.kernels.kinds.position import Position
from chunkfold.kernels.kinds.stateful import Stateful


def kinds_of(accumulator: Accumulator) -> list[Kind]:
    """Return the components of an accumulator, each as its kind."""
    return [
        _kind_of(part)(number, accumulator) for number, part in enumerate(accumulator.components)
    ]


def _kind_of(part: Component) -> type[Kind]:
    # A new kind also touches component.py, traits.py and accumulator.py of accumulator/, and
    # components.py, evaluation.py and reference.py of binding/ (docs/adding.md).
    if part.limbs:
        return ExactSum if part.limbs.terms else LimbSum
    if part.table:
        return Counters
    if traits_of(part).is_position:
        return Position
    return Stateful if part.state else Plain

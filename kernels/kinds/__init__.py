"""Kinds of components: each writes the OpenCL C of its component."""

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
    each = enumerate(accumulator.components)
    return [_kind_of(component)(number, accumulator) for number, component in each]


def _kind_of(component: Component) -> type[Kind]:
    # docs/adding.md, "A kind of component or state", lists the modules that a new kind changes.
    if component.limbs:
        return ExactSum if component.limbs.terms else LimbSum
    if component.table:
        return Counters
    if traits_of(component).is_position:
        return Position
    return Stateful if component.state else Plain

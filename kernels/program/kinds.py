"""The kinds that components are of: what each one's functions are written by."""

from __future__ import annotations

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.component import Component
from chunkfold.kernels.accumulator.indices import is_position
from chunkfold.kernels.program.counters import Counters
from chunkfold.kernels.program.exact_sum_code import ExactSum, IntegerSum
from chunkfold.kernels.program.kind import Kind
from chunkfold.kernels.program.plain import Plain
from chunkfold.kernels.program.position import Position
from chunkfold.kernels.program.streams import StateStream


def kinds_of(accumulator: Accumulator) -> list[Kind]:
    """Return the components of an accumulator, each as its kind."""
    return [
        _kind_of(part)(number, accumulator) for number, part in enumerate(accumulator.components)
    ]


def _kind_of(part: Component) -> type[Kind]:
    if part.limbs:
        return ExactSum if part.limbs.terms else IntegerSum
    if part.table:
        return Counters
    if is_position(part):
        return Position
    return StateStream if part.state else Plain

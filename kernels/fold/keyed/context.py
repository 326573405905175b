"""Describe what the parts of a fold by key share: device, queue, numbers of keys and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyopencl as cl

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.partial import Partial
from chunkfold.kernels.program.device_context import DeviceContext


@dataclass(frozen=True)
class KeyedContext:
    """The accumulators of a fold by key: (key, output) stands at key * outputs + output."""

    opened: DeviceContext
    queue: cl.CommandQueue
    """What everything is enqueued on."""
    accumulator: Accumulator
    keys: int
    outputs: int
    """Outputs of each key."""

    @property
    def entries(self) -> int:
        """Number of accumulators."""
        return self.keys * self.outputs


def numbered_as(partial: Partial, numbers: Sequence[int]) -> Partial:
    """Give the slots of an accumulator of some components the names that they have in the whole."""

    def name(own: str) -> str:
        number, _, rest = own[1:].partition("_")
        return f"c{numbers[int(number)]}_{rest}"

    arrays = {name(own): array for own, array in partial.arrays.items()}
    wide = {name(own): rows for own, rows in partial.wide.items()}
    return replace(partial, arrays=arrays, wide=wide)

"""What all parts of a fold by key share: a device, a queue, the numbers of keys and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyopencl as cl

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.partial import Partial
from chunkfold.kernels.geometry import Box
from chunkfold.kernels.program.device_context import DeviceContext, device_errors


@dataclass
class Groups:
    """The accumulators of a fold by key: (key, output) stands at key * outputs + output."""

    opened: DeviceContext
    queue: cl.CommandQueue
    """What everything is enqueued on."""
    accumulator: Accumulator
    keys: int
    outputs: int
    """Outputs of each key."""
    _geometry: dict[bytes, cl.Buffer] = field(default_factory=dict)

    @property
    def entries(self) -> int:
        """How many accumulators there are."""
        return self.keys * self.outputs

    def geometry(self, box: Box) -> cl.Buffer:
        """Return a box's dims on the device."""
        words = box.words()
        key = words.tobytes()
        if key not in self._geometry:
            flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
            with device_errors(self.opened.device, "uploading a box's geometry"):
                self._geometry[key] = cl.Buffer(self.opened.context, flags, hostbuf=words)
        return self._geometry[key]


def renamed(partial: Partial, numbers: Sequence[int]) -> Partial:
    """Give the slots of an accumulator of some components the names that they have in the whole."""

    def name(own: str) -> str:
        number, _, rest = own[1:].partition("_")
        return f"c{numbers[int(number)]}_{rest}"

    arrays = {name(own): array for own, array in partial.arrays.items()}
    wide = {name(own): rows for own, rows in partial.wide.items()}
    return replace(partial, arrays=arrays, wide=wide)

"""Buffers whose results are seen where kernels left them, and that are used again after that.

On devices that share the host's memory. What is written there first takes twice as long.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyopencl as cl

from chunkfold.kernels.fold.readback import idle
from chunkfold.kernels.program.device_context import DeviceContext, device_errors

_SPARE = 4
"""Times what is asked for that a buffer may have."""


@dataclass
class SpareBuffer:
    """A buffer that nobody has."""

    buffer: cl.Buffer
    until: cl.Event
    """The command that showed what it held."""

    def fits(self, nbytes: int) -> bool:
        """Return whether it has room for so many bytes now."""
        complete = cl.command_execution_status.COMPLETE
        return (
            nbytes <= self.buffer.size <= _SPARE * nbytes
            and self.until.command_execution_status <= complete
        )


def lent(opened: DeviceContext, nbytes: int) -> cl.Buffer:
    """Return a buffer of at least so many bytes; it is free again after `shown`.

    Raises
    ------
    pyopencl.Error
        If there is no memory.
    """
    place: SpareBuffer | None = idle(opened.places, nbytes)
    if place:
        return place.buffer
    return cl.Buffer(opened.context, cl.mem_flags.READ_WRITE, nbytes)


def shown(
    opened: DeviceContext, queue: cl.CommandQueue, buffer: cl.Buffer, nbytes: int
) -> tuple[np.ndarray, cl.Event]:
    """Return the first bytes of a lent buffer, uint8, and the event since which they are there.

    As long as any view of them is left nobody else gets the buffer.

    Raises
    ------
    DeviceError
        If the device refuses.
    """
    both = cast("Any", cl.map_flags.READ | cl.map_flags.WRITE)  # as a copy would let its owner do
    with device_errors(opened.device, "reading a partial where it is"):
        mapped, event = cl.enqueue_map_buffer(
            queue, buffer, both, 0, (nbytes,), np.dtype(np.uint8), is_blocking=False
        )
    # Slices of a slice keep the array below it alone; behind a memoryview they keep this one.
    view = np.frombuffer(mapped.data, np.uint8)
    weakref.finalize(view, opened.places.append, SpareBuffer(buffer, event)).atexit = False
    return view, event

"""Read what a device has written into pinned memory, which is used again once nobody has it."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import numpy as np
import pyopencl as cl

from chunkfold.kernels.opened import OpenedDevice, device_errors
from chunkfold.kernels.staging import pinned

_LEAST_BYTES = 64 << 10
"""Of a landing."""
_SPARE = 4
"""Times what is read that a landing may have."""


@dataclass
class Landing:
    """A piece of pinned memory."""

    memory: np.ndarray
    until: cl.Event | None = None
    """The last read into it."""

    def fits(self, nbytes: int) -> bool:
        """Whether so many bytes can be read into it now."""
        if not nbytes <= self.memory.nbytes <= max(_LEAST_BYTES, _SPARE * nbytes):
            return False
        complete = cl.command_execution_status.COMPLETE
        return self.until is None or self.until.command_execution_status <= complete


def landed(
    opened: OpenedDevice, queue: cl.CommandQueue, source: cl.Buffer, nbytes: int
) -> tuple[np.ndarray, cl.Event]:
    """Read the first bytes of a buffer; return where they will be, uint8, and the event.

    Pinned memory is what a link's speed needs, and takes longer to allocate than to fill: a landing
    is the device's again once no view of what is returned is left.

    Raises
    ------
    DeviceError
        If there is no memory, or the device refuses.
    """
    landing = _idle(opened, nbytes)
    if landing is None:
        # On a queue of its own, to wait for nothing that is before it.
        landing = Landing(pinned(opened, opened.queue(), max(nbytes, _LEAST_BYTES)))
    # Slices of a slice keep the array below it alone; behind a memoryview they keep this one.
    view = np.frombuffer(landing.memory.data[:nbytes], np.uint8)
    with device_errors(opened.device, "reading a partial back"):
        # Not into the view: the event keeps what it is given.
        landing.until = cl.enqueue_copy(queue, landing.memory[:nbytes], source, is_blocking=False)
    weakref.finalize(view, opened.landings.append, landing).atexit = False
    return view, landing.until


def _idle(opened: OpenedDevice, nbytes: int) -> Landing | None:
    """Take a landing that nobody has."""
    for _ in range(len(opened.landings)):
        try:
            landing = opened.landings.popleft()
        except IndexError:  # another thread was faster
            return None
        if landing.fits(nbytes):
            return landing
        opened.landings.append(landing)
    return None

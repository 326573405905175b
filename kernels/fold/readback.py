"""Read results back into memory that is used again once nobody has it.

Devices with memory of their own copy to pinned memory, which takes longer to allocate than to fill.
Devices that share the host's memory map the buffers that kernels wrote to: a first write to new
memory takes twice as long.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import pyopencl as cl

from chunkfold.kernels.fold.staging import pinned
from chunkfold.kernels.program.device_context import DeviceContext, device_errors


class _Fits(Protocol):
    def fits(self, nbytes: int) -> bool:
        """Return whether it has room for so many bytes now."""


_Piece = TypeVar("_Piece", bound=_Fits)
_LEAST_BYTES = 64 << 10
"""Of a landing."""
_KEPT_BYTES = 512 << 20
"""Most bytes of idle landings that are kept."""
_SPARE = 4
"""Kept memory may have so many times the bytes that are asked for."""


@dataclass
class Landing:
    """A piece of memory."""

    memory: np.ndarray
    until: cl.Event | None = None
    """The last read into it."""

    def fits(self, nbytes: int) -> bool:
        """Return whether so many bytes can be read into it now."""
        if not nbytes <= self.memory.nbytes <= max(_LEAST_BYTES, _SPARE * nbytes):
            return False
        complete = cl.command_execution_status.COMPLETE
        return self.until is None or self.until.command_execution_status <= complete


def landed(
    opened: DeviceContext, queue: cl.CommandQueue, source: cl.Buffer, nbytes: int
) -> tuple[np.ndarray, cl.Event]:
    """Read the first bytes of a buffer into lent memory; return that, and the event.

    Raises
    ------
    DeviceError
        If there is no memory, or the device refuses.
    """
    landing, view = _lent(opened, nbytes)
    with device_errors(opened.device, "reading a partial back"):
        # Not into the view: the event keeps what it is given.
        landing.until = cl.enqueue_copy(queue, landing.memory[:nbytes], source, is_blocking=False)
    return view, landing.until


def _lent(opened: DeviceContext, nbytes: int) -> tuple[Landing, np.ndarray]:
    landing = idle(opened.landings, nbytes) or Landing(
        # On a queue of its own: nothing is before it.
        pinned(opened, opened.queue(), max(nbytes, _LEAST_BYTES))
    )
    # Slices of a slice keep the array below it alone; behind a memoryview they keep this one.
    view = np.frombuffer(landing.memory.data[:nbytes], np.uint8)
    weakref.finalize(view, _keep, opened.landings, landing).atexit = False
    return landing, view


def _keep(pool: deque[Landing], landing: Landing) -> None:
    """Keep a landing that nobody has any more; let others go, if they are too many."""
    pool.append(landing)
    while sum(one.memory.nbytes for one in pool.copy()) > _KEPT_BYTES:
        with contextlib.suppress(IndexError):  # another thread was faster
            pool.popleft()


def idle(pool: deque[_Piece], nbytes: int) -> _Piece | None:
    """Take a piece that nobody has and that fits, if there is one."""
    for _ in range(len(pool)):
        try:
            piece = pool.popleft()
        except IndexError:  # another thread was faster
            return None
        if piece.fits(nbytes):
            return piece
        pool.append(piece)
    return None


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

"""Staging buffers: host memory that is filled while the device folds another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from chunkfold.kernels.launch import wait
from chunkfold.kernels.opened import OpenedDevice, device_errors
from chunkfold.kernels.pages import page_aligned


class StagingBuffer:
    """One staging buffer of a ring.

    Call in turn: `begin` (waits until the last fold of it is done) gives host memory to fill,
    `commit` hands it to the device, `busy_until` names the fold that reads it.
    On devices that share the host's memory the device reads the staging memory itself.
    """

    def __init__(self, opened: OpenedDevice, queue: cl.CommandQueue, nbytes: int) -> None:
        self.nbytes = nbytes
        self._opened = opened
        self._queue = queue
        self._until: cl.Event | None = None
        self._mapped: cl.MemoryMap | None = None
        flags = cl.mem_flags
        with device_errors(opened.device, f"allocating {nbytes} bytes of staging memory"):
            if opened.device.unified_memory:
                self._memory = page_aligned(nbytes)
                self.buffer = cl.Buffer(
                    opened.context, flags.READ_ONLY | flags.USE_HOST_PTR, hostbuf=self._memory
                )
                self._pinned = None
            else:
                # Pinned memory is what reaches the link's speed; it stays mapped for good.
                self._pinned = cl.Buffer(
                    opened.context, flags.READ_WRITE | flags.ALLOC_HOST_PTR, nbytes
                )
                self._memory, mapped = _mapped(
                    queue, self._pinned, cl.map_flags.READ | cl.map_flags.WRITE, nbytes
                )
                wait(opened.device, mapped, "mapping pinned memory")
                self.buffer = cl.Buffer(opened.context, flags.READ_ONLY, nbytes)

    def begin(self) -> np.ndarray:
        """Wait until the last fold of it has completed; return the memory, uint8, to be filled.

        Raises
        ------
        DeviceError
            If that fold failed, or the deadline passed.
        """
        if self._until is not None:
            wait(self._opened.device, self._until, "the fold of a staging buffer")
            self._until = None
        if self._pinned is not None:
            return self._memory
        with device_errors(self._opened.device, "mapping a staging buffer"):
            view, event = _mapped(
                self._queue, self.buffer, cl.map_flags.WRITE_INVALIDATE_REGION, self.nbytes
            )
        wait(self._opened.device, event, "mapping a staging buffer")
        self._mapped = view.base  # type: ignore[assignment] # pyopencl keeps its map there
        return view

    def commit(self, nbytes: int) -> Sequence[cl.Event]:
        """Hand the first `nbytes` to the device; return the events that a fold must wait for."""
        with device_errors(self._opened.device, "uploading a staging buffer"):
            if self._pinned is None:
                assert self._mapped is not None, "commit follows begin"
                event = self._mapped.release(self._queue)
                self._mapped = None
            else:
                event = cl.enqueue_copy(
                    self._queue, self.buffer, self._memory[:nbytes], is_blocking=False
                )
            # Another queue may wait for an event only once its own queue was flushed.
            self._queue.flush()
        return [event]

    def busy_until(self, event: cl.Event | None) -> None:
        """Note the fold that reads the memory: it is not rewritten before that is complete."""
        self._until = event

    def drain(self) -> None:
        """Wait for the last fold, whatever came of it, so that the memory may go."""
        if self._until is not None:
            wait(self._opened.device, self._until, "the fold of a staging buffer")
            self._until = None


def _mapped(
    queue: cl.CommandQueue, buffer: cl.Buffer, flags: Any, nbytes: int
) -> tuple[np.ndarray, cl.Event]:
    """Map a buffer; the memory may be touched once the event is complete."""
    memory, event = cl.enqueue_map_buffer(
        queue, buffer, flags, 0, (nbytes,), np.dtype(np.uint8), is_blocking=False
    )
    queue.flush()
    return memory, event

"""Staging buffers: host memory that is filled while the device folds another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pyopencl as cl

from chunkfold.kernels.fold.launch import Input
from chunkfold.kernels.fold.waiting import wait
from chunkfold.kernels.program.device_context import DeviceContext, device_errors


class StagedInputs(NamedTuple):
    """The input of a fold, and the events that it must wait for."""

    buffer: Input
    events: Sequence[cl.Event]


def pinned(opened: DeviceContext, queue: cl.CommandQueue, nbytes: int) -> np.ndarray:
    """Allocate pinned memory, uint8, which is what reaches a link's speed.

    It is mapped, and keeps the buffer that owns it, as long as any view of it lives.
    """
    flags, both = cl.mem_flags, cast("Any", cl.map_flags.READ | cl.map_flags.WRITE)
    buffer = cl.Buffer(opened.context, flags.READ_WRITE | flags.ALLOC_HOST_PTR, nbytes)
    memory: np.ndarray
    memory, mapped = cl.enqueue_map_buffer(
        queue, buffer, both, 0, (nbytes,), np.dtype(np.uint8), is_blocking=False
    )
    queue.flush()
    wait(opened.device, mapped, "mapping pinned memory")
    return memory


class StagingBuffer:
    """One staging buffer of a ring.

    Call in turn: `begin` (waits until the last fold of it is done) gives host memory to fill,
    `commit` hands it to the device, `busy_until` names the fold that reads it.

    A device that shares the host's memory reads the staging memory itself: as it is, if kernels
    take pointers; else each time through a new buffer over it, which is to show what the memory
    holds when it is made. Mapping and unmapping one buffer for good would do too,
    but puts two more commands into a queue, which on cores that are busy decoding wait for a time
    slice each.
    """

    def __init__(self, opened: DeviceContext, queue: cl.CommandQueue, nbytes: int) -> None:
        self.nbytes = nbytes
        self._opened = opened
        self._queue = queue
        self._until: cl.Event | None = None
        self._upload: cl.Event | None = None
        self._uploaded_ns = 0
        self._buffer: Input | None = None
        flags = cl.mem_flags
        if opened.device.unified_memory:
            self._memory = page_aligned(nbytes)
            if opened.takes_pointers:
                self._buffer = cl.SVM(self._memory)
            return
        with device_errors(opened.device, f"allocating {nbytes} bytes of staging memory"):
            self._memory = pinned(opened, queue, nbytes)
            self._buffer = cl.Buffer(opened.context, flags.READ_ONLY, nbytes)

    def ready(self) -> None:
        """Wait until the last fold of it has completed; raises as `begin`."""
        self.drain()

    def upload(self, nbytes: int) -> None:
        """Do nothing: `commit` hands its memory over."""

    def begin(self) -> np.ndarray:
        """Wait until the last fold of it has completed; return the memory, uint8, to be filled.

        Raises
        ------
        DeviceError
            If that fold failed, or the deadline passed.
        """
        self.drain()
        if self._opened.device.unified_memory and not self._opened.takes_pointers:
            self._buffer = None
        return self._memory

    def commit(self, nbytes: int) -> StagedInputs:
        """Hand the first `nbytes` to the device."""
        flags = cl.mem_flags
        with device_errors(self._opened.device, "uploading a staging buffer"):
            if self._buffer is None:
                self._buffer = cl.Buffer(
                    self._opened.context,
                    flags.READ_ONLY | flags.USE_HOST_PTR,
                    hostbuf=self._memory[:nbytes],
                )
            if self._opened.device.unified_memory:
                return StagedInputs(self._buffer, ())
            event = cl.enqueue_copy(
                self._queue, self._buffer, self._memory[:nbytes], is_blocking=False
            )
            self._upload = event
            # Another queue may wait for an event only once its own queue was flushed.
            self._queue.flush()
        return StagedInputs(self._buffer, (event,))

    def busy_until(self, event: cl.Event | None) -> None:
        """Note the fold that reads the memory: it is not rewritten before that is complete."""
        self._until = event

    def drain(self) -> None:
        """Wait for the last fold, whatever came of it, so that the memory may go."""
        if self._until is not None:
            wait(self._opened.device, self._until, "the fold of a staging buffer")
            self._until = None
            if self._upload is not None:  # complete, since the fold that read it is
                self._uploaded_ns += self._upload.profile.end - self._upload.profile.start
                self._upload = None

    def uploaded_s(self) -> float:
        """Return the seconds that uploads took by the device's clock since this was last asked."""
        seconds, self._uploaded_ns = self._uploaded_ns / 1e9, 0
        return seconds


PAGE = 4096
"""Bytes; Intel's runtime copies what starts elsewhere."""


def page_aligned(nbytes: int) -> np.ndarray:
    """Allocate bytes, uninitialised, at the start of a page."""
    raw = np.empty(nbytes + PAGE, np.uint8)
    start = -raw.ctypes.data % PAGE
    return np.asarray(raw[start : start + nbytes])

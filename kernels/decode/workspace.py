"""Memory of a device that stages of decoding work in, and the queue they run on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyopencl as cl

from chunkfold.kernels.fold.staging import pinned
from chunkfold.kernels.fold.waiting import wait_watched
from chunkfold.kernels.program.device_context import DeviceContext, device_errors

PADDING = 64
"""Bytes behind what a buffer holds: kernels read whole words."""


class DeviceChunks(NamedTuple):
    """Chunks in a device's memory, and where they are decoded to."""

    stored: cl.Buffer
    places: np.ndarray
    """The first byte of each chunk in `stored`, which has 64 bytes more than they need."""
    sizes: np.ndarray
    """Bytes of each there."""
    decoded: cl.Buffer
    to: np.ndarray
    """The first byte in `decoded` of each."""
    nbytes: int | np.ndarray
    """Decoded bytes of every chunk, or of each."""


class Workspace:
    """Buffers that grow, by name; one thread uses them at a time."""

    def __init__(self, opened: DeviceContext) -> None:
        self.opened = opened
        self.queue = opened.queue()
        self._buffers: dict[str, cl.Buffer] = {}
        self._pinned: dict[str, np.ndarray] = {}

    def room(self, name: str, nbytes: int) -> cl.Buffer:
        """Return a buffer of at least so many bytes; what it held is lost if it grows.

        Raises
        ------
        DeviceError
            If the device has no room for it.
        """
        found, needed = self._buffers.get(name), nbytes + PADDING
        if found is None or found.size < needed:
            self._buffers.pop(name, None)
            with device_errors(self.opened.device, f"allocating {needed} bytes to decode"):
                found = cl.Buffer(self.opened.context, cl.mem_flags.READ_WRITE, needed)
            self._buffers[name] = found
        return found

    def pinned(self, name: str, count: int, dtype: np.dtype) -> np.ndarray:
        """Return zeros in pinned memory, the same for the same name.

        Drivers copy from and to other memory while they hold their lock, and wait for the queue.
        """
        nbytes, found = count * dtype.itemsize, self._pinned.get(name)
        if found is None or found.nbytes < nbytes:
            with device_errors(self.opened.device, f"allocating {nbytes} bytes to decode"):
                found = self._pinned[name] = pinned(self.opened, self.queue, nbytes)
        table = found[:nbytes].view(dtype)
        table[...] = 0
        return table

    def launch(
        self, kernel: cl.Kernel, shape: tuple[int, ...], group: tuple[int, ...], *arguments: Any
    ) -> cl.Event:
        """Enqueue a kernel, over a shape that is rounded up to whole work-groups."""
        rounded = tuple(-(-n // size) * size for n, size in zip(shape, group, strict=True))
        with device_errors(self.opened.device, "decoding"):
            kernel.set_args(*arguments)
            return cl.enqueue_nd_range_kernel(self.queue, kernel, rounded, group)

    def write(self, buffer: cl.Buffer, values: np.ndarray) -> None:
        """Enqueue an upload of pinned values, which stay as they are until `read` returns."""
        with device_errors(self.opened.device, "decoding"):
            cl.enqueue_copy(self.queue, buffer, values, is_blocking=False)

    def read(self, buffer: cl.Buffer, values: np.ndarray) -> None:
        """Wait for all that was enqueued, and read pinned values back."""
        with device_errors(self.opened.device, "decoding"):
            event = cl.enqueue_copy(self.queue, values, buffer, is_blocking=False)
            self.queue.flush()
        wait_watched(self.opened.device, event, "decoding")

    def finish(self) -> None:
        """Wait for all that was enqueued."""
        with device_errors(self.opened.device, "decoding"):
            event = cl.enqueue_marker(self.queue)
            self.queue.flush()
        wait_watched(self.opened.device, event, "decoding")

    def after(self, events: Sequence[cl.Event]) -> None:
        """Make commands that are enqueued from now on wait for events."""
        if events:
            with device_errors(self.opened.device, "decoding"):
                cl.enqueue_barrier(self.queue, wait_for=list(events))

"""Scratch buffers of a device that decodes chunks, and the queue that it uses."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyopencl as cl

from chunkfold.kernels.fold.staging import pinned
from chunkfold.kernels.fold.waiting import wait, wait_watched
from chunkfold.kernels.program.device_context import DeviceContext, device_errors

_SLOT_BYTES, _SLOTS = 4 << 20, 2
"""Pinned slots for uploads: the host fills one while the other is copied to the device."""
PADDING = 64
"""Padding at the end of a buffer, in bytes: kernels read whole words."""


class StageInput(NamedTuple):
    """The chunks that a stage decodes, in a device's memory, and where they are decoded to."""

    stored: cl.Buffer
    places: np.ndarray
    """The first byte of each chunk in `stored`, which has 64 bytes more than they need."""
    sizes: np.ndarray
    """Bytes of each there."""
    decoded: cl.Buffer
    to: np.ndarray
    """The first byte in `decoded` of each."""
    nbytes: int | np.ndarray
    """Decoded bytes: one number for all chunks, or an array with one for each."""


@dataclass
class _Slot:
    """Pinned memory, and its last upload."""

    memory: np.ndarray
    upload: cl.Event | None = None


class Workspace:
    """Named buffers, made anew when a larger one is needed; one thread uses them at a time."""

    def __init__(self, opened: DeviceContext) -> None:
        self.opened = opened
        self.queue = opened.queue()
        self._buffers: dict[str, cl.Buffer] = {}
        self._pinned: dict[str, np.ndarray] = {}
        self._slots: deque[_Slot] = deque()
        """The least recently used slot first."""
        self._uploaded_ns = 0

    def buffer(self, name: str, nbytes: int) -> cl.Buffer:
        """Return the buffer of a name, of at least so many bytes; one that grows is empty.

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
        """Return zeros in pinned memory; calls with one name reuse it.

        The last transfer from it must have ended. Drivers copy from and to other memory while they
        hold their lock, and wait for the queue.
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
        """Enqueue a kernel; the global size is rounded up to whole work-groups."""
        rounded = tuple(-(-n // size) * size for n, size in zip(shape, group, strict=True))
        with device_errors(self.opened.device, "decoding"):
            kernel.set_args(*arguments)
            return cl.enqueue_nd_range_kernel(self.queue, kernel, rounded, group)

    def write(self, buffer: cl.Buffer, values: np.ndarray) -> None:
        """Enqueue an upload of pinned values: nobody changes them before `read` returns."""
        with device_errors(self.opened.device, "decoding"):
            cl.enqueue_copy(self.queue, buffer, values, is_blocking=False)

    def fill(self, buffer: cl.Buffer, element: bytes) -> None:
        """Enqueue the fill of a buffer with an element."""
        whole = buffer.size - buffer.size % len(element)
        with device_errors(self.opened.device, "decoding"):
            cl.enqueue_fill_buffer(self.queue, buffer, element, 0, whole)

    def upload(self, content: memoryview, buffer: cl.Buffer, place: int) -> None:
        """Copy bytes to pinned memory, and enqueue their upload to a place in a buffer.

        Raises
        ------
        DeviceError
            If the device fails.
        """
        for begin in range(0, len(content), _SLOT_BYTES):
            piece = np.frombuffer(content[begin : begin + _SLOT_BYTES], np.uint8)
            slot = self._next_slot()
            slot.memory[: len(piece)] = piece
            with device_errors(self.opened.device, f"uploading {len(piece)} bytes"):
                slot.upload = cl.enqueue_copy(
                    self.queue,
                    buffer,
                    slot.memory[: len(piece)],
                    dst_offset=place + begin,
                    is_blocking=False,
                )
                self.queue.flush()

    def uploaded_s(self) -> float:
        """Wait for uploads; return their seconds by the device's clock since the last call.

        It raises as `upload`.
        """
        for slot in self._slots:
            self._complete(slot)
        taken, self._uploaded_ns = self._uploaded_ns, 0
        return taken / 1e9

    def _next_slot(self) -> _Slot:
        """Return a slot whose last upload is complete."""
        if len(self._slots) < _SLOTS:
            with device_errors(self.opened.device, f"allocating {_SLOT_BYTES} bytes to decode"):
                slot = _Slot(pinned(self.opened, self.queue, _SLOT_BYTES))
        else:
            slot = self._slots.popleft()
            self._complete(slot)
        self._slots.append(slot)
        return slot

    def _complete(self, slot: _Slot) -> None:
        if slot.upload is not None:
            wait(self.opened.device, slot.upload, "an upload")
            self._uploaded_ns += slot.upload.profile.end - slot.upload.profile.start
            slot.upload = None

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

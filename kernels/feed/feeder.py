"""Threads that read files into slots of pinned memory and upload them to a device."""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pyopencl as cl

from chunkfold.kernels.errors import DeviceError
from chunkfold.kernels.feed.commands import Commands, NotFed, Runs, commands_of
from chunkfold.kernels.feed.native import CommandList, FeedOutcome, Native, native
from chunkfold.kernels.fold.staging import pinned
from chunkfold.kernels.fold.waiting import wait
from chunkfold.kernels.program.device_context import DeviceContext, device_errors, failure

PIECE_BYTES = 4 << 20
"""A slot's: it stays in a core's cache between reading and uploading."""
SLOTS = 2
"""Slots of a thread: one is filled while the other is uploaded."""
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_REASONS = {
    1: "a command is out of bounds",
    2: "it cannot be opened ({})",
    3: "it is not a regular file",
    4: "it has {:,} bytes",
    5: "it was written at {} ns",
    6: "it cannot be read ({})",
    7: "it ends at {:,}",
}
_DEVICE = 8


class _ThreadResources(NamedTuple):
    """The queue and the slots of one thread."""

    queue: cl.CommandQueue
    memory: list[np.ndarray]


class Feeder:
    """Brings runs of bytes into buffers of a device; several callers share its threads.

    `feed.c` does it without Python's lock; where that was not built, Python does the same.
    """

    def __init__(self, opened: DeviceContext, threads: int, piece_bytes: int = PIECE_BYTES) -> None:
        self._opened, self._piece_bytes = opened, piece_bytes
        self._resources = []
        for _ in range(threads):
            queue = opened.queue()
            memory = [pinned(opened, queue, piece_bytes) for _ in range(SLOTS)]
            self._resources.append(_ThreadResources(queue, memory))
        self._native: Native | None = None if opened.device.lacks("native_feed") else native()
        self._uploaded_ns, self._process = 0, os.getpid()
        if self._native is None:
            self._idle = list(self._resources)
            self._threads = ThreadPoolExecutor(threads, "chunkfold-feed")
            return
        queues = (ctypes.c_void_p * threads)(*(one.queue.int_ptr for one in self._resources))
        slots = [slot.ctypes.data for one in self._resources for slot in one.memory]
        self._pool: Any = self._native.open(
            self._native.opencl,
            threads,
            queues,
            SLOTS,
            piece_bytes,
            (ctypes.c_void_p * len(slots))(*slots),
        )
        if not self._pool:
            raise DeviceError(f"{opened.device}: no thread could be started to feed it")

    def feed(self, runs: Runs, buffer: cl.Buffer, after: Sequence[cl.Event] = ()) -> None:
        """Bring runs into a buffer, once events are complete; return when all are there.

        Raises
        ------
        NotFed
            If a run cannot be read as it was planned; some of the buffer may be written.
        DeviceError
            If the device fails.
        """
        commands = commands_of(runs, self._piece_bytes)
        feed = self._by_python if self._native is None else self._natively
        why, detail, run = feed(commands, runs, buffer, after)
        if why == _DEVICE:
            raise failure(self._opened.device, "uploading", detail)
        if why:
            said = _REASONS[why].format(os.strerror(detail) if why in (2, 6) else detail)
            file = None if run < 0 else runs.names[int(commands.runs[run, 0])]
            raise NotFed(said if file is None else f"{file}: {said}")

    def uploaded_s(self) -> float:
        """Return the seconds of uploads by the device's clock since this was last asked."""
        taken, self._uploaded_ns = self._uploaded_ns, 0
        return (taken if self._native is None else self._native.uploaded_ns(self._pool)) / 1e9

    def close(self) -> None:
        """End the threads, when nobody waits for them any more."""
        if self._native is None:
            self._threads.shutdown()
        elif self._pool and self._process == os.getpid():  # a fork has no threads to wait for
            self._native.close(self._pool)
            self._pool = None

    def __del__(self) -> None:
        """End the threads before the memory that they use is freed."""
        with contextlib.suppress(Exception):
            self.close()

    def _natively(
        self, commands: Commands, runs: Runs, buffer: cl.Buffer, after: Sequence[cl.Event]
    ) -> tuple[int, int, int]:
        assert self._native is not None
        del runs
        events = (ctypes.c_void_p * max(1, len(after)))(*(one.int_ptr for one in after))
        given = CommandList(
            buffer=buffer.int_ptr,
            buffer_bytes=buffer.size,
            names=commands.names,
            names_bytes=len(commands.names),
            files=commands.files.ctypes.data,
            file_count=len(commands.files),
            runs=commands.runs.ctypes.data,
            run_count=len(commands.runs),
            pieces=commands.pieces.ctypes.data,
            piece_count=len(commands.pieces),
            after=ctypes.cast(events, ctypes.c_void_p),
            after_count=len(after),
        )
        outcome = FeedOutcome()
        why = self._native.feed(self._pool, given, outcome)
        return why, outcome.detail, outcome.run

    def _by_python(
        self, commands: Commands, runs: Runs, buffer: cl.Buffer, after: Sequence[cl.Event]
    ) -> tuple[int, int, int]:
        pieces = commands.pieces.tolist()
        futures = [
            self._threads.submit(self._read_and_upload, commands, runs, piece, buffer, after)
            for piece in pieces
        ]
        each = [future.result() for future in futures]
        return next((one for one in each if one[0]), (0, 0, -1))

    def _read_and_upload(
        self,
        commands: Commands,
        runs: Runs,
        piece: Sequence[int],
        buffer: cl.Buffer,
        after: Sequence[cl.Event],
    ) -> tuple[int, int, int]:
        """Bring a piece; return why it failed, as `feed.c` numbers it, with what and where."""
        first, count, place, size = piece
        own = self._idle.pop()
        try:
            memory = own.memory[0]
            for n in range(first, first + count):
                why, detail = _read(commands, runs, n, memory)
                if why:
                    return why, detail, n
            with device_errors(self._opened.device, f"uploading {size} bytes"):
                event = cl.enqueue_copy(
                    own.queue,
                    buffer,
                    memory[:size],
                    dst_offset=place,
                    is_blocking=False,
                    wait_for=list(after),
                )
                own.queue.flush()
            wait(self._opened.device, event, "an upload")
            self._uploaded_ns += event.profile.end - event.profile.start
            return 0, 0, -1
        finally:
            self._idle.append(own)


def _read(commands: Commands, runs: Runs, number: int, memory: np.ndarray) -> tuple[int, int]:
    """Read a run into its place in a slot; return why it failed, as `feed.c` numbers it."""
    file, offset, size, place = commands.runs[number].tolist()
    try:
        descriptor = os.open(runs.names[file], _FLAGS)
    except OSError as error:
        return 2, error.errno or 0
    try:
        why = _why_changed(runs.files[file].tolist(), os.fstat(descriptor))
        while size and not why[0]:
            count = os.preadv(descriptor, [memory[place : place + size].data], offset)
            offset, place, size = offset + count, place + count, size - count
            why = why if count else (7, offset)
    except OSError as error:
        why = 6, error.errno or 0
    finally:
        os.close(descriptor)
    return why


def _why_changed(known: Sequence[int], state: os.stat_result) -> tuple[int, int]:
    """Compare a file with what is known of it; return why it is another, as `feed.c` does."""
    size, newest, unit = known
    if not stat.S_ISREG(state.st_mode):
        return 3, 0
    if size >= 0 and state.st_size != size:
        return 4, state.st_size
    if newest >= 0 and state.st_mtime_ns // unit > newest // unit:
        return 5, state.st_mtime_ns
    return 0, 0

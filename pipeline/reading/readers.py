"""The threads that read: which read is next, and how its inputs come into staging buffers."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from chunkfold.kernels.feed.fed_buffer import FedBuffer
from chunkfold.kernels.fold.staging import StagedInputs, StagingBuffer
from chunkfold.reading.reads import Read
from chunkfold.sources.gathering import read_region
from chunkfold.sources.source import Source
from chunkfold.stores.expected import Expected
from chunkfold.stores.objects import decode_clock

READ_DEADLINE_S = 600.0
"""Longest time for one read, and for its fold where the same thread folds it, s."""
StagingSlot = Sequence[StagingBuffer | FedBuffer]
"""A buffer for each input: staging memory, or memory of a device."""
_Read = TypeVar("_Read")
_Waiting = tuple[int, int, Future[Any], Callable[[], Any]]
"""A task that waits: its priority, its number, its future, and its function."""


class Readers:
    """A pool of threads that does tasks of the earliest block first.

    Blocks that shared the threads evenly would end together, and leave most threads idle then. So
    the earlier block ends first, and the later one has the threads that it leaves.
    """

    def __init__(self, threads: int, waiting: Sequence[_Waiting] = ()) -> None:
        self._pool = ThreadPoolExecutor(threads, "chunkfold-read")
        self._waiting: list[_Waiting] = []
        self._numbers = itertools.count(len(waiting))
        self._lock = threading.Lock()
        for number, (priority, _, future, task) in enumerate(sorted(waiting)):
            self._push((priority, number, future, task))

    def submit(self, priority: int, task: Callable[..., _Read], *given: Any) -> Future[_Read]:
        """Submit a task to the threads, before tasks of a higher priority number.

        Raises
        ------
        RuntimeError
            If the interpreter is about to end.
        """
        future: Future[_Read] = Future()
        self._push((priority, next(self._numbers), future, partial(task, *given)))
        return future

    def leave(self) -> list[_Waiting]:
        """Begin no more tasks, since a thread never came back; return the tasks that wait."""
        self._pool.shutdown(wait=False)
        with self._lock:
            waiting, self._waiting = self._waiting, []
        return waiting

    def _push(self, entry: _Waiting) -> None:
        with self._lock:
            self._pool.submit(self._do_next)  # first: it may refuse
            heapq.heappush(self._waiting, entry)

    def _do_next(self) -> None:
        with self._lock:
            if not self._waiting:
                return
            *_, future, task = heapq.heappop(self._waiting)
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(task())
        except BaseException as error:  # noqa: BLE001 # the caller waits for it
            future.set_exception(error)


class ReadTimes(NamedTuple):
    """The time of one read, in seconds, and its extremes."""

    seconds: float
    decoding: float
    """Time of these for decoding, as far as it is known."""
    extremes: tuple[float, float] | None = None
    """The least and the greatest element of the first input, if they were wanted."""


def read_staged(
    sources: Sequence[Source],
    read: Read,
    slot: StagingSlot,
    *,
    ranged: bool = False,
    on_device: bool = False,
) -> ReadTimes:
    """Bring a region of each input into its buffer.

    `ranged`: find the least and the greatest element of the first input, too, without NaN.
    `on_device`: the device decodes the chunks that it can.

    Raises
    ------
    ChunkError
        If a chunk cannot be read.
    """
    began, decoded, found = time.monotonic(), decode_clock.seconds, None
    for n, (source, buffer) in enumerate(zip(sources, slot, strict=True)):
        wanted = ranged and not n and read.box.elements > 0
        if wanted or not _fed(source, read, read.known[n], buffer, on_device=on_device):
            elements = _decoded(source, read, read.known[n], buffer)
            if wanted:
                found = np.fmin.reduce(elements, None), np.fmax.reduce(elements, None)
            buffer.upload(elements.nbytes)
    return ReadTimes(time.monotonic() - began, decode_clock.seconds - decoded, found)


def _fed(
    source: Source,
    read: Read,
    known: Expected,
    buffer: StagingBuffer | FedBuffer,
    *,
    on_device: bool,
) -> bool:
    """Bring a region as it is stored into a device's memory; return whether that went.

    Chunks without codecs are only copied; the device decodes others.
    """
    if read.unstored or not all(isinstance(places, slice) for places in read.region):
        return False
    if not isinstance(buffer, FedBuffer) or not read.box.elements:
        return False
    region = cast("Sequence[slice]", read.region)
    runs = source.file_runs(region, known, in_turn=read.in_turn)
    if runs is not None:
        return buffer.feed_from_files(runs)
    decodes = on_device or source.as_it_is
    found = source.decode_batch(region, known, in_turn=read.in_turn) if decodes else None
    return found is not None and buffer.decode(*found)


def _decoded(
    source: Source, read: Read, known: Expected, buffer: StagingBuffer | FedBuffer
) -> np.ndarray:
    """Decode a region at the beginning of a buffer's memory; return it."""
    nbytes = read.box.elements * source.dtype.itemsize
    elements = buffer.begin()[:nbytes].view(source.dtype)
    if not read.in_turn:
        elements = elements.reshape(read.shape)
    if read.unstored:
        elements[...] = source.fill
    else:
        read_region(source, read.region, elements, known)
    return elements


def committed(sources: Sequence[Source], elements: int, slot: StagingSlot) -> list[StagedInputs]:
    """Hand `elements` elements of each input to the device."""
    return [
        buffer.commit(elements * source.dtype.itemsize)
        for source, buffer in zip(sources, slot, strict=True)
    ]


def overdue(source: Source, doing: str, read: Read) -> str:
    """Return the message for a thread that takes too long."""
    return f"{source.name}: {doing} {read.region} took longer than {READ_DEADLINE_S:.0f} s"

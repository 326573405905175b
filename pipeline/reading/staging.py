"""Bring what is read of the inputs into buffers: on the threads that read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np

from chunkfold.kernels.feed.fed_buffer import FedBuffer
from chunkfold.kernels.fold.staging import StagedInputs, StagingBuffer
from chunkfold.reading.reads import Read
from chunkfold.sources.gathering import read_region
from chunkfold.sources.source import Source
from chunkfold.stores.expected import Expected
from chunkfold.stores.objects import decode_clock

READ_DEADLINE_S = 600.0
"""Longest wait for one read, and for the fold of it where the same thread folds, in seconds."""


StagingSlot = Sequence[StagingBuffer | FedBuffer]
"""A buffer for each input: staging memory, or memory of a device."""


class ReadTimes(NamedTuple):
    """What a thread took for one read, in seconds."""

    seconds: float
    decoding: float
    """Of these, as far as it is known."""
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

    `ranged`: find the range of the first one's elements, too, NaN aside. `on_device`: the device
    decodes what it can.

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
    """Bring a region from files into a device's memory: as it is stored, or decoded there."""
    if read.absent or not all(isinstance(places, slice) for places in read.region):
        return False
    if not isinstance(buffer, FedBuffer) or not read.box.elements:
        return False
    region = cast("Sequence[slice]", read.region)
    runs = source.file_runs(region, known, in_turn=read.in_turn)
    if runs is not None:
        return buffer.feed_from_files(runs)
    decodes = on_device or source.as_it_is
    found = source.stored_chunks(region, known, in_turn=read.in_turn) if decodes else None
    return found is not None and buffer.decode_from_files(*found)


def _decoded(
    source: Source, read: Read, known: Expected, buffer: StagingBuffer | FedBuffer
) -> np.ndarray:
    """Decode a region into the beginning of a buffer's memory; return it."""
    nbytes = read.box.elements * source.dtype.itemsize
    elements = buffer.begin()[:nbytes].view(source.dtype)
    if not read.in_turn:
        elements = elements.reshape(read.shape)
    if read.absent:
        elements[...] = source.fill
    else:
        read_region(source, read.region, elements, known)
    return elements


def committed(sources: Sequence[Source], elements: int, slot: StagingSlot) -> list[StagedInputs]:
    """Hand so many elements that were read of each input to the device."""
    return [
        buffer.commit(elements * source.dtype.itemsize)
        for source, buffer in zip(sources, slot, strict=True)
    ]


def overdue(source: Source, doing: str, read: Read) -> str:
    """Say that a thread takes too long."""
    return f"{source.name}: {doing} {read.region} took longer than {READ_DEADLINE_S:.0f} s"

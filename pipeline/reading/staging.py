"""Decode what is read of the inputs into staging memory: on the threads that read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chunkfold.kernels.fold.staging import StagedInputs, StagingBuffer
from chunkfold.reading.reads import Read
from chunkfold.sources.gathering import read_region
from chunkfold.sources.source import Source
from chunkfold.stores.objects import decode_clock

READ_DEADLINE_S = 600.0
"""Longest wait for one read, and for the fold of it where the same thread folds, in seconds."""


StagingSlot = Sequence[StagingBuffer]
"""A staging buffer for each input."""


class ReadTimes(NamedTuple):
    """What a thread took for one read, in seconds."""

    seconds: float
    decoding: float
    """Of these, as far as it is known."""
    extremes: tuple[float, float] | None = None
    """The least and the greatest element of the first input, if they were wanted."""


def read_staged(
    sources: Sequence[Source], read: Read, memory: Sequence[np.ndarray], ranged: bool = False
) -> ReadTimes:
    """Decode a region of each input into the beginning of its memory, uint8.

    `ranged`: find the range of the first one's elements, too, NaN aside.

    Raises
    ------
    ChunkError
        If a chunk cannot be read.
    """
    began, decoded = time.monotonic(), decode_clock.seconds
    for source, staged, known in zip(sources, memory, read.known, strict=True):
        nbytes = read.box.elements * source.dtype.itemsize
        elements = staged[:nbytes].view(source.dtype)
        if not read.in_turn:
            elements = elements.reshape(read.shape)
        if read.absent:
            elements[...] = source.fill
        else:
            read_region(source, read.region, elements, known)
    found = None
    if ranged and read.box.elements:
        first = memory[0][: read.box.elements * sources[0].dtype.itemsize].view(sources[0].dtype)
        found = np.fmin.reduce(first), np.fmax.reduce(first)
    return ReadTimes(time.monotonic() - began, decode_clock.seconds - decoded, found)


def committed(sources: Sequence[Source], elements: int, slot: StagingSlot) -> list[StagedInputs]:
    """Hand so many elements that were read of each input to the device."""
    return [
        buffer.commit(elements * source.dtype.itemsize)
        for source, buffer in zip(sources, slot, strict=True)
    ]


def overdue(source: Source, doing: str, read: Read) -> str:
    """Say that a thread takes too long."""
    return f"{source.name}: {doing} {read.region} took longer than {READ_DEADLINE_S:.0f} s"

"""Decode several stored chunks in one call: frames of some codecs may stand one behind another.

Each call into a codec releases Python's lock, and then waits for it: fewer calls wait less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Protocol

import numpy as np

from chunkfold.boxes import Slices, elements_of
from chunkfold.decoding.codecs import Codec, StoredBytes, stored_bound
from chunkfold.decoding.decode_units import InTurn, Out, leads, target_in, view
from chunkfold.stores.objects import decode_clock, scratch

JOINED_BYTES = 2 << 20
"""Most bytes decoded in one call: caches hold these and their stored bytes."""


_NOTHING = np.empty(0, np.uint8)


class Chunk(Protocol):
    """A stored chunk."""

    def read(self, memory: memoryview) -> int:
        """Read its stored bytes into memory; return how many, if they are fewer than that.

        It may raise anything; `decode` then raises the error that names the fault.
        """

    def decode(self, target: np.ndarray) -> None:
        """Read it by itself, and decode the wanted part of it.

        Raises
        ------
        ChunkError, ValueError
            If the chunk cannot be read or decoded.
        """


WantedChunk = tuple[Chunk | None, Slices, Slices, bool]
"""A chunk, None if it is not stored; the slices taken of it, their place in the region, and whether
they are the whole chunk."""


_Waiting = tuple[Chunk, int, Slices]
"""A chunk that was read, the offset of its first decoded byte, and its place in the region."""


def joinable(nbytes: int) -> bool:
    """Return whether chunks of `nbytes` decoded bytes are small enough to be joined."""
    return 0 < 2 * nbytes <= JOINED_BYTES


def decode_alone(chunk: Chunk | None, target: np.ndarray, fill: Any) -> None:
    """Decode the wanted part of a chunk, or fill if it is not stored; raises as `Chunk.decode`."""
    if chunk is None:
        target[...] = fill
    else:
        chunk.decode(target)


def decode_joined(
    codec: Codec, shape: tuple[int, ...], fill: Any, chunks: Iterable[WantedChunk], out: Out
) -> Iterator[None]:
    """Decode chunks into `out`: neighbours in its memory by one call.

    If `out` is `InTurn`, it yields whenever `out` has no room for another chunk, with all chunks
    before decoded. It is one loop of few calls, since caches are cold for Python between chunks.

    Parameters
    ----------
    codec
        A codec whose frames may stand one behind another.
    shape
        The shape of each chunk.
    fill
        The elements of chunks that are not stored.

    Raises
    ------
    ChunkError, ValueError
        As `Chunk.decode`.
    """
    frame_bytes, into = codec.whole, codec.into
    assert frame_bytes is not None
    assert into is not None
    turn = out if isinstance(out, InTurn) else None
    memory = out.memory if isinstance(out, InTurn) else out
    # Memory with gaps has no neighbours.
    decoded = memory.reshape(-1).view(np.uint8) if memory.flags.c_contiguous else _NOTHING
    elements = math.prod(shape)
    nbytes = elements * memory.itemsize
    most, room = JOINED_BYTES // nbytes, stored_bound(nbytes)
    stored = scratch.buffer("joined", JOINED_BYTES + room).data
    waiting: list[_Waiting] = []
    used = 0
    """Stored bytes of the chunks that wait."""
    decode = partial(_decode, into, decoded, nbytes, out, waiting)
    for chunk, source, within, whole in chunks:
        begin = _begin_of(out, source, within, shape, whole)
        if waiting and begin != waiting[0][1] + len(waiting) * nbytes:
            decode(stored[:used])
            used = 0
        if (
            chunk is None
            or not 0 <= begin <= decoded.nbytes - nbytes
            or not (count := _read(chunk, stored[used : used + room], frame_bytes, nbytes))
        ):
            decode_alone(chunk, target_in(out, within), fill)
        else:
            used += count
            waiting.append((chunk, begin, within))
            if turn is not None:
                turn.used += elements if whole else elements_of(within)
        no_room = turn is not None and turn.left < elements
        # A leading part is decoded with its whole chunk: nothing may stand behind it yet.
        if waiting and (no_room or not whole or len(waiting) == most or len(stored) - used < room):
            decode(stored[:used])
            used = 0
        if no_room:
            yield
    if waiting:
        decode(stored[:used])


def _begin_of(out: Out, source: Slices, within: Slices, shape: tuple[int, ...], whole: bool) -> int:
    """Return the offset of a chunk's first decoded byte in `out`; -1 if it cannot be joined."""
    if isinstance(out, InTurn):
        leading = whole or leads(source, shape)
        return out.used * out.memory.itemsize if leading else -1
    target = view(out, within)
    joins = whole and target.flags.c_contiguous
    return _address(target) - _address(out) if joins else -1


def _read(
    chunk: Chunk, memory: StoredBytes, frame_bytes: Callable[[StoredBytes], int | None], nbytes: int
) -> int:
    """Return the size of a stored chunk; 0 if it is not one frame of `nbytes` decoded bytes."""
    try:
        count = chunk.read(memory)
        return count if count < len(memory) and frame_bytes(memory[:count]) == nbytes else 0
    except Exception:  # noqa: BLE001 # `decode` reads it again, and names the fault
        return 0


def _decode(
    into: Callable[[StoredBytes, np.ndarray], Any],
    decoded: np.ndarray,
    nbytes: int,
    out: Out,
    waiting: list[_Waiting],
    stored: StoredBytes,
) -> None:
    """Decode the chunks that wait in one call; if that fails, one by one: some are damaged."""
    first = waiting[0][1]
    try:
        with decode_clock:
            into(stored, decoded[first : first + len(waiting) * nbytes])
    except Exception:  # noqa: BLE001 # each chunk raises its own error below
        for chunk, begin, within in waiting:
            if isinstance(out, InTurn):
                chunk.decode(out.at(begin // out.memory.itemsize, within))
            else:
                chunk.decode(view(out, within))
    waiting.clear()


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]  # in half the time of `ctypes.data`
    return address

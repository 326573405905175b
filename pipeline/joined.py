"""Decode several stored chunks in one call: frames of some codecs may stand one behind another.

Each call into a codec gives Python's lock away, and then waits for it: two threads decoded chunks
of 1 MB at 2.8 GB/s one by one, and at 2.9 to 3.0 two or four at a time.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from chunkfold.cells import InTurn, Out
from chunkfold.codecs import Codec
from chunkfold.objects import decode_clock, scratch

JOINED_BYTES = 2 << 20
"""Decoded in one call, at most: caches hold that and what it is decoded from."""


class Chunk(Protocol):
    """A stored chunk."""

    def read(self, memory: np.ndarray) -> int:
        """Read its stored bytes into memory, uint8; return how many, if they are fewer than that.

        It may raise anything; `decode` then says what is wrong.
        """

    def decode(self, target: np.ndarray) -> None:
        """Read it by itself, and decode what is wanted of it.

        Raises
        ------
        ChunkError, ValueError
            If that does not go.
        """


def room_of(nbytes: int) -> int:
    """Return bytes that a chunk takes less than, as codecs shrink what they can and add a little.

    `nbytes` are its decoded bytes.
    """
    return nbytes + nbytes // 128 + (64 << 10)


def joinable(nbytes: int) -> bool:
    """Whether chunks of so many decoded bytes are small enough to be joined."""
    return 0 < 2 * nbytes <= JOINED_BYTES


class Joined:
    """Chunks that were read, and wait to be decoded into memory where they stand side by side.

    Parameters
    ----------
    codec
        One that joins.
    nbytes
        Decoded bytes of each chunk.
    out
        In which all targets stand.
    """

    def __init__(self, codec: Codec, nbytes: int, out: Out) -> None:
        assert codec.size is not None
        assert codec.into is not None
        self._size, self._into = codec.size, codec.into
        self._nbytes, self._room = nbytes, room_of(nbytes)
        memory = out.memory if isinstance(out, InTurn) else out
        self._out = memory.reshape(-1).view(np.uint8) if memory.flags.c_contiguous else None
        self._origin = _address(memory)
        self._stored = scratch.room("joined", JOINED_BYTES + self._room)
        self._waiting: list[tuple[Chunk, np.ndarray]] = []
        self._begin = self._used = 0
        """Where the first goes, and the stored bytes of all of them."""

    @property
    def full(self) -> bool:
        """Whether it is time to decode them."""
        joined = (len(self._waiting) + 1) * self._nbytes
        return joined > JOINED_BYTES or self._used + self._room > self._stored.nbytes

    def add(self, chunk: Chunk, target: np.ndarray) -> bool:
        """Read a chunk that is to be decoded to where a target begins, and may go beyond its end.

        False if it cannot join: it is to be decoded by itself. Others may be decoded before.
        """
        begin = _address(target) - self._origin
        if begin != self._begin + len(self._waiting) * self._nbytes:
            self.decode()
            self._begin = begin
        if self._out is None or begin + self._nbytes > self._out.nbytes:
            return False
        memory = self._stored[self._used : self._used + self._room]
        try:
            count = chunk.read(memory)
            if count >= self._room or self._size(memory[:count].data) != self._nbytes:
                return False
        except Exception:  # noqa: BLE001 # whatever it is: it is read again, with more care
            return False
        self._used += count
        self._waiting.append((chunk, target))
        if target.nbytes < self._nbytes:  # before anything is written behind it
            self.decode()
        return True

    def decode(self) -> None:
        """Decode those that wait; one by one, as `Chunk.decode`, if together they cannot be."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        stored, self._used = self._stored[: self._used], 0
        assert self._out is not None
        out = self._out[self._begin : self._begin + len(waiting) * self._nbytes]
        try:
            with decode_clock:
                self._into(stored.data, out)
        except Exception:  # noqa: BLE001 # one of them is damaged: which, they say themselves
            for chunk, target in waiting:
                chunk.decode(target)


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]  # in half the time of `ctypes.data`
    return address

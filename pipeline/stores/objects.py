"""Stored objects, chunks or shards, of local folders: read whole or in part into given memory."""

from __future__ import annotations

import errno
import mmap
import os
import stat
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from chunkfold.stores.expected import ObjectState

Span = tuple[int, int]
"""Offset and size, in bytes."""


_FLAGS = os.O_RDONLY | os.O_NONBLOCK
"""A pipe in a chunk's place would wait for a writer."""
_KEPT_BYTES = 64 << 20
"""Larger chunks get memory of their own each time: clearing it costs them less than it holds."""


class StoredObject(Protocol):
    """An object that is there, for as long as it is open."""

    @property
    def size(self) -> int:
        """Bytes of it."""

    def state(self) -> ObjectState:
        """Return how large it is now and when it was last written."""

    def fetch(self, spans: Sequence[Span]) -> None:
        """Say what will be read next, so that it may be brought at once."""

    def read(self, span: Span) -> memoryview:
        """Return a span's bytes, valid until the next call.

        Raises
        ------
        ValueError
            If the object ends before that.
        """

    def read_into(self, pieces: Sequence[memoryview], offset: int) -> None:
        """Fill pieces of memory, one after the other, with what stands from an offset on.

        It raises as `read`.
        """


class Objects(Protocol):
    """The place of the stored objects of an array."""

    @property
    def where(self) -> str:
        """Return the name that messages use."""

    def open(
        self, key: str, whole: int, index: Span | None, most: int
    ) -> AbstractContextManager[StoredObject | None]:
        """Open the object of a key, below the array's own; None if it is not stored.

        Parameters
        ----------
        whole
            About so many bytes of it will be read, if all of it is.
        index
            What will be read first, if not all of it: an offset, or -1 for the end, and a size.
        most
            It is refused if it has more bytes, where all of it is brought.
        """

    def state(self, key: str) -> ObjectState | None:
        """Return the state of the object of a key, without reading it; None if it is not stored."""


class Scratch(threading.local):
    """Memory of a reading thread that chunks pass through; it grows to the largest kept."""

    def buffer(self, use: str, nbytes: int) -> np.ndarray:
        """Return memory for a use, uint8."""
        if nbytes > _KEPT_BYTES:
            return _at_a_page(nbytes)
        held: np.ndarray | None = getattr(self, use, None)
        if held is None or held.nbytes < nbytes:
            held = _at_a_page(nbytes)
            setattr(self, use, held)
        return held[:nbytes]


def _at_a_page(nbytes: int) -> np.ndarray:
    """Return memory, uint8, that begins where a page does, as files do in the page cache.

    AMD's processors copy from one to the other at 2 GB/s, not 10, where memory begins 8 to 31 bytes
    behind that: as what comes from malloc does (`rep movsb`; glibc's bug 30994).
    """
    memory = np.empty(nbytes + mmap.PAGESIZE, np.uint8)
    before = -memory.ctypes.data % mmap.PAGESIZE
    return memory[before : before + nbytes]


scratch = Scratch()


class DecodeClock(threading.local):
    """Seconds that a reading thread has spent decoding, of those that it reads."""

    seconds = 0.0

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._began


decode_clock = DecodeClock()


@dataclass(frozen=True)
class LocalObjects:
    """Files of a folder."""

    where: str

    def open(
        self,
        key: str,
        whole: int,  # noqa: ARG002 # files are read as needed
        index: Span | None,  # noqa: ARG002
        most: int = 0,  # noqa: ARG002
    ) -> _File:
        """Open a file."""
        return _File(f"{self.where}/{key}")

    def read_short(
        self,
        key: str,
        pieces: Sequence[memoryview],
        check: Callable[[ObjectState], None] | None,
        offset: int = 0,
    ) -> int:
        """Read a file into pieces of memory in one call; return the bytes that came.

        `check` is told its state after that. Without it no call asks for that: each gives Python's
        lock away.

        Raises
        ------
        OSError
            If that does not go: `open` says why.
        """
        descriptor = os.open(f"{self.where}/{key}", _FLAGS)
        try:
            count = os.preadv(descriptor, pieces, offset)
            if check is not None:
                check(_state(os.fstat(descriptor)))
            return count
        finally:
            os.close(descriptor)

    def state(self, key: str) -> ObjectState | None:
        """Return the state of a file; None if there is none."""
        try:
            status = os.stat(f"{self.where}/{key}")  # noqa: PTH116 # a Path would take as long
        except (FileNotFoundError, NotADirectoryError):
            return None
        return None if stat.S_ISDIR(status.st_mode) else _state(status)


def _state(status: os.stat_result) -> ObjectState:
    return ObjectState(status.st_size, status.st_mtime_ns)


class _File:
    """A file, or nothing; a context, since a generator takes longer with every chunk."""

    __slots__ = ("_path", "descriptor", "size")

    def __init__(self, path: str) -> None:
        self._path, self.descriptor, self.size = path, -1, 0

    def __enter__(self) -> _File | None:
        try:
            self.descriptor = os.open(self._path, _FLAGS)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ENXIO:  # a socket, or a device that is not there
                raise ValueError("it is not a file or a folder") from error
            raise
        try:
            status = os.fstat(self.descriptor)
            self.size = status.st_size
            if stat.S_ISREG(status.st_mode):
                return self
            if not stat.S_ISDIR(status.st_mode):
                raise ValueError("it is not a file or a folder")
        except BaseException:
            self.__exit__()
            raise
        return None  # to zarr a folder is not there

    def __exit__(self, *_: object) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)

    def state(self) -> ObjectState:
        return _state(os.fstat(self.descriptor))

    def fetch(self, spans: Sequence[Span]) -> None:
        pass  # the kernel reads ahead

    def read(self, span: Span) -> memoryview:
        memory = scratch.buffer("stored", span[1])
        self.read_into([memory.data], span[0])
        return memory.data

    def read_into(self, pieces: Sequence[memoryview], offset: int) -> None:
        wanted, done = sum(piece.nbytes for piece in pieces), 0
        while done < wanted:  # one call reads 2 GiB at most
            count = os.preadv(self.descriptor, _behind(pieces, done), offset + done)
            if not count:
                raise ValueError(f"it ends after {done:,} of {wanted:,} bytes: it was cut")
            done += count


def _behind(pieces: Sequence[memoryview], done: int) -> Sequence[memoryview]:
    """Return what is left of pieces of memory whose first bytes are filled."""
    if not done:
        return pieces
    left = []
    for piece in pieces:
        left.append(piece[min(done, piece.nbytes) :])
        done -= min(done, piece.nbytes)
    return left

"""Plan which bytes of which files go where in a device's buffer, and cut them in pieces."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

UNKNOWN = -1
"""A size, or a time, that nothing is known of."""


Contents = Generator[tuple[int, memoryview]]
"""Brings chunks that are in no file: yields the number of each, and its bytes."""


class NotFed(Exception):  # noqa: N818 # it is no error of the user's: others read with more care
    """Bytes could not be read as it was planned."""


class Runs(NamedTuple):
    """Runs of bytes that are to be read; int64 arrays, in any order."""

    names: Sequence[str]
    """Paths of files."""
    files: np.ndarray
    """A row for each file: its size; the latest time at which it may have been written, in
    nanoseconds since 1970; and the resolution of times, in nanoseconds. `UNKNOWN` size or time:
    any will do."""
    runs: np.ndarray
    """A row for each run: the number of its file, its offset in it, its place in the buffer, and
    its size."""


def joined_runs(each: Sequence[tuple[Runs, int]]) -> Runs:
    """Return runs of several, each with the place of its first byte, as those of one buffer."""
    names, files, runs, before = list[str](), [], [], 0
    for one, place in each:
        files.append(one.files)
        runs.append(one.runs + np.array([before, 0, place, 0]))
        names += one.names
        before += len(one.names)
    return Runs(names, np.concatenate(files), np.concatenate(runs))


@dataclass(frozen=True)
class Commands:
    """The commands for `feed.c`; int64 arrays in C order."""

    names: bytes
    """Paths, each with a zero byte behind it."""
    files: np.ndarray
    """A row for each file: where its path begins in `names`, size, latest time, resolution."""
    runs: np.ndarray
    """A row for each run: file, offset, size, place in its piece."""
    pieces: np.ndarray
    """A row for each piece: its first run, how many runs it has, its place in the buffer, its
    size."""


def zero_terminated(names: Sequence[str]) -> tuple[bytes, np.ndarray]:
    r"""Return paths as text with a zero byte behind each, and where each begins, int64.

    >>> zero_terminated(["a", "bc"])
    (b'a\x00bc\x00', array([0, 2]))
    """
    text = "\0".join([*names, ""]).encode("utf-8", "surrogateescape")
    behind = np.flatnonzero(np.frombuffer(text, np.uint8) == 0) + 1
    return text, np.concatenate([np.zeros(1, np.int64), behind[:-1]])


def commands_of(given: Runs, piece_bytes: int) -> Commands:
    """Cut runs in pieces of a buffer, so that each piece is read into a slot of that size.

    Places that no run fills must not be in a piece: what a slot holds there is uploaded too.

    >>> files = np.array([[8, UNKNOWN, 1]])
    >>> made = commands_of(Runs(["a"], files, np.array([[0, 0, 0, 8]])), 6)
    >>> made.pieces.tolist(), made.runs.tolist()
    ([[0, 1, 0, 6], [1, 1, 6, 2]], [[0, 0, 6, 0], [0, 6, 2, 0]])
    """
    names, begins = zero_terminated(given.names)
    files = np.column_stack([begins, given.files]).astype(np.int64)
    cut = _cut(given.runs, piece_bytes)
    # Runs of a file stand together in a piece, so that it is opened once.
    number = cut[:, 2] // piece_bytes
    order = np.lexsort((cut[:, 1], cut[:, 0], number))
    (file, offset, place, size), number = cut[order].T, number[order]
    first = np.flatnonzero(np.diff(number, prepend=-1))
    counts = np.diff(first, append=len(number))
    begin = np.minimum.reduceat(place, first)
    behind = np.maximum.reduceat(place + size, first)
    pieces = np.column_stack([first, counts, begin, behind - begin])
    runs = np.column_stack([file, offset, size, place - np.repeat(begin, counts)])
    return Commands(names, files, np.ascontiguousarray(runs), pieces)


def _cut(runs: np.ndarray, piece_bytes: int) -> np.ndarray:
    """Cut runs where pieces meet."""
    file, offset, place, size = runs.T
    parts = (place + size - 1) // piece_bytes - place // piece_bytes + 1
    if (parts == 1).all():
        return runs
    whole = np.repeat(np.arange(len(runs)), parts)
    number = np.arange(len(whole)) - np.repeat(np.cumsum(parts) - parts, parts)
    begin = np.maximum(place[whole], (place[whole] // piece_bytes + number) * piece_bytes)
    behind = np.minimum(
        place[whole] + size[whole], (place[whole] // piece_bytes + number + 1) * piece_bytes
    )
    within = begin - place[whole]
    return np.column_stack([file[whole], offset[whole] + within, begin, behind - begin])

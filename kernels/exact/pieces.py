"""Pieces of outputs, which threads work on."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

T = TypeVar("T")

OutputsAt = slice | np.ndarray
"""A slab of outputs, or their numbers."""
_PIECE, _THREADS = 1 << 16, 4
"""Outputs that a thread rounds at a time, and how many threads do: others of shorter pieces wait
for each other longer than they work."""


def slabs_of(outputs: int) -> Sequence[OutputsAt]:
    """Cut all outputs into pieces."""
    return [slice(n, n + _PIECE) for n in range(0, outputs, _PIECE)]


def pieces_of(numbers: np.ndarray) -> list[np.ndarray]:
    """Cut numbers of outputs into pieces."""
    return [numbers[n : n + _PIECE] for n in range(0, len(numbers), _PIECE)]


def in_threads(task: Callable[[OutputsAt], T], pieces: Sequence[OutputsAt]) -> list[T]:
    """Do something to every piece, and return what comes of each: NumPy lets other threads run."""

    def quietly(piece: OutputsAt) -> T:
        with np.errstate(all="ignore"):  # what comes of what is no number is not certain
            return task(piece)

    if len(pieces) <= 1:
        return list(map(quietly, pieces))
    with ThreadPoolExecutor(min(_THREADS, len(os.sched_getaffinity(0)))) as pool:
        return list(pool.map(quietly, pieces))  # raises what a task raised


def unsure_of(
    attempt: Callable[[OutputsAt], np.ndarray], pieces: Sequence[OutputsAt]
) -> np.ndarray:
    """Try something on every piece; return the numbers of those outputs that it is not sure of.

    `attempt` returns which outputs of a piece it is sure of: bool, (outputs,).
    """

    def left(piece: OutputsAt) -> np.ndarray:
        places = np.flatnonzero(~attempt(piece))
        return places + piece.start if isinstance(piece, slice) else piece[places]

    return np.concatenate([np.empty(0, np.int64), *in_threads(left, pieces)])

"""Pieces of outputs that threads see to."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

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


def in_threads(task: Callable[[OutputsAt], None], pieces: Sequence[OutputsAt]) -> None:
    """Do something to every piece: NumPy lets other threads run."""

    def quietly(piece: OutputsAt) -> None:
        with np.errstate(all="ignore"):  # what comes of what is no number is not certain
            task(piece)

    if len(pieces) <= 1:
        for piece in pieces:
            quietly(piece)
        return
    with ThreadPoolExecutor(min(_THREADS, len(os.sched_getaffinity(0)))) as pool:
        list(pool.map(quietly, pieces))  # raises what a task raised

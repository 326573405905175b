"""Combine what is left of runs of tiles, where results are of several of them."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Sequence

from chunkfold.running.backend import Backend
from chunkfold.settings import wait_seconds
from chunkfold.worker.fold_block import Folded

AT_ONCE = 64
"""Roots that are combined at a time."""


def combined(backend: Backend, parts: Sequence[Folded], numbers: Iterator[int]) -> Folded:
    """Combine roots where combines run, and wait for what comes of it.

    Each combine takes one of the `numbers`, which no other of the run has.
    """
    while len(parts) > 1:
        parts = [
            _one(backend, parts[n : n + AT_ONCE], numbers) for n in range(0, len(parts), AT_ONCE)
        ]
    return parts[0]


def _one(backend: Backend, parts: Sequence[Folded], numbers: Iterator[int]) -> Folded:
    if len(parts) == 1:
        return parts[0]
    outcomes: queue.SimpleQueue[object] = queue.SimpleQueue()
    backend.combine(parts, next(numbers), outcomes.put)
    outcome = outcomes.get(timeout=wait_seconds("chunkfold.run.stall"))
    if isinstance(outcome, BaseException):
        raise outcome
    return backend.gather(outcome)

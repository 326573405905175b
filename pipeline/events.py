"""The events of a run, as typed values. Whoever shows them subscribes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from chunkfold.bad_chunks import Skipped


@dataclass(frozen=True)
class RunStarted:
    """A plan is about to be carried out."""

    run: str
    source: str
    ops: tuple[str, ...]
    blocks: int
    nbytes: int
    """Decoded bytes that the run will fold."""
    devices: Mapping[str, str]
    """Specs of its devices, by identity; with their hosts where these are several."""


@dataclass(frozen=True)
class BlockProgress:
    """The progress of a block; sent a few times a second, and when the block is done."""

    run: str
    block: int
    nbytes: int
    """Decoded bytes of stored chunks that the block has folded so far."""
    done: bool
    worker: str
    """Address of the worker; empty in this process."""
    device: str
    """Identity of its device."""
    seconds: float
    """Time since the block began."""
    attempt: int = 0
    """Number of earlier attempts at the block, on workers that were lost or stopped."""


@dataclass(frozen=True)
class BlocksCombined:
    """Partials of one tile became one."""

    run: str
    level: int
    node: int
    partials: int


@dataclass(frozen=True)
class WorkerRetired:
    """A worker could not use its device, or was stopped; its tasks went to others."""

    run: str
    worker: str
    """Its address."""
    reason: str


@dataclass(frozen=True)
class Waiting:
    """A run waits for something; sent every few seconds, for as long as it does."""

    run: str
    seconds: float
    """Time since a task ended or a worker reported progress."""
    what: str
    """The subject of the wait, in words."""


@dataclass(frozen=True)
class RunFinished:
    """A run has ended."""

    run: str
    seconds: float
    error: str | None
    """None if it has a result."""
    skipped: Skipped


Event = RunStarted | BlockProgress | BlocksCombined | WorkerRetired | Waiting | RunFinished
OnEvent = Callable[[Event], None]
"""Called from a thread of the run's; must not block."""


def to_message(event: BlockProgress) -> dict[str, Any]:
    """Return a worker's event as a message for distributed's log of events."""
    return asdict(event)


def from_message(message: dict[str, Any]) -> BlockProgress:
    """Return the event of a message."""
    return BlockProgress(**message)


def reporter(
    run: str, block: int, attempt: int, worker: str, device: str, emit: OnEvent
) -> Callable[[int, bool], None]:
    """Return the function that a block calls to report its progress."""
    began = time.monotonic()

    def progress(nbytes: int, done: bool) -> None:
        seconds = time.monotonic() - began
        emit(BlockProgress(run, block, nbytes, done, worker, device, seconds, attempt))

    return progress

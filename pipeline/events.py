"""Events of a run, as typed values. Any code that wants to show them subscribes."""

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
    """Decoded bytes that will be folded."""
    devices: Mapping[str, str]
    """Specs of the devices that will, by identity; with their hosts where there are several."""


@dataclass(frozen=True)
class BlockProgress:
    """A block has folded so much; sent a few times a second, and when the block is done."""

    run: str
    block: int
    nbytes: int
    """Decoded bytes of this block folded so far, of chunks that are stored."""
    done: bool
    worker: str
    """Address of the worker; empty in this process."""
    device: str
    """Identity of its device."""
    seconds: float
    """Since the block began."""
    attempt: int = 0
    """The number of earlier attempts, on workers that were lost or stopped."""


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
    """A run waits for something; told every few seconds, for as long as it does."""

    run: str
    seconds: float
    """Since a task ended or a worker told of progress."""
    what: str
    """The thing that the run waits for."""


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
    """Turn a worker's event into what distributed's log carries."""
    return asdict(event)


def from_message(message: dict[str, Any]) -> BlockProgress:
    """Turn it back."""
    return BlockProgress(**message)


def reporter(
    run: str, block: int, attempt: int, worker: str, device: str, emit: OnEvent
) -> Callable[[int, bool], None]:
    """Return what a block calls to report its progress."""
    began = time.monotonic()

    def progress(nbytes: int, done: bool) -> None:
        seconds = time.monotonic() - began
        emit(BlockProgress(run, block, nbytes, done, worker, device, seconds, attempt))

    return progress

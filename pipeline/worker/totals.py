"""Count the reads and folds of a block, and report its progress now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any

from chunkfold.bad_chunks import BadChunk
from chunkfold.errors import CancelledError
from chunkfold.kernels.fold.profile import Profile
from chunkfold.reading import readers

REPORT_EVERY_S = 0.25
"""Shortest time between two reports of progress, in seconds."""


@dataclass(frozen=True)
class Watch:
    """The two calls of a block to the process that started it."""

    progress: Callable[[int, bool], None]
    """Takes the bytes folded so far, and whether the block is done."""
    cancelled: Callable[[], bool]
    """Returns whether the run was cancelled."""


@dataclass
class Totals:
    """Numbers of elements and bytes that a block has read and folded, and times in seconds."""

    run: str
    watch: Watch
    missed: Sequence[set[tuple[int, ...]]] = ()
    """For each input the missing objects, where a store cannot list."""
    elements: int = 0
    nbytes: int = 0
    """Decoded bytes of stored chunks."""
    read_s: float = 0.0
    """Reading and decoding, over all threads."""
    decode_s: float = 0.0
    """Decoding, as far as it is known: a part of `read_s`."""
    upload_s: float = 0.0
    """Copying to the device, by its clock; known when the block is done."""
    fold_s: float = 0.0
    """Kernels, by the device's clock; an average over threads that fold at the same time."""
    skipped: dict[BadChunk | None, int] = field(default_factory=dict)
    """Number of skipped elements by bad chunk."""
    profiles: list[Profile] = field(default_factory=list)
    """Times of all launches."""
    stuck: bool = False
    """True if a reading thread never came back."""
    _reported: float = field(default_factory=time.monotonic)

    def launched(self, profile: Profile, at_once: int = 1) -> None:
        """Add the times of launches; `at_once`: number of threads that folded at the same time."""
        self.profiles.append(profile)
        self.fold_s += sum(times.run_ns for times in profile.values()) / 1e9 / at_once

    def check(self) -> None:
        """Raise CancelledError if the run was cancelled meanwhile."""
        if self.watch.cancelled():
            raise CancelledError(f"run {self.run} was cancelled")

    def report_progress(self, underway: int = 0) -> None:
        """Report the progress now and then: `underway` bytes more than counted here.

        It reports also if no bytes are added, as for skipped chunks: a silent run is given up.
        """
        if time.monotonic() - self._reported > REPORT_EVERY_S:
            self._reported = time.monotonic()
            self.watch.progress(self.nbytes + underway, False)

    def settle(self, futures: Collection[Future[Any]]) -> set[Future[Any]]:
        """Cancel reads that have not begun, wait for the others; return those that never end."""
        begun = [future for future in futures if not future.cancel()]
        running = wait(begun, 0.0 if self.stuck else readers.READ_DEADLINE_S).not_done
        self.stuck |= bool(running)
        return running

"""What the folding of a block has counted so far, and when it was last told."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any

from chunkfold.bad_chunks import BadChunk
from chunkfold.errors import CancelledError
from chunkfold.kernels.fold.profile import Profile
from chunkfold.reading import staging
from chunkfold.worker.watch import Watch

TELL_EVERY_S = 0.25
"""Shortest time between two reports of progress, in seconds."""


@dataclass
class Totals:
    """What a block has read and folded, and what that took, in seconds."""

    run: str
    watch: Watch
    missed: Sequence[set[tuple[int, ...]]] = ()
    """For each input the objects that are not stored, where only asking tells."""
    elements: int = 0
    nbytes: int = 0
    """Decoded bytes, of what is stored."""
    read_s: float = 0.0
    """Reading and decoding, over all threads."""
    decode_s: float = 0.0
    """Of these decoding, as far as it is known."""
    upload_s: float = 0.0
    """Copying to the device, by its clock; known when the block is done."""
    fold_s: float = 0.0
    """Kernels, by the device's clock; those of threads that fold at once count as one."""
    skipped: dict[BadChunk | None, int] = field(default_factory=dict)
    """Elements left out for each bad chunk."""
    profiles: list[Profile] = field(default_factory=list)
    """Times of all launches."""
    stuck: bool = False
    """Whether a reading thread never came back."""
    _told: float = field(default_factory=time.monotonic)

    def launched(self, profile: Profile, at_once: int = 1) -> None:
        """Add the times of launches, of so many threads that folded at once."""
        self.profiles.append(profile)
        self.fold_s += sum(times.run_ns for times in profile.values()) / 1e9 / at_once

    def check(self) -> None:
        """Raise CancelledError if the run was cancelled meanwhile."""
        if self.watch.cancelled():
            raise CancelledError(f"run {self.run} was cancelled")

    def tell(self, underway: int = 0) -> None:
        """Report now and then that the block goes on: `underway` bytes more than counted here.

        Also where bytes do not grow, as with chunks that are left out: a run that nothing is heard
        of is given up.
        """
        if time.monotonic() - self._told > TELL_EVERY_S:
            self._told = time.monotonic()
            self.watch.progress(self.nbytes + underway, False)

    def settle(self, futures: Collection[Future[Any]]) -> set[Future[Any]]:
        """Drop reads that have not begun, wait for the others; return those that never end."""
        begun = [future for future in futures if not future.cancel()]
        running = wait(begun, 0.0 if self.stuck else staging.READ_DEADLINE_S).not_done
        self.stuck |= bool(running)
        return running

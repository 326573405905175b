"""What the folding of a block has counted so far, and when it was last told."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from chunkfold.errors import CancelledError
from chunkfold.kernels.profile import Profile
from chunkfold.work import Watch

TELL_EVERY_S = 0.25
"""Shortest time between two reports of progress, in seconds."""


@dataclass
class Tally:
    """What a block has read and folded, and what that took, in seconds."""

    run: str
    watch: Watch
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
    skipped: dict[str, int] = field(default_factory=dict)
    """Elements left out, by what was wrong with their chunks."""
    profiles: list[Profile] = field(default_factory=list)
    """Times of all launches."""
    stuck: bool = False
    """Whether a reading thread never came back."""
    _told: float = field(default_factory=time.monotonic)
    _told_bytes: int = 0

    def launched(self, profile: Profile, at_once: int = 1) -> None:
        """Add the times of launches, of so many threads that folded at once."""
        self.profiles.append(profile)
        self.fold_s += sum(times.run_ns for times in profile.values()) / 1e9 / at_once

    def tell(self, underway: int = 0) -> None:
        """Report progress now and then, if there is any: `underway` bytes more than counted here.

        Raises
        ------
        CancelledError
            If the run was cancelled meanwhile.
        """
        if self.watch.cancelled():
            raise CancelledError(f"run {self.run} was cancelled")
        nbytes = self.nbytes + underway
        if nbytes > self._told_bytes and time.monotonic() - self._told > TELL_EVERY_S:
            self._told, self._told_bytes = time.monotonic(), nbytes
            self.watch.progress(nbytes, False)

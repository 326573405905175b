"""Time that passes for a process: not while it is stopped, or its host sleeps."""

from __future__ import annotations

import time

_AWAKE_S = 2.0
"""Most that one look at the clock adds: a process that was stopped for longer did not wait."""


class Awake:
    """Seconds that this process has waited, as long as it asks every `_AWAKE_S` at least.

    What it was stopped for, or slept with its host, does not count: nothing could come meanwhile.
    """

    def __init__(self) -> None:
        self._last, self._seconds = time.monotonic(), 0.0

    def seconds(self) -> float:
        """Return them."""
        now = time.monotonic()
        self._seconds += min(now - self._last, _AWAKE_S)
        self._last = now
        return self._seconds

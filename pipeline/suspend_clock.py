"""A clock of a process that stands still while the process is stopped, or its host sleeps."""

from __future__ import annotations

import time

_MOST_STEP_S = 2.0
"""Most that one look at the clock adds: a process that was stopped for longer did not wait."""


class SuspendClock:
    """Counts seconds of waiting, if it is read at least every `_MOST_STEP_S`.

    Time for which the process was stopped, or its host slept, does not count.
    """

    def __init__(self) -> None:
        self._last, self._seconds = time.monotonic(), 0.0

    def seconds(self) -> float:
        """Return the seconds since the clock was made."""
        now = time.monotonic()
        self._seconds += min(now - self._last, _MOST_STEP_S)
        self._last = now
        return self._seconds

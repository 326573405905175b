"""Requests to near servers, each made by the thread that waits for it.

Far servers need many requests in flight, which an event loop keeps (`requests.py`). There each
answer passes through four threads, each of which takes Python's lock. A near server answers sooner
than that takes: threads that wait for their own requests read it faster. So threads begin with a
server, and go on while they gain time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

NEAR_BYTES = 2 << 20
"""Larger objects are left to the event loop: it costs them little, and bounds bytes in flight."""
TIMEOUT = timedelta(seconds=1)
"""Longest time of a request: the event loop repeats those that take longer."""
_LOOP_S = 0.3e-3
"""Seconds between two answers of an event loop that has many."""
_BYTES_PER_S = 1e9
"""Rate at which the bytes of an answer come from a near server, at least."""
_MOST_S = 0.1
"""Seconds gained that count, at most, and at first: a slow server is noticed after those."""
_FAR_S = 60.0
"""Seconds after which a server that was slow is tried again, by the next block."""


@dataclass
class NearServer:
    """Time gained and lost where threads ask a server themselves; any thread calls it."""

    ended: Callable[[], None] = lambda: None
    """Called after each request."""
    flying: int = 0
    """Requests in flight."""
    gained_s: float = _MOST_S
    """Seconds by which answers came sooner than by the event loop; negative if later."""
    _made: int = 0
    _asked: float = 0.0
    """When a thread asked last."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self) -> None:
        """Try it again where it was slow, but long ago: a block begins."""
        with self._lock:
            if self.gained_s < 0 and time.monotonic() - self._asked > _FAR_S:
                self.gained_s = _MOST_S

    def is_asked(self, nbytes: int) -> bool:
        """Return True if a thread should ask for an object of so many bytes by itself."""
        return nbytes <= NEAR_BYTES and self.gained_s >= 0

    def taken(self) -> int:
        """Return how many requests were made since this was called last."""
        with self._lock:
            made, self._made = self._made, 0
        return made

    @contextmanager
    def request(self, nbytes: int, most: int) -> Iterator[bool]:
        """Time a request for so many bytes; False if `most` are in flight, and none is to be made.

        One that fails counts as one that takes the longest time.
        """
        cores = len(os.sched_getaffinity(0))
        with self._lock:
            free = self.flying < most
            self.flying += free
            self._made += free
        began, took = time.monotonic(), TIMEOUT.total_seconds()
        try:
            yield free
            took = time.monotonic() - began
        finally:
            if free:
                gained = cores * _LOOP_S + nbytes / _BYTES_PER_S - took
                with self._lock:
                    self.flying -= 1
                    self._asked = time.monotonic()
                    self.gained_s = min(_MOST_S, self.gained_s + gained)
                self.ended()

"""The state of each server that gets requests, and the order of the requests that wait for it.

A `RequestLimit` finds the number in flight: one more with each answer, half as many when a server
is overloaded (429, 503) or does not answer in time. If the server also says how long to wait
(`Retry-After`), it gets no request before.
"""

from __future__ import annotations

import asyncio
import collections
import math
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from chunkfold.stores.hedged_requests import Patience
from chunkfold.stores.near_requests import NearServer
from chunkfold.stores.request_limit import RequestLimit
from chunkfold.stores.retry_after import too_long
from chunkfold.stores.transient_faults import Fault

BACKOFF_S = (0.1, 5.0)
"""First and longest pause between two tries, before jitter."""
ASKED_AGAIN_S = (5.0, 60.0)
"""First and longest time until a server is asked again when it wants to be, if it did not say."""
_EARLY_S = 0.002
"""Time that an event loop's clock may come early: uvloop counts milliseconds."""
RetryDelay = Callable[[BaseException], Awaitable[float]]
"""Asks a server that refused for how many seconds it wants to be left alone; 0 if for none."""


@dataclass
class _Turn:
    """A request that waits."""

    comes: asyncio.Future[None]
    allowed: float
    """Seconds for which it may be made again."""


class Server:
    """One server: only the event loop's thread calls it, but for `taken`, `room`, `near`."""

    def __init__(self, request_limit: RequestLimit, loop: asyncio.AbstractEventLoop) -> None:
        self.request_limit, self._loop = request_limit, loop
        self.patience = Patience()
        self.near = NearServer(self._near_ended)
        self._first, self._waiting = collections.deque[_Turn](), collections.deque[_Turn]()
        self._flying = 0
        self._failed = 0
        """Requests that failed since one was answered."""
        self._opens = -math.inf
        """When it may be asked again, by what it said."""
        self._asking = False
        """Whether it is being asked when it wants to be; nothing else is asked meanwhile."""
        self._ask_again = -math.inf
        """When that may be asked again: most servers never say it."""
        self._unsaid_s = ASKED_AGAIN_S[0]
        self._waits, self._longest_s = 0, 0.0

    async def turn(self, allowed: float, *, first: bool) -> None:
        """Wait until one more request may be in flight; those that were made before come `first`.

        Raises
        ------
        RefusedError
            If the server wants to be left alone for longer than `allowed` seconds.
        """
        closed = self._opens - time.monotonic()
        if closed > allowed:
            raise too_long(closed, allowed)
        if self._open and not self._first and (first or not self._waiting):
            self._flying += 1
            return
        turn = _Turn(self._loop.create_future(), allowed)
        (self._first if first else self._waiting).append(turn)
        try:
            await turn.comes
        except asyncio.CancelledError:
            if turn.comes.done() and not turn.comes.cancelled():
                self.ended()
            raise

    def ended(self) -> None:
        """Make room for another request: one is not in flight any more."""
        self._flying -= 1
        self._admit()

    def answered(self, since: float) -> None:
        """Hear of an answer to a request that was made `since`."""
        self._failed = 0
        self.request_limit.answered(since, time.monotonic())

    def failed(self, fault: Fault, since: float) -> bool:
        """Hear of a failure what it says; return whether to ask when it wants to be asked again."""
        now = time.monotonic()
        self._failed += 1
        if fault.busy:
            self.request_limit.refused(since, now)
        known = self._asking or now < max(self._opens, self._ask_again)
        return fault.answered and not known

    async def hear(self, wanted: Awaitable[float]) -> None:
        """Ask it how long it wants to be left alone, and leave it."""
        self._asking = True
        try:
            seconds = await wanted
        finally:
            self._asking = False
        now = time.monotonic()
        if not seconds:
            self._ask_again = now + self._unsaid_s
            self._unsaid_s = min(2 * self._unsaid_s, ASKED_AGAIN_S[1])
            return
        self._opens, self._unsaid_s = now + seconds, ASKED_AGAIN_S[0]
        self._waits += 1
        self._longest_s = max(self._longest_s, seconds)
        for turn in (*self._first, *self._waiting):
            if seconds > turn.allowed and not turn.comes.done():
                turn.comes.set_exception(too_long(seconds, turn.allowed))
        self._open_again()

    def pause(self, tries: int, allowed: float, passed: float) -> float:
        """Return how long to wait before another try, in seconds.

        Longer each time, but where others are answered; and never all at once.

        Raises
        ------
        RefusedError
            If it wants to be left alone for longer than is left of `allowed`.
        """
        least, most = BACKOFF_S
        longer = least * 2.0 ** min(tries, self._failed.bit_length())
        closed = max(0.0, self._opens - time.monotonic())
        if closed and passed + closed > allowed:
            raise too_long(closed, allowed, passed)
        return closed + random.uniform(least, max(least, min(most, longer)))

    def taken(self) -> tuple[int, float]:
        """Return how often it said when it wants to be asked again, and the longest time, anew."""
        waits, longest = self._waits, self._longest_s
        self._waits -= waits
        self._longest_s = 0.0
        return waits, longest

    @property
    def room(self) -> int:
        """Number of requests more that may be in flight; 0 while it refuses some."""
        limit = self.request_limit
        refuses = self._failed or self._asking or limit.limit < limit.most
        return 0 if refuses or time.monotonic() < self._opens else limit.most - self._flying

    @property
    def _open(self) -> bool:
        """Return True if one more request may be made."""
        flying = self._flying + self.near.flying
        there_is_room = flying < int(self.request_limit.limit)
        return there_is_room and not self._asking and time.monotonic() >= self._opens

    def _near_ended(self) -> None:
        """Admit a request that waits, in the place of one that a thread made by itself."""
        if self._first or self._waiting:
            self._loop.call_soon_threadsafe(self._admit)

    def _open_again(self) -> None:
        """Admit requests after a pause: clocks of event loops may come early."""
        if (closed := self._opens - time.monotonic()) > 0:
            self._loop.call_later(closed + _EARLY_S, self._open_again)
        else:
            self._admit()

    def _admit(self) -> None:
        while turns := self._first or self._waiting:
            if not (turns[0].comes.done() or self._open):
                return
            turn = turns.popleft()
            if not turn.comes.done():
                self._flying += 1
                turn.comes.set_result(None)

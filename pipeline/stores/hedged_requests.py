"""Ask again beside a request that takes long: some answers of most servers are late by seconds.

How long is long is measured, server by server; and where those that are asked beside come later
than those that were asked first, the server is only slow, and longer is waited from then on.
"""

from __future__ import annotations

import asyncio
import collections
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

_FEW, _KEPT = 16, 128
"""Answers of which the time is known, before it tells anything, and of which it is kept."""
_SHARE = 0.95
"""The share of answers that are not late."""
_TIMES = (3.0, 96.0)
"""So many times as long as these take, at least and at most."""
_LEAST_S = 0.25
"""Shortest time that is long."""
_UNKNOWN_S = 5.0
"""Seconds after which a request is late while few answers came."""
_LONGER = 1.5
"""Factor by which the wait grows with each additional request."""
_QUIET_S = 1.0
"""Seconds without an answer after which all requests in flight count as stalled."""
_LOOK_S = 0.5
"""Seconds between updates of the time after which a request is late."""
Response = TypeVar("Response")


@dataclass
class Patience:
    """The time that answers of a server may take before a second request is made."""

    _seconds: collections.deque[float] = field(
        default_factory=lambda: collections.deque(maxlen=_KEPT)
    )
    _times: float = _TIMES[0]
    _answered: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """So long."""
        if len(self._seconds) < _FEW:
            return _UNKNOWN_S
        late = sorted(self._seconds)[int(_SHARE * len(self._seconds))]
        return max(_LEAST_S, self._times * late)

    @property
    def quiet(self) -> float:
        """Return for how many seconds nothing was answered."""
        return time.monotonic() - self._answered

    def answered(self, seconds: float) -> None:
        """Hear of an answer that took so long."""
        self._answered = time.monotonic()
        self._seconds.append(seconds)

    def judge(self, *, helped: bool) -> None:
        """Hear whether it helped to ask beside."""
        least, most = _TIMES
        self._times = max(least, self._times / 2) if helped else min(most, self._times * 2)


class Turns(Protocol):
    """Whose turn it is at a server: `servers.Server`."""

    patience: Patience

    async def turn(self, allowed: float, *, first: bool) -> None:
        """Wait until one more request may be in flight."""

    def ended(self) -> None:
        """Make room for another request."""


async def first_answer(
    server: Turns, request: Callable[[], Awaitable[Response]], made: Callable[[], None]
) -> Response:
    """Make a request, and again beside it if it takes long; return what is answered first.

    The caller has a turn, and keeps it; `made` is called for each request more. There are two at
    most: then a new one takes the place of the newer, for the older may only be long. Where nothing
    of all that the server was asked is answered no turn comes, and it takes the place of the one.

    Raises
    ------
    Exception
        The failure of the last request that is left.
    """
    asking = _Asking(server, request, made)
    try:
        while True:
            await asking.wait()
            found = asking.answered()
            if found is not None:
                return found.result()
            asking.go_on()
    finally:
        asking.end()


class _Asking(Generic[Response]):
    """A request, and those that are made beside it."""

    def __init__(
        self, server: Turns, request: Callable[[], Awaitable[Response]], made: Callable[[], None]
    ) -> None:
        self._server, self._request, self._made = server, request, made
        self._asked: list[tuple[asyncio.Future[Response], float]] = []
        """In flight, the oldest first, and when they were asked."""
        self._turn: asyncio.Future[None] | None = None
        """Of one more, when it is asked for."""
        self._since, self._times = time.monotonic(), 1.0
        self._ask()

    @property
    def _left(self) -> float:
        """Seconds until it takes long."""
        long = self._server.patience.seconds * self._times
        return self._since + long - time.monotonic()

    async def wait(self) -> None:
        """Wait until something happens, or it takes long."""
        futures: list[asyncio.Future[Any]] = [one for one, _ in self._asked]
        if self._turn is not None:
            futures.append(self._turn)
        left = min(_LOOK_S, max(0.0, self._left))
        await asyncio.wait(futures, timeout=left, return_when=asyncio.FIRST_COMPLETED)

    def answered(self) -> asyncio.Future[Response] | None:
        """Return the request that was answered, or failed as the last one; drop others that did."""
        for n, (one, began) in enumerate(self._asked.copy()):
            if not one.done():
                continue
            if one.exception() is None:
                self._server.patience.answered(time.monotonic() - began)
                if len(self._asked) > 1:
                    self._server.patience.judge(helped=n > 0)
                return one
            if len(self._asked) == 1:
                return one
            self._asked.remove((one, began))
            self._server.ended()
        return None

    def go_on(self) -> None:
        """Make a request more if its turn has come, or ask for a turn if it takes long."""
        if self._turn is not None and self._turn.done():
            self._turn = None
            self._ask_again()
        elif self._left > 0:
            return
        elif len(self._asked) > 1 or (self._turn and self._server.patience.quiet > _QUIET_S):
            self._asked.pop()[0].cancel()
            self._ask_again()
        else:
            if self._turn is None:
                self._turn = asyncio.ensure_future(self._server.turn(math.inf, first=True))
            self._since = time.monotonic()

    def _ask_again(self) -> None:
        self._ask()
        self._made()
        self._since, self._times = time.monotonic(), self._times * _LONGER

    def _ask(self) -> None:
        self._asked.append((asyncio.ensure_future(self._request()), time.monotonic()))

    def end(self) -> None:
        """Drop what is in flight, and give the turns back but the caller's."""
        for one, _ in self._asked:
            if one.done() and not one.cancelled():
                one.exception()  # nobody's any more
            one.cancel()
        for _ in self._asked[1:]:
            self._server.ended()
        if self._turn is not None and not self._turn.cancel() and not self._turn.cancelled():
            self._server.ended()

"""Requests in flight: many at once on one thread, as many as a host answers well.

Objects behind a network are waited for, mostly: a request of 100 ms costs a millisecond of work. So
few threads decode, and one thread with an event loop keeps requests in flight for all of them.
How many is found out as TCP finds out its window: one more with each answer, half as many where a
server says that it has too much to do (429, 503) or does not answer in time.
"""

from __future__ import annotations

import asyncio
import collections
import math
import random
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from chunkfold.awake import Awake

REQUESTS = 100
"""Most requests in flight for each host, of all workers of one machine together."""
FLIGHT_BYTES = 128 << 20
"""Bytes that a worker has in flight or waits to decode: a hundred chunks of 1 MB."""
RETRY_S = 60.0
"""How long a request is tried again that fails by the server's or the network's fault."""
BACKOFF_S = (0.1, 5.0)
"""First and longest pause between two tries, before jitter."""
_KNEE = 0.9
"""Share of the requests at which a host had too much to do that it is taken to bear."""
_SLOW = 2
"""Answers for each request in flight that it takes to try one more beyond that."""
_FORGOTTEN_S = 10.0
"""How long it is kept in mind what a host bore."""
Answer = TypeVar("Answer")
Request = Callable[[], Awaitable[Answer]]
Passing = Callable[[BaseException], "Fault | None"]
"""Tells of a failure whether it may pass, and what it says of the server."""


@dataclass(frozen=True)
class Fault:
    """A failure that may pass."""

    busy: bool
    """Whether the server has too much to do, or did not answer in time."""


@dataclass
class Window:
    """How many requests one host is asked at once."""

    most: int
    limit: float = 0.0
    """So many, for now."""
    least: float = 0.0
    """The fewest that they were."""
    knee: float = math.inf
    """What the host bore when it last had too much to do, about: the window grows to it fast."""
    halved: float = -math.inf
    """When the window was halved last."""

    def __post_init__(self) -> None:
        self.limit = self.least = float(self.most)

    def answered(self, now: float) -> None:
        """Grow by one with each answer; beyond the knee slowly, until that is long ago."""
        if now - self.halved > _FORGOTTEN_S:
            self.knee = math.inf
        more = 1.0 if self.limit + 1 <= self.knee else 1.0 / (_SLOW * self.limit)
        self.limit = min(float(self.most), self.limit + more)

    def refused(self, began: float, now: float) -> None:
        """Halve it, once for all requests that were in flight together."""
        if began < self.halved:
            return
        self.knee = max(1.0, _KNEE * self.limit)
        self.limit = max(1.0, self.limit / 2)
        self.least = min(self.least, self.limit)
        self.halved = now


@dataclass(frozen=True)
class Requests:
    """What happened to requests."""

    made: int = 0
    again: int = 0
    """Of these, those that were made again, after a failure that may pass."""
    most: int = 0
    """Requests in flight for one host that one worker may have."""
    fewest: int = 0
    """The fewest that these came down to, as servers had too much to do."""

    def __add__(self, other: Requests) -> Requests:
        fewest = min(filter(None, (self.fewest, other.fewest)), default=0)
        most = max(self.most, other.most)
        return Requests(self.made + other.made, self.again + other.again, most, fewest)


class Landing(Future[Answer]):
    """An answer that will come, and the bytes that are set aside for it until it is closed."""

    give_back: Callable[[], None] | None = None

    def close(self) -> None:
        """Give the bytes back, for they are used; or drop the request."""
        self.cancel()
        give_back, self.give_back = self.give_back, None
        if give_back is not None:
            give_back()

    def __del__(self) -> None:
        self.close()  # who asked may have ended by an error


@dataclass
class _Host:
    window: Window
    waiting: collections.deque[asyncio.Future[None]] = field(default_factory=collections.deque)
    flying: int = 0


class Flight:
    """Keeps requests of this process in flight, bounded in number for each host, and in bytes."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._hosts: dict[str, _Host] = {}
        self._most, self._bytes, self._retry_s = REQUESTS, FLIGHT_BYTES, RETRY_S
        self._held = 0
        self._for_bytes: collections.deque[tuple[int, asyncio.Future[None]]] = collections.deque()
        self._made = self._again = 0
        threading.Thread(
            target=self._loop.run_forever, name="chunkfold-flight", daemon=True
        ).start()

    def bound(self, requests: int, nbytes: int, retry_s: float) -> None:
        """Set the most requests for each host, the most bytes of all, and how long to try again."""
        self._loop.call_soon_threadsafe(self._bound, requests, nbytes, retry_s)

    def _bound(self, requests: int, nbytes: int, retry_s: float) -> None:
        self._most, self._bytes, self._retry_s = requests, nbytes, retry_s
        for host in self._hosts.values():
            host.window.most = requests
            host.window.limit = min(host.window.limit, float(requests))

    def start(
        self, nbytes: int, coroutine: Callable[[], Coroutine[Any, Any, Answer]]
    ) -> Landing[Answer]:
        """Start what makes requests by `ask`, once there is room for so many bytes.

        Those that are started first have room first, so that whoever waits for the next in turn
        never waits for room that later ones have.
        """
        landing: Landing[Answer] = Landing()

        async def run() -> None:
            await self._room(nbytes)
            if not landing.set_running_or_notify_cancel():
                self._give_back(nbytes)
                return
            landing.give_back = lambda: self._later(self._give_back, nbytes)
            try:
                landing.set_result(await coroutine())
            except BaseException as error:  # noqa: BLE001 # for whoever waits for it
                landing.set_exception(error)

        asyncio.run_coroutine_threadsafe(run(), self._loop)
        return landing

    def waited(self, coroutine: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        """Wait for what makes requests by `ask`, beside what was started."""
        return asyncio.run_coroutine_threadsafe(coroutine(), self._loop).result()

    def _later(self, task: Callable[..., None], *given: Any) -> None:
        self._loop.call_soon_threadsafe(task, *given)

    async def _room(self, nbytes: int) -> None:
        if self._for_bytes or (self._held and self._held + nbytes > self._bytes):
            turn: asyncio.Future[None] = self._loop.create_future()
            self._for_bytes.append((nbytes, turn))
            await turn
        else:
            self._held += nbytes

    def _give_back(self, nbytes: int) -> None:
        self._held -= nbytes
        while self._for_bytes:
            wanted, turn = self._for_bytes[0]
            if self._held and self._held + wanted > self._bytes:
                break
            self._for_bytes.popleft()
            self._held += wanted
            turn.set_result(None)

    async def ask(self, host: str, request: Request[Answer], passing: Passing) -> Answer:
        """Make a request, and again while what fails may pass.

        Raises
        ------
        Exception
            The last failure.
        """
        there = self._hosts.setdefault(host, _Host(Window(self._most)))
        awake, tries = Awake(), 0
        while True:
            await self._turn(there)
            since = time.monotonic()
            self._made += 1
            try:
                answer = await awake.during(request())
            except Exception as error:
                fault = passing(error)
                if fault is not None and fault.busy:
                    there.window.refused(since, time.monotonic())
                tries += 1
                pause = _pause(tries)
                if fault is None or awake.seconds() + pause > self._retry_s:
                    raise
                self._again += 1
            else:
                there.window.answered(time.monotonic())
                return answer
            finally:
                there.flying -= 1
                self._admit(there)
            await awake.during(asyncio.sleep(pause))

    def taken(self) -> Requests:
        """Return what happened since this was asked last."""
        made, again = self._made, self._again
        self._made -= made
        self._again -= again
        least = [host.window.least for host in list(self._hosts.values())]
        return Requests(made, again, self._most, int(min(least, default=0)))

    async def _turn(self, host: _Host) -> None:
        """Wait until one more request may be in flight."""
        if host.flying < int(host.window.limit) and not host.waiting:
            host.flying += 1
            return
        turn: asyncio.Future[None] = self._loop.create_future()
        host.waiting.append(turn)
        await turn

    def _admit(self, host: _Host) -> None:
        while host.waiting and host.flying < int(host.window.limit):
            host.flying += 1
            host.waiting.popleft().set_result(None)


def _pause(tries: int) -> float:
    """Return how long to wait before another try: longer each time, and never all at once."""
    least, most = BACKOFF_S
    return random.uniform(least, max(least, min(most, least * 2.0**tries)))


_kept: list[Flight] = []
_making = threading.Lock()


def flight() -> Flight:
    """Return this process's, which begins with the first request."""
    with _making:
        if not _kept:
            _kept.append(Flight())
        return _kept[0]

"""Requests in flight: many at once on one thread, as many as a host answers well.

Objects behind a network are waited for, mostly: a request of 100 ms costs a millisecond of work. So
few threads decode, and one thread with an event loop keeps requests in flight for all of them.
How many is found out by a `Window`: one more with each answer, half as many where a server says
that it has too much to do (429, 503) or does not answer in time. Where it says as well when it
wants to be asked again (`Retry-After`), nothing is asked of it before.
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
from chunkfold.settings import REQUESTS, RETRY_S
from chunkfold.stores.request_window import Window
from chunkfold.stores.retry_after import too_long
from chunkfold.stores.transient_faults import Fault

FLIGHT_BYTES = 128 << 20
"""Bytes that a worker has in flight or waits to decode: a hundred chunks of 1 MB."""
BACKOFF_S = (0.1, 5.0)
"""First and longest pause between two tries, before jitter."""
_LOOK_S = 1.0
"""How often it is looked how long requests have waited."""
ASKED_AGAIN_S = (5.0, 60.0)
"""First and longest time until a server is asked again when it wants to be, if it did not say."""
Answer = TypeVar("Answer")
Request = Callable[[], Awaitable[Answer]]
Passing = Callable[[BaseException], Fault | None]
"""Tells of a failure whether it may pass, and what it says of the server."""
Wanted = Callable[[BaseException], Awaitable[float]]
"""Asks a server that refused for how many seconds it wants to be left alone; 0 if for none."""


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
    waits: int = 0
    """How often a server said when it wants to be asked again (`Retry-After`)."""
    longest_wait_s: float = 0.0
    """The longest of those times."""

    def __add__(self, other: Requests) -> Requests:
        fewest = min(filter(None, (self.fewest, other.fewest)), default=0)
        most = max(self.most, other.most)
        return Requests(
            self.made + other.made,
            self.again + other.again,
            most,
            fewest,
            self.waits + other.waits,
            max(self.longest_wait_s, other.longest_wait_s),
        )


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
    waiting: collections.deque[_Turn] = field(default_factory=collections.deque)
    flying: int = 0
    failed: int = 0
    """Requests that failed since one was answered."""
    opens: float = -math.inf
    """When it may be asked again, by what it said."""
    asking: bool = False
    """Whether it is being asked when it wants to be; nothing else is asked meanwhile."""
    ask_again: float = -math.inf
    """When that may be asked again: most servers never say it."""
    unsaid_s: float = ASKED_AGAIN_S[0]

    @property
    def open(self) -> bool:
        """Whether one more request may be made."""
        there_is_room = self.flying < int(self.window.limit)
        return there_is_room and not self.asking and time.monotonic() >= self.opens


@dataclass
class _Turn:
    """A request that waits."""

    comes: asyncio.Future[None]
    allowed: float
    """Seconds for which it may be made again."""


class Flight:
    """Keeps requests of this process in flight, bounded in number for each host, and in bytes."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._hosts: dict[str, _Host] = {}
        self._most, self._bytes, self._retry_s = REQUESTS, FLIGHT_BYTES, RETRY_S
        self._held = 0
        self._for_bytes: collections.deque[tuple[int, asyncio.Future[None]]] = collections.deque()
        self._made = self._again = self._waits = 0
        self._longest_s = 0.0
        self._awake = Awake()
        self._loop.call_soon(self._look)
        threading.Thread(
            target=self._loop.run_forever, name="chunkfold-flight", daemon=True
        ).start()

    def _look(self) -> None:
        """Keep the clock of all requests going; one for each would take as long as they do."""
        self._awake.seconds()
        self._loop.call_later(_LOOK_S, self._look)

    def bound(self, requests: int, nbytes: int, retry_s: float) -> None:
        """Set the most requests for each host, the most bytes of all, and how long to try again."""
        self._loop.call_soon_threadsafe(self._bound, requests, nbytes, retry_s)

    def _bound(self, requests: int, nbytes: int, retry_s: float) -> None:
        self._most, self._bytes, self._retry_s = requests, nbytes, retry_s
        for host in self._hosts.values():
            host.window.bound(requests)

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
            answering = asyncio.ensure_future(coroutine())
            landing.give_back = lambda: self._later(self._end, answering, nbytes)
            try:
                landing.set_result(await answering)
            except BaseException as error:  # noqa: BLE001 # for whoever waits for it
                landing.set_exception(error)

        asyncio.run_coroutine_threadsafe(run(), self._loop)
        return landing

    def waited(self, coroutine: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        """Wait for what makes requests by `ask`, beside what was started."""
        return asyncio.run_coroutine_threadsafe(coroutine(), self._loop).result()

    async def beside(self, coroutine: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        """As `waited`, of another event loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine(), self._loop))

    def _later(self, task: Callable[..., None], *given: Any) -> None:
        self._loop.call_soon_threadsafe(task, *given)

    async def _room(self, nbytes: int) -> None:
        if self._for_bytes or (self._held and self._held + nbytes > self._bytes):
            turn: asyncio.Future[None] = self._loop.create_future()
            self._for_bytes.append((nbytes, turn))
            await turn
        else:
            self._held += nbytes

    def _end(self, answering: asyncio.Future[Any], nbytes: int) -> None:
        """Give bytes back; a request that nobody waits for any more is not made again."""
        answering.cancel()
        self._give_back(nbytes)

    def _give_back(self, nbytes: int) -> None:
        self._held -= nbytes
        while self._for_bytes:
            wanted, turn = self._for_bytes[0]
            if self._held and self._held + wanted > self._bytes:
                break
            self._for_bytes.popleft()
            self._held += wanted
            turn.set_result(None)

    async def ask(
        self,
        host: str,
        request: Request[Answer],
        passing: Passing,
        wanted: Wanted | None = None,
        retry_s: float | None = None,
    ) -> Answer:
        """Make a request, and again while what fails may pass, for so many seconds.

        Raises
        ------
        RefusedError
            If the server wants to be left alone for longer than that.
        Exception
            The last failure.
        """
        there = self._hosts.setdefault(host, _Host(Window(self._most)))
        allowed = self._retry_s if retry_s is None else retry_s
        began, tries = 0.0, 0
        while True:
            await self._turn(there, allowed, first=bool(tries))
            began = began if tries else self._awake.seconds()
            since = time.monotonic()
            self._made += 1
            try:
                answer = await request()
            except Exception as error:
                fault = passing(error)
                if fault is None:
                    raise
                tries += 1
                await self._failed(there, error, fault, since, wanted)
                passed = self._awake.seconds() - began
                pause = self._pause(there, tries, allowed, passed)
                if passed + pause > allowed:
                    raise
                self._again += 1
            else:
                there.failed = 0
                there.window.answered(since, time.monotonic())
                return answer
            finally:
                there.flying -= 1
                self._admit(there)
            await asyncio.sleep(pause)

    async def _failed(
        self, host: _Host, error: Exception, fault: Fault, since: float, wanted: Wanted | None
    ) -> None:
        """Hear of a failure what it says of the host."""
        now = time.monotonic()
        host.failed += 1
        if fault.busy:
            host.window.refused(since, now)
        known = host.asking or now < max(host.opens, host.ask_again)
        if fault.answered and wanted is not None and not known:
            await self._hear(host, wanted(error))

    async def _hear(self, host: _Host, wanted: Awaitable[float]) -> None:
        """Ask a host how long it wants to be left alone, and leave it."""
        host.asking = True
        self._made += 1
        self._again += 1
        try:
            seconds = await wanted
        finally:
            host.asking = False
        now = time.monotonic()
        if not seconds:
            host.ask_again = now + host.unsaid_s
            host.unsaid_s = min(2 * host.unsaid_s, ASKED_AGAIN_S[1])
            return
        host.opens, host.unsaid_s = now + seconds, ASKED_AGAIN_S[0]
        self._waits += 1
        self._longest_s = max(self._longest_s, seconds)
        for turn in host.waiting:
            if seconds > turn.allowed and not turn.comes.done():
                turn.comes.set_exception(too_long(seconds, turn.allowed))
        self._loop.call_later(seconds, self._admit, host)

    def _pause(self, host: _Host, tries: int, allowed: float, passed: float) -> float:
        """Return how long to wait before another try.

        Longer each time, but where others are answered; and never all at once.
        """
        least, most = BACKOFF_S
        longer = least * 2.0 ** min(tries, host.failed.bit_length())
        closed = max(0.0, host.opens - time.monotonic())
        if closed and passed + closed > allowed:
            raise too_long(closed, allowed, passed)
        return closed + random.uniform(least, max(least, min(most, longer)))

    def taken(self) -> Requests:
        """Return what happened since this was asked last."""
        made, again, waits, longest = self._made, self._again, self._waits, self._longest_s
        self._made -= made
        self._again -= again
        self._waits -= waits
        self._longest_s = 0.0
        least = [host.window.least for host in list(self._hosts.values())]
        return Requests(made, again, self._most, int(min(least, default=0)), waits, longest)

    async def _turn(self, host: _Host, allowed: float, *, first: bool) -> None:
        """Wait until one more request may be in flight; those that failed before come `first`."""
        closed = host.opens - time.monotonic()
        if closed > allowed:
            raise too_long(closed, allowed)
        if host.open and not host.waiting:
            host.flying += 1
            return
        turn = _Turn(self._loop.create_future(), allowed)
        (host.waiting.appendleft if first else host.waiting.append)(turn)
        try:
            await turn.comes
        except asyncio.CancelledError:
            if turn.comes.done() and not turn.comes.cancelled():
                host.flying -= 1
                self._admit(host)
            raise

    def _admit(self, host: _Host) -> None:
        while host.waiting and (host.waiting[0].comes.done() or host.open):
            turn = host.waiting.popleft()
            if not turn.comes.done():
                host.flying += 1
                turn.comes.set_result(None)


_kept: list[Flight] = []
_making = threading.Lock()


def flight() -> Flight:
    """Return this process's, which begins with the first request."""
    with _making:
        if not _kept:
            _kept.append(Flight())
        return _kept[0]

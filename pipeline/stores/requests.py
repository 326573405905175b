"""Requests in flight: many at once on one thread, as many as a server answers well.

Objects behind a network are waited for, mostly: a request of 100 ms costs a millisecond of work. So
few threads decode, and one thread with an event loop keeps requests in flight for all of them.
Whose turn it is at a host is in `servers.py`.
"""

from __future__ import annotations

import asyncio
import collections
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from chunkfold.settings import REQUESTS, RETRY_S
from chunkfold.stores.hedged_requests import Response, first_answer
from chunkfold.stores.request_limit import RequestLimit
from chunkfold.stores.servers import RetryDelay, Server
from chunkfold.stores.transient_faults import Fault
from chunkfold.suspend_clock import SuspendClock

FLIGHT_BYTES = 128 << 20
"""Bytes that a worker has in flight or waits to decode: a hundred chunks of 1 MB."""
_LOOK_S = 1.0
"""Seconds between checks for requests that have waited too long."""
RemoteRequest = Callable[[], Awaitable[Response]]
Passing = Callable[[BaseException], Fault | None]
"""Tells of a failure whether it may pass, and what it says of the server."""


@dataclass(frozen=True)
class Requests:
    """Counts of requests and of their outcomes."""

    made: int = 0
    again: int = 0
    """Requests that were repeated after a failure that may pass."""
    most: int = 0
    """Requests in flight for one server that one worker may have."""
    fewest: int = 0
    """The fewest that these came down to, as servers had too much to do."""
    waits: int = 0
    """Answers by which a server asked for a pause (`Retry-After`)."""
    longest_wait_s: float = 0.0
    """The longest of those times."""
    hedged: int = 0
    """Second requests that were made because the first took long."""

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
            self.hedged + other.hedged,
        )


class PendingResponse(Future[Response]):
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


class Flight:
    """Keeps requests of this process in flight, bounded in number for each server, and in bytes."""

    def __init__(self) -> None:
        self._loop = new_event_loop()
        self._servers: dict[str, Server] = {}
        self._most, self._bytes, self._retry_s = REQUESTS, FLIGHT_BYTES, RETRY_S
        self._held = 0
        self._for_bytes: collections.deque[tuple[int, asyncio.Future[None]]] = collections.deque()
        self._made = self._again = self._hedged = 0
        self._clock = SuspendClock()
        self._loop.call_soon(self._look)
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="chunkfold-flight", daemon=True
        )
        self._thread.start()

    def _look(self) -> None:
        """Keep the clock of all requests going; one for each would take as long as they do."""
        self._clock.seconds()
        self._loop.call_later(_LOOK_S, self._look)

    def bound(self, requests: int, nbytes: int, retry_s: float) -> None:
        """Set the most requests for a server, the most bytes of all, and how long to try again.

        A block begins with that.
        """
        self._loop.call_soon_threadsafe(self._bound, requests, nbytes, retry_s)

    def _bound(self, requests: int, nbytes: int, retry_s: float) -> None:
        self._most, self._bytes, self._retry_s = requests, nbytes, retry_s
        for server in self._servers.values():
            server.request_limit.bound(requests)
            server.near.begin()

    def start(
        self, nbytes: int, coroutine: Callable[[], Coroutine[Any, Any, Response]]
    ) -> PendingResponse[Response]:
        """Start what makes requests by `ask`, once there is room for so many bytes.

        Those that are started first have room first, so that whoever waits for the next in turn
        never waits for room that later ones have.
        """
        landing: PendingResponse[Response] = PendingResponse()

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

    def waited(self, coroutine: Callable[[], Coroutine[Any, Any, Response]]) -> Response:
        """Wait for what makes requests by `ask`, beside what was started.

        Never on the thread of the event loop: it would wait for itself, and so would all others.
        """
        assert threading.current_thread() is not self._thread, "the event loop waits for itself"
        return asyncio.run_coroutine_threadsafe(coroutine(), self._loop).result()

    async def beside(self, coroutine: Callable[[], Coroutine[Any, Any, Response]]) -> Response:
        """Run `waited` for another event loop."""
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
        server: str,
        request: RemoteRequest[Response],
        passing: Passing,
        wanted: RetryDelay | None = None,
        retry_s: float | None = None,
    ) -> Response:
        """Make a request, and again while what fails may pass, for so many seconds.

        Raises
        ------
        RefusedError
            If the server wants to be left alone for longer than that.
        Exception
            The last failure.
        """
        there = self.server(server)
        allowed = self._retry_s if retry_s is None else retry_s
        began, tries = 0.0, 0
        while True:
            await there.turn(allowed, first=bool(tries))
            began = began if tries else self._clock.seconds()
            since = time.monotonic()
            self._made += 1
            try:
                answer = await first_answer(there, request, self._count)
            except Exception as error:
                fault = passing(error)
                if fault is None:
                    raise
                tries += 1
                if there.failed(fault, since) and wanted is not None:
                    self._made += 1
                    self._again += 1
                    await there.hear(wanted(error))
                passed = self._clock.seconds() - began
                pause = there.pause(tries, allowed, passed)
                if passed + pause > allowed:
                    raise
                self._again += 1
            else:
                there.answered(since)
                return answer
            finally:
                there.ended()
            await asyncio.sleep(pause)

    def server(self, name: str) -> Server:
        """Return a server by its name; any thread calls it."""
        known = self._servers.get(name)
        if known is not None:
            return known
        return self._servers.setdefault(name, Server(RequestLimit(self._most), self._loop))

    def _count(self) -> None:
        """Count a request that is made beside another."""
        self._made += 1
        self._hedged += 1

    def taken(self) -> Requests:
        """Return what happened since this was asked last."""
        made, again, hedged = self._made, self._again, self._hedged
        self._made -= made
        self._again -= again
        self._hedged -= hedged
        servers = list(self._servers.values())
        made += sum(server.near.taken() for server in servers)
        waits, longest = (
            zip(*(server.taken() for server in servers), strict=True) if servers else ((), ())
        )
        least = min((server.request_limit.least for server in servers), default=0)
        return Requests(
            made, again, self._most, int(least), sum(waits), max(longest, default=0.0), hedged
        )


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's where it is installed: it takes less time for each request."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


_kept: list[Flight] = []
_making = threading.Lock()


def flight() -> Flight:
    """Return this process's, which begins with the first request."""
    with _making:
        if not _kept:
            _kept.append(Flight())
        return _kept[0]

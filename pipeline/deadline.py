"""Wait for blocking calls with deadlines."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

from chunkfold.errors import ClusterError
from chunkfold.settings import wait_seconds
from chunkfold.suspend_clock import SuspendClock

T = TypeVar("T")
_log = logging.getLogger("chunkfold")
_SLICE_S = 0.2


class WaitLog:
    """Logs now and then what is waited for, every `chunkfold.run.tell` seconds."""

    def __init__(self, what: str) -> None:
        self._what, self._logged = what, 0.0
        self._every = wait_seconds("chunkfold.run.tell")

    def update(self, waited: float) -> None:
        """Log a line after so many seconds, if the next one is due."""
        if waited - self._logged >= self._every:
            self._logged = waited
            _log.warning("waited %.0f s for %s so far", waited, self._what)


async def ended(futures: Collection[asyncio.Future[Any]], seconds: float, what: str) -> bool:
    """Wait until any of the futures is done; return whether one was within so many seconds.

    No future is cancelled.
    """
    clock, log = SuspendClock(), WaitLog(what)
    while not any(future.done() for future in futures):
        waited = clock.seconds()
        if waited >= seconds:
            return False
        log.update(waited)
        limit = min(_SLICE_S, seconds - waited)
        await asyncio.wait(futures, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
    return True


def in_background(call: Callable[[], T]) -> Future[T]:
    """Start a blocking call in a thread of its own."""
    future = Future[T]()
    future.set_running_or_notify_cancel()  # it cannot be cancelled

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - it is raised where the call was made
            future.set_exception(error)

    # A daemon, which unlike a pool's threads is not waited for when the process ends.
    threading.Thread(target=run, daemon=True).start()
    return future


def with_deadline(seconds: float, what: str, call: Callable[[], T]) -> T:
    """Run a blocking call with a deadline.

    Raises
    ------
    ClusterError
        If it passed.
    """
    return awaited(in_background(call), seconds, what)


def awaited(
    future: Future[T], seconds: float, what: str, while_waiting: Callable[[], object] = lambda: None
) -> T:
    """Wait for a call with a deadline, and call `while_waiting` a few times a second.

    Raises
    ------
    ClusterError
        If it passed.
    """
    clock, log = SuspendClock(), WaitLog(what)
    while (waited := clock.seconds()) < seconds:
        try:
            return future.result(min(_SLICE_S, seconds - waited))
        except FutureTimeoutError:
            if future.done():
                return future.result()  # or it raises its own
        log.update(waited)
        while_waiting()
    future.cancel()
    raise ClusterError(f"waited {seconds:.0f} s for {what} in vain")

"""Calls that a Dask cluster makes, or threads where there is none, a bounded number at a time."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, Protocol, TypeVar

from distributed import get_client

from chunkfold.errors import ClusterError
from chunkfold.running.on_cluster import OnCluster
from chunkfold.settings import wait_seconds
from chunkfold.suspend_clock import SuspendClock

T = TypeVar("T")
_SETTLE_DEADLINE_S = 20.0
"""Longest wait for calls that are under way when another has failed, in seconds."""
_LOOK_EVERY_S = 0.5
"""Seconds between checks of the workers while no call ends."""


def call_each(
    call: Callable[[T], None], items: Iterable[T], ended: Callable[[T], None] = lambda _: None
) -> None:
    """Make a call for each item, on the current Dask client if there is one, else on threads.

    `ended` is told, by this thread, each item whose call has ended well. However all of it ends, no
    call is under way afterwards: a graph of all of them could not be taken back, for Dask's
    scheduler forgets a cancellation that comes while it lays a graph out.

    Raises
    ------
    Exception
        What the first call that fails raises.
    ClusterError
        If the scheduler goes away, or does not answer for `chunkfold.workers.answer`; no worker is
        heard for `chunkfold.no-workers-timeout`; or no call ends for `chunkfold.run.stall`.
    """
    try:
        makers: _Makers = _Workers(get_client())
    except ValueError:
        makers = _Threads()
    begun = dict[Future[None], T]()
    try:
        for item in items:
            begun[makers.begin(partial(call, item))] = item
            if len(begun) >= makers.most:
                for one in _ended(makers, begun):
                    ended(begun.pop(one))
        while begun:
            for one in _ended(makers, begun):
                ended(begun.pop(one))
    finally:
        deadline = time.monotonic() + _SETTLE_DEADLINE_S
        while wait(begun, _LOOK_EVERY_S).not_done and time.monotonic() < deadline:
            if makers.unheard(0.0) > _SETTLE_DEADLINE_S / 2:
                break
        makers.stop()


def _ended(makers: _Makers, begun: Collection[Future[None]]) -> set[Future[None]]:
    """Wait for some to end."""
    clock = SuspendClock()
    stall = wait_seconds("chunkfold.run.stall")
    timeout = wait_seconds("chunkfold.no-workers-timeout")
    while not (ended := wait(begun, _LOOK_EVERY_S, FIRST_COMPLETED).done):
        quiet = clock.seconds()
        if makers.unheard(quiet) > timeout:
            raise ClusterError(f"there was no worker for {timeout:.0f} s: start some")
        if quiet > stall:
            raise ClusterError(f"none of {len(begun)} tasks ended for {stall:.0f} s")
    for each in ended:
        each.result()
    return ended


class _Makers(Protocol):
    most: int
    """Calls that are under way at a time."""

    def begin(self, call: Callable[[], None]) -> Future[None]: ...

    def unheard(self, quiet: float) -> float: ...

    def stop(self) -> None: ...


class _Threads:
    def __init__(self) -> None:
        threads = len(os.sched_getaffinity(0))
        self._pool, self.most = ThreadPoolExecutor(threads), 2 * threads

    def begin(self, call: Callable[[], None]) -> Future[None]:
        return self._pool.submit(call)

    def unheard(self, quiet: float) -> float:  # noqa: ARG002 # they are here
        return 0.0

    def stop(self) -> None:
        self._pool.shutdown(wait=False)


class _Workers:
    def __init__(self, client: Any) -> None:
        self._cluster, self._name = OnCluster(client), f"calls-{uuid.uuid4().hex[:12]}"
        workers = self._cluster.joined_workers().values()
        self.most = 2 * max(1, sum(each["nthreads"] for each in workers))

    def begin(self, call: Callable[[], None]) -> Future[None]:
        told = Future[None]()

        def tell(outcome: object) -> None:
            if isinstance(outcome, BaseException):
                told.set_exception(outcome)
            else:
                self._cluster.release([outcome])
                told.set_result(None)

        self._cluster.submit(tell, self._name, call)
        return told

    def unheard(self, quiet: float) -> float:
        return self._cluster.watch(quiet).nobody

    def stop(self) -> None:
        self._cluster.stop()

"""Make calls on a Dask cluster, or on threads without one, a bounded number at a time."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeVar

from distributed import get_client

from chunkfold.errors import ClusterError
from chunkfold.running.on_cluster import OnCluster
from chunkfold.settings import wait_seconds
from chunkfold.suspend_clock import SuspendClock

T = TypeVar("T")
_SETTLE_DEADLINE_S = 20.0
"""Longest wait for running calls after one has failed, in seconds."""
_LOOK_EVERY_S = 0.5
"""Seconds between checks of the workers while no call ends."""


def call_each(
    call: Callable[[T], None], items: Iterable[T], ended: Callable[[T], None] = lambda _: None
) -> None:
    """Make a call for each item, on the current Dask client if there is one, else on threads.

    `ended(item)` is called by this thread after each call that succeeds. After a failure calls that
    have not begun are cancelled, and running ones are waited for, at most 20 s. Calls are submitted
    a few at a time: Dask's scheduler forgets a cancellation that comes while it takes a large
    graph.

    Raises
    ------
    Exception
        The error of the first call that fails.
    ClusterError
        If the scheduler goes away, or does not answer for `chunkfold.workers.answer`; no worker is
        heard for `chunkfold.no-workers-timeout`; or no call ends for `chunkfold.run.stall`.
    """
    try:
        executor: _Executor = _Workers(get_client())
    except ValueError:
        executor = _Threads()
    in_flight = dict[Future[None], T]()
    try:
        for item in items:
            in_flight[executor.submit(partial(call, item))] = item
            if len(in_flight) >= executor.most:
                _settle(_some_done(executor, in_flight), in_flight, ended)
        while in_flight:
            _settle(_some_done(executor, in_flight), in_flight, ended)
    except BaseException:
        executor.cancel(in_flight)
        deadline = time.monotonic() + _SETTLE_DEADLINE_S
        while wait(in_flight, _LOOK_EVERY_S).not_done and time.monotonic() < deadline:
            # Workers that are not heard have no more time than others: 0 s is no stall.
            if executor.unheard(0.0) > _SETTLE_DEADLINE_S / 2:
                break
        with suppress(Exception):  # the first error counts
            _settle([one for one in in_flight if one.done()], in_flight, ended)
        raise
    finally:
        executor.stop()


def _settle(
    done: Iterable[Future[None]], in_flight: dict[Future[None], T], ended: Callable[[T], None]
) -> None:
    """Take calls that are done out of those in flight; raise the first error, at the end."""
    errors: list[BaseException] = []
    for one in done:
        item = in_flight.pop(one)
        if one.cancelled():
            continue
        if (error := one.exception()) is None:
            ended(item)
        else:
            errors.append(error)
    if errors:
        raise errors[0]


def _some_done(executor: _Executor, in_flight: Collection[Future[None]]) -> set[Future[None]]:
    """Wait until one call is done at least; return those that are."""
    clock = SuspendClock()
    stall = wait_seconds("chunkfold.run.stall")
    timeout = wait_seconds("chunkfold.no-workers-timeout")
    while not (done := wait(in_flight, _LOOK_EVERY_S, FIRST_COMPLETED).done):
        quiet = clock.seconds()
        if executor.unheard(quiet) > timeout:
            raise ClusterError(f"no worker was connected for {timeout:.0f} s: start some")
        if quiet > stall:
            raise ClusterError(f"none of {len(in_flight)} tasks ended for {stall:.0f} s")
    return done


class _Executor(Protocol):
    most: int
    """Most calls in flight."""

    def submit(self, call: Callable[[], None]) -> Future[None]: ...

    def cancel(self, in_flight: Iterable[Future[None]]) -> None: ...

    def unheard(self, quiet: float) -> float: ...

    def stop(self) -> None: ...


class _Threads:
    def __init__(self) -> None:
        threads = len(os.sched_getaffinity(0))
        self._pool, self.most = ThreadPoolExecutor(threads), 2 * threads

    def submit(self, call: Callable[[], None]) -> Future[None]:
        return self._pool.submit(call)

    def cancel(self, in_flight: Iterable[Future[None]]) -> None:
        for one in in_flight:
            one.cancel()

    def unheard(self, quiet: float) -> float:  # noqa: ARG002 # threads send no heartbeats
        return 0.0

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class _Workers:
    def __init__(self, client: Any) -> None:
        self._cluster, self._name = OnCluster(client), f"calls-{uuid.uuid4().hex[:12]}"
        workers = self._cluster.joined_workers().values()
        self.most = 2 * max(1, sum(each["nthreads"] for each in workers))

    def submit(self, call: Callable[[], None]) -> Future[None]:
        future = Future[None]()

        def settle(outcome: object) -> None:
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                self._cluster.release([outcome])
                future.set_result(None)

        self._cluster.submit(settle, self._name, call)
        return future

    def cancel(self, in_flight: Iterable[Future[None]]) -> None:
        """Leave it to `stop`, which takes back what the scheduler has not begun."""

    def unheard(self, quiet: float) -> float:
        return self._cluster.watch(quiet).nobody

    def stop(self) -> None:
        self._cluster.stop()

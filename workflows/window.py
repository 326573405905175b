"""Calls that a Dask cluster makes, or threads where there is none, a bounded number at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from distributed import get_client

from chunkfold.engine import STALL_DEADLINE_S
from chunkfold.errors import ClusterError

T = TypeVar("T")
_SETTLE_DEADLINE_S = 20.0
"""Longest wait for calls that are under way when another has failed, in seconds."""


def in_window(call: Callable[[T], None], items: Iterable[T]) -> None:
    """Make a call for each item, on the current Dask client if there is one, else on threads.

    However it ends, none is under way afterwards: a graph of all of them could not be taken back,
    for Dask's scheduler forgets a cancellation that comes while it lays a graph out.

    Raises
    ------
    Exception
        What the first call that fails raises.
    ClusterError
        If none ends for `STALL_DEADLINE_S`.
    """
    executor, window = _executor()
    begun = set[Future[None]]()
    try:
        for item in items:
            begun.add(executor.submit(call, item))
            if len(begun) >= window:
                begun -= _ended(begun)
        while begun:
            begun -= _ended(begun)
    finally:
        wait(begun, _SETTLE_DEADLINE_S)
        executor.shutdown(wait=False)


def _executor() -> tuple[Executor, int]:
    """Return what makes the calls, and how many it is given at a time."""
    try:
        client: Any = get_client()
    except ValueError:
        threads = len(os.sched_getaffinity(0))
        return ThreadPoolExecutor(threads), 2 * threads
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return client.get_executor(pure=False), 2 * max(1, sum(each["nthreads"] for each in workers))


def _ended(begun: set[Future[None]]) -> set[Future[None]]:
    ended, _ = wait(begun, STALL_DEADLINE_S, FIRST_COMPLETED)
    if not ended:
        raise ClusterError(f"none of {len(begun)} tasks ended for {STALL_DEADLINE_S:.0f} s")
    for each in ended:
        each.result()
    return ended

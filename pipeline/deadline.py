"""Blocking calls beside the caller's own, and with deadlines."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TypeVar

from chunkfold.errors import ClusterError

T = TypeVar("T")


def beside(call: Callable[[], T]) -> Future[T]:
    """Start a blocking call in a thread of its own."""
    future = Future[T]()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - it is raised where the call was made
            future.set_exception(error)

    # A daemon, which unlike a pool's threads is not waited for when the process ends.
    threading.Thread(target=run, daemon=True).start()
    return future


def within(seconds: float, what: str, call: Callable[[], T]) -> T:
    """Run a blocking call with a deadline.

    Raises
    ------
    ClusterError
        If it passed.
    """
    future = beside(call)
    try:
        return future.result(seconds)
    except FutureTimeoutError:
        if future.done():  # its own
            raise
        raise ClusterError(f"waited {seconds:.0f} s for {what} in vain") from None

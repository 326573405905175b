"""Blocking calls that end, one way or the other."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TypeVar

from chunkfold.errors import ClusterError

T = TypeVar("T")


def within(seconds: float, what: str, call: Callable[[], T]) -> T:
    """Run a blocking call with a deadline.

    Raises
    ------
    ClusterError
        If it passed.
    """
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(call).result(seconds)
    except FutureTimeoutError:
        raise ClusterError(f"waited {seconds:.0f} s for {what} in vain") from None
    finally:
        pool.shutdown(wait=False)

"""The threads that read and decode for the blocks of a worker."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

_Read = TypeVar("_Read")
_Waiting = tuple[int, int, Future[Any], Callable[[], Any]]
"""Its turn, its number, what it will have made, and what makes it."""


class Readers:
    """So many threads, which do first what an earlier block asks for.

    Blocks that shared them evenly would end at once, and leave most of them idle meanwhile: so the
    earlier one ends, and the later one has what it leaves of them.
    """

    def __init__(self, threads: int, waiting: Sequence[_Waiting] = ()) -> None:
        self._pool = ThreadPoolExecutor(threads, "chunkfold-read")
        self._waiting: list[_Waiting] = []
        self._numbers = itertools.count(len(waiting))
        self._lock = threading.Lock()
        for number, (priority, _, future, task) in enumerate(sorted(waiting)):
            self._push((priority, number, future, task))

    def submit(self, priority: int, task: Callable[..., _Read], *given: Any) -> Future[_Read]:
        """Let a thread do something, before what has a later turn.

        Raises
        ------
        RuntimeError
            If the interpreter is about to end.
        """
        future: Future[_Read] = Future()
        self._push((priority, next(self._numbers), future, partial(task, *given)))
        return future

    def leave(self) -> list[_Waiting]:
        """Do nothing more, for a thread never came back; return what others are to do."""
        self._pool.shutdown(wait=False)
        with self._lock:
            waiting, self._waiting = self._waiting, []
        return waiting

    def _push(self, entry: _Waiting) -> None:
        with self._lock:
            self._pool.submit(self._do_next)  # first: it may refuse
            heapq.heappush(self._waiting, entry)

    def _do_next(self) -> None:
        with self._lock:
            if not self._waiting:
                return
            *_, future, task = heapq.heappop(self._waiting)
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(task())
        except BaseException as error:  # noqa: BLE001 # for whoever waits for it
            future.set_exception(error)

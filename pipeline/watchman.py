"""Asks a scheduler for heartbeats every few seconds, without ever waiting for it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import Any

from distributed import Client
from distributed.protocol.pickle import dumps

from chunkfold.deadline import Awake
from chunkfold.heartbeats import Heartbeats
from chunkfold.settings import wait_seconds


def on_loop(client: Client, call: Callable[[Any], Coroutine[Any, Any, Any]]) -> Future[Any]:
    """Call the scheduler from the client's own loop: no thread stays behind if it never answers.

    `call` is given what makes the calls.
    """

    async def asked() -> Any:
        if client.scheduler is None:
            raise OSError("the client is closed")
        return await call(client.scheduler)

    loop: Any = client.loop
    return asyncio.run_coroutine_threadsafe(asked(), loop.asyncio_loop)


async def removed(worker: str, scheduler: Any) -> list[Any]:
    """Remove a worker, and return the keys of the tasks that it had.

    One that goes on later finds that nobody knows it, and its nanny starts another. A scheduler
    that runs no functions of clients tells it to end, for good.
    """
    marks = {"stimulus_id": f"chunkfold-stopped-{time.time()}", "expected": True}
    given = {"args": dumps((worker, marks)), "kwargs": dumps({}), "wait": True}
    with contextlib.suppress(Exception):
        answer = await scheduler.run_function(function=dumps(_removal()), **given)
        if answer["status"] == "OK":
            return list(answer["result"])
    tasks = (await scheduler.processing()).get(worker, [])
    await scheduler.unregister(address=worker, **marks)
    return list(tasks)


def _removal() -> Callable[..., Any]:
    """Return what a scheduler runs that has no chunkfold: inner functions travel whole."""

    async def remove(worker: str, marks: dict[str, Any], dask_scheduler: Any) -> list[Any]:
        if worker not in dask_scheduler.workers:
            return []
        tasks = [task.key for task in dask_scheduler.workers[worker].processing]
        await dask_scheduler.remove_worker(worker, close=False, **marks)
        return tasks

    return remove


class Watchman:
    """Knows the heartbeats of a cluster's workers, as of a few seconds ago."""

    def __init__(self, client: Client, useful: Callable[[Mapping[str, Any]], bool]) -> None:
        self._client, self._useful = client, useful
        self._awake = Awake()
        self._asking: Future[Any] | None = None
        self._asked = self._answered = 0.0
        self.beats = Heartbeats()

    def look(self) -> bool:
        """Take the answer if it is there, and say so; ask again if it is time.

        To be called often.
        """
        now, every = self._awake.seconds(), wait_seconds("chunkfold.workers.ask")
        fresh = self._asking is not None and self._asking.done() and self._take(now, every)
        if self._asking is not None and now - self._asked > wait_seconds(
            "chunkfold.workers.answer"
        ):
            self._asking.cancel()
            self._asking = None
        if self._asking is None and (now - self._asked >= every or not self._asked):
            self._asked = now or 1e-9
            self._asking = on_loop(self._client, lambda made: made.identity(n_workers=-1))
        return fresh

    def unanswered(self) -> float:
        """Return for how long the scheduler has not answered, in seconds."""
        return self._awake.seconds() - self._answered

    def _take(self, now: float, every: float) -> bool:
        answer, self._asking = self._asking, None
        if answer is None or answer.cancelled() or answer.exception() is not None:
            return False  # a scheduler's loss is found out by what is waited for
        there: Mapping[str, Mapping[str, Any]] = answer.result()["workers"]
        seen = {a: float(w["last_seen"]) for a, w in there.items() if self._useful(w)}
        self.beats = self.beats.then(seen, now - self._answered, 2 * every)
        self._answered = now
        return True

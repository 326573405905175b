"""Functions that are sent to a scheduler and run in it, which need not have chunkfold."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from distributed import Client
from distributed.protocol.pickle import dumps

SPAN = {"name": ("chunkfold",), "ids": ("chunkfold",)}
"""One for all runs: Dask keeps each on the scheduler, and its times on each worker, for good."""


STOPPED = "chunkfold-stopped-"
"""The beginning of the scheduler's reason for a worker that was removed unheard."""


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
    marks = {"stimulus_id": f"{STOPPED}{time.time()}", "expected": True}
    with contextlib.suppress(Exception):
        return list(await _run(scheduler, _removal(), worker, marks))
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


async def tidied(scheduler: Any) -> None:
    """Delete the scheduler's records of this client's tasks that it has forgotten.

    If it runs no functions of clients, it keeps about 1 kB of each run.
    """
    with contextlib.suppress(Exception):
        await _run(scheduler, _tidying(), SPAN["ids"][0])


def _tidying() -> Callable[..., Any]:
    async def tidy(name: str, dask_scheduler: Any) -> None:
        span = dask_scheduler.extensions["spans"].spans.get(name)
        if span is not None:
            known = dask_scheduler.task_groups
            span.groups = {g for g in span.groups if known.get(g.name) is g or not g.done}
            if span._metadata is not None:
                span._metadata["collections"].clear()

    return tidy


async def _run(scheduler: Any, function: Callable[..., Any], *args: Any) -> Any:
    answer = await scheduler.run_function(
        function=dumps(function), args=dumps(args), kwargs=dumps({}), wait=True
    )
    if answer["status"] != "OK":
        raise OSError("the scheduler does not run functions of clients")
    return answer.get("result")

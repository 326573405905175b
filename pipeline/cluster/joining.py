"""A scheduler that is there: connect to it, or join it with workers for this host's devices."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

from distributed import Client
from distributed.security import Security

from chunkfold.cluster.local_cluster import START, calm_dask, worker_options
from chunkfold.cluster.reaching import checked_security, reach, refuse_those_that_joined
from chunkfold.cluster.security import ENCRYPTED, page_settings
from chunkfold.cluster.starting import (
    DeviceNanny,
    check_host,
    check_started,
    end_all,
    end_those_that_start,
    words_of,
)
from chunkfold.deadline import ended, with_deadline
from chunkfold.errors import ClusterError
from chunkfold.planning.workers import THREADS, Post
from chunkfold.settings import wait_seconds


def connect(
    address: str, deadline_s: float | None = None, security: Security | None = None
) -> Client:
    """Connect to a scheduler, with these certificates or those of Dask's configuration.

    In `deadline_s`, or what the setting `chunkfold.scheduler.connect` says.

    Raises
    ------
    PlanError
        If that is no address, or certificates that it asks for are missing or of no use.
    ClusterError
        If it cannot be reached in time.
    """
    deadline_s = deadline_s or wait_seconds("chunkfold.scheduler.connect")
    secured = checked_security(address, "client", security)
    # A client that fails to connect leaves a trail; this does not.
    reaching = reach(address, deadline_s, secured, "client")
    with_deadline(2 * deadline_s, "a scheduler", lambda: asyncio.run(reaching))
    return _PunctualClient(address, timeout=deadline_s, set_as_default=False, security=secured)


class _PunctualClient(Client):
    """A client that is left in time, also where its scheduler does not answer any more."""

    def __exit__(self, *raised: object) -> None:
        with contextlib.suppress(TimeoutError):
            self.close(wait_seconds("chunkfold.close"))


async def serve(
    scheduler: str,
    manned: Sequence[Post],
    *,
    threads: int = THREADS,
    security: Security | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Join a scheduler with so many workers; return when it goes away or `stop` is set.

    Raises
    ------
    PlanError
        If that is no address, or certificates that it asks for are missing or of no use.
    DeviceError
        If a device has a worker there already.
    ClusterError
        If the scheduler cannot be reached in time (`chunkfold.scheduler.connect`), or a worker does
        not start.
    """
    calm_dask()
    secured = checked_security(scheduler, "worker", security)
    stopping = asyncio.create_task((stop or asyncio.Event()).wait())
    connecting = wait_seconds("chunkfold.scheduler.connect")
    reaching = asyncio.create_task(reach(scheduler, connecting, secured, "worker", -1))
    await asyncio.wait([reaching, stopping], return_when=asyncio.FIRST_COMPLETED)
    if stopping.done():
        reaching.cancel()
        return
    refuse_those_that_joined(manned, await reaching, scheduler)
    check_host(len(manned))
    nannies: list[DeviceNanny] = []
    encrypted = scheduler.split("://", maxsplit=1)[0] in ENCRYPTED
    pages = page_settings(secured) if encrypted else {}
    try:
        for post in manned:
            options = worker_options(post, threads) | {"security": secured, "config": pages}
            nannies.append(_nanny_of(scheduler, options))
        starting: asyncio.Future[Any] = asyncio.gather(*nannies, return_exceptions=True)
        await ended([starting, stopping], wait_seconds("chunkfold.workers.start"), START)
        if stopping.done():
            return
        await check_started(nannies, len(nannies), scheduler=scheduler)
        ends: list[Any] = [nanny.finished() for nanny in nannies]
        everyone: asyncio.Future[Any] = asyncio.gather(*ends)
        await asyncio.wait([everyone, stopping], return_when=asyncio.FIRST_COMPLETED)
        if stopping.done():
            await _retired(nannies)
    finally:
        end_those_that_start(nannies)
        closes = [nanny.close() for nanny in nannies]
        closing: asyncio.Future[Any] = asyncio.gather(*closes, return_exceptions=True)
        if not await ended([closing], wait_seconds("chunkfold.close"), "the workers to end"):
            end_all(nannies)


async def _retired(nannies: Sequence[DeviceNanny]) -> None:
    """Retire workers: the scheduler moves their results to others."""
    for nanny in nannies:
        nanny.close_gracefully()  # it starts no other worker
    addresses = [nanny.worker_address for nanny in nannies if nanny.worker_address]
    retiring = asyncio.ensure_future(nannies[0].scheduler.retire_workers(workers=addresses))
    if not await ended([retiring], wait_seconds("chunkfold.close"), "the scheduler's leave"):
        retiring.cancel()
    elif not retiring.cancelled():
        retiring.exception()  # whatever is wrong with the scheduler, the workers leave


def _nanny_of(scheduler: str, options: dict[str, Any]) -> DeviceNanny:
    try:
        return DeviceNanny(scheduler, **options, death_timeout=60)
    except Exception as error:
        raise ClusterError(f"no worker could be started: {words_of(error)}") from error

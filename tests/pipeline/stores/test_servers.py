"""Requests wait for their server, and none of them for ever."""

from __future__ import annotations

import asyncio

import pytest

from chunkfold.stores.request_limit import RequestLimit
from chunkfold.stores.requests import new_event_loop
from chunkfold.stores.servers import Server

pytestmark = pytest.mark.unoptimised


async def _paused(server: Server, seconds: float) -> None:
    async def wanted() -> float:
        return seconds

    await server.hear(wanted())


def test_requests_that_wait_for_a_pause_are_made_after_it():
    """Event loops' clocks may come early, by less than a millisecond: so many are tried."""
    loop = new_event_loop()

    async def tried() -> None:
        for n in range(60):
            server = Server(RequestLimit(10), loop)
            await _paused(server, 0.02)
            await asyncio.sleep(0.0003 * (n % 5))
            await asyncio.wait_for(server.turn(60, first=False), 10)
            server.ended()

    loop.run_until_complete(tried())
    loop.close()


def test_a_request_takes_the_place_of_one_that_a_thread_made():
    loop = new_event_loop()
    server = Server(RequestLimit(1), loop)

    async def tried() -> None:
        with server.near.request(1, server.room):
            turn = asyncio.ensure_future(server.turn(60, first=False))
            await asyncio.sleep(0.05)
            assert not turn.done()
        await asyncio.wait_for(turn, 10)

    loop.run_until_complete(tried())
    loop.close()

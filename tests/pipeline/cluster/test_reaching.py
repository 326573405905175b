"""Who has joined a scheduler is asked before more do."""

from __future__ import annotations

import asyncio
import os
import re

import pytest
from distributed import LocalCluster

import chunkfold as cf
from chunkfold.cluster.joining import connect, serve
from chunkfold.planning.workers import posts
from tests.conftest import DEVICES
from tests.processes import finished, worker_command

ALREADY = (
    rf"of host '{re.escape(os.uname().nodename)}' has a worker (\(tcp://\S+\) )?at 'tcp://.*already"
)


def test_a_device_has_the_workers_of_one_command():
    """Of two at once the first to come, and none of those that come later."""

    async def two(scheduler: str) -> list[object]:
        stop, manned = asyncio.Event(), posts([DEVICES[0]])
        started = [asyncio.create_task(serve(scheduler, manned, stop=stop)) for _ in range(2)]
        await asyncio.wait(started, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        with pytest.raises(cf.DeviceError, match=re.escape(f"{DEVICES[0]} ") + ALREADY):
            await serve(scheduler, manned)
        command = worker_command(scheduler, DEVICES[0].spec)
        later = await asyncio.to_thread(finished, command, 60)
        assert later.returncode == 2
        (_, said) = later.stderr.splitlines()
        assert re.match(f"DeviceError: {re.escape(str(DEVICES[0]))} {ALREADY}", said)
        stop.set()
        return await asyncio.gather(*started, return_exceptions=True)

    with LocalCluster(n_workers=0, dashboard_address=":0") as made:
        (refused,) = filter(None, asyncio.run(two(made.scheduler_address)))
    assert isinstance(refused, cf.DeviceError)
    assert re.search(ALREADY, str(refused))


def test_what_is_no_scheduler_is_told():
    """A worker of one, say."""
    with (
        LocalCluster(
            n_workers=1, processes=False, protocol="tcp://", dashboard_address=":0"
        ) as made,
        pytest.raises(cf.ClusterError, match="cannot reach a scheduler"),
    ):
        connect(made.workers[0].address, deadline_s=2)

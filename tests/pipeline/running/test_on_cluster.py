"""On a cluster: partials that are lost with their worker, made of what the client had brought."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections import Counter
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, Future

import chunkfold as cf
from chunkfold.events import BlockProgress, Event
from chunkfold.planning import blocks
from chunkfold.running import on_cluster, sending
from tests.pipeline.running.test_block_scheduler import Rows
from tests.pipeline.running.test_shared_tasks import left

pytestmark = pytest.mark.unoptimised
VALUES = np.random.default_rng(0).integers(-1000, 1000, (30, 500))


@pytest.fixture(autouse=True)
def _ahead(a_row_each: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send data of blocks ahead; combine all at once."""
    monkeypatch.setattr(blocks, "BLOCK_PER_PARTIAL", 0)
    monkeypatch.setattr(blocks, "FAN_IN_LARGE", 64)
    monkeypatch.setattr(blocks, "FAN_IN_SMALL", 64)
    monkeypatch.setattr(sending, "INLINE_BYTES", 100)


@pytest.mark.parametrize("made", ["by the client", "by Dask"])
def test_partials_of_data_that_the_client_brought_are_made_again(
    made: str, client: Client, monkeypatch: pytest.MonkeyPatch
):
    lazy = da.from_array(VALUES, chunks=(1, 500))
    source, wanted = (
        (Rows(VALUES), VALUES.max())
        if made == "by the client"
        else (lazy - lazy.min(), VALUES.max() - VALUES.min())
    )
    pids = client.run(os.getpid)
    killed: list[str] = []

    def kill(event: Event) -> None:
        if isinstance(event, BlockProgress) and event.done and event.block == 8 and not killed:
            killed.append(event.worker)
            os.kill(pids[event.worker], signal.SIGKILL)

    monkeypatch.setattr(sending, "GATHER_BYTES", 0)
    run = cf.submit(source, "max", client=client, on_event=kill)
    assert run.result(120) == wanted
    assert killed
    assert len(run.plan.blocks) == 30
    assert run.attempts.again > 1  # what it held, beside the one that it had just made
    assert not left(client)


@pytest.mark.short
def test_small_partials_survive_their_worker(client: Client):
    """Blocks that were finished are not folded again, but those that were just ending."""
    client.wait_for_workers(2)
    pids = client.run(os.getpid)
    killed: list[str] = []
    finished = Counter[int]()

    def kill(event: Event) -> None:
        if not isinstance(event, BlockProgress) or not event.done:
            return
        finished[event.block] += 1
        if event.block >= 20 and not killed:
            killed.append(event.worker)
            os.kill(pids[event.worker], signal.SIGKILL)

    run = cf.submit(Rows(VALUES), "sum", client=client, on_event=kill)
    assert run.result(120) == VALUES.sum()
    assert killed
    assert len(finished) == len(run.plan.blocks)
    again = sum(count - 1 for count in finished.values())
    assert again <= run.plan.threads + 1
    assert not left(client)


def test_a_root_that_is_lost_as_it_is_fetched_is_made_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    client.wait_for_workers(2)
    gather, lost = on_cluster.OnCluster.gather, list[Any]()

    def lose(self: on_cluster.OnCluster, handle: Any) -> Any:
        if not lost:
            ((worker, *_),) = client.who_has([handle]).values()
            lost.append(worker)
            os.kill(client.run(os.getpid, workers=[worker])[worker], signal.SIGKILL)
            until = time.monotonic() + 60
            while handle.status == "finished" and time.monotonic() < until:
                time.sleep(0.01)
        return gather(self, handle)

    monkeypatch.setattr(sending, "GATHER_BYTES", 0)
    monkeypatch.setattr(on_cluster.OnCluster, "gather", lose)
    run = cf.submit(Rows(VALUES), "max", client=client)
    assert run.result(120) == VALUES.max()
    assert lost
    assert run.attempts.again >= 30
    assert not left(client)


@pytest.mark.short
def test_a_worker_that_stops_as_its_partial_is_brought_is_given_up(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    client.wait_for_workers(2)
    pids, gather_then, stopped = client.run(os.getpid), sending.gather_then, list[int]()

    def stop(of: Client, outcome: Any, *given: Any) -> None:
        def then() -> None:
            ((worker, *_),) = of.who_has([outcome]).values()
            os.kill(pids[worker], signal.SIGSTOP)
            stopped.append(pids[worker])
            gather_then(of, outcome, *given)

        if stopped or not isinstance(outcome, Future):
            gather_then(of, outcome, *given)
        else:  # who_has waits for the loop, whose thread calls this
            stopped.append(0)
            threading.Thread(target=then).start()

    monkeypatch.setattr(sending, "gather_then", stop)
    waits = {"chunkfold.workers.silent": 4.0, "chunkfold.workers.ask": 0.3}
    try:
        with dask.config.set(waits):
            run = cf.submit(Rows(VALUES), "sum", client=client)
            assert run.result(60) == VALUES.sum()
    finally:
        for pid in filter(None, stopped):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    assert run.attempts.stopped

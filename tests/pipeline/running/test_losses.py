"""Workers that a block loses: again elsewhere, counted, and not for ever."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster, get_worker

import chunkfold as cf
from chunkfold.cluster.event_listener import listener_of
from chunkfold.cluster.joining import connect
from chunkfold.errors import WorkerLostError
from chunkfold.events import BlockProgress, Event
from chunkfold.plural import counted
from chunkfold.worker.tasks import is_unwanted
from chunkfold.workflows.cli import _CODES, EXIT_FAILED
from tests.conftest import DEVICES
from tests.pipeline.running.test_shared_tasks import left
from tests.processes import started, worker_command
from tests.stops import scheduled, slow_array

pytestmark = [pytest.mark.unoptimised, pytest.mark.usefixtures("a_row_each")]
ROWS = 12
_HEARD_S = 1.0
"""Seconds in which a run hears of a loss, also on a busy machine."""


@pytest.fixture(autouse=True)
def _both_there(client: Client) -> Iterator[None]:
    client.wait_for_workers(2, timeout=60)
    yield
    assert not left(client)


def deadly(folder: Path, times: int) -> da.Array:
    """Return an array of which a row kills its worker so many times."""
    return da.ones((ROWS, 500), chunks=(1, 500)).map_blocks(_kill, folder, times, dtype="f8")


def _kill(values: np.ndarray, folder: Path, times: int, block_info=None) -> np.ndarray:
    if block_info[0]["chunk-location"][0] == 5 and len(killed := list(folder.iterdir())) < times:
        # Dask sends a lost task on at once; the run gives such up when it hears of the loss.
        unwanted, until = is_unwanted(get_worker()), time.monotonic() + _HEARD_S
        while time.monotonic() < until:
            if unwanted():
                return values
            time.sleep(0.02)
        (folder / str(len(killed))).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return values


@pytest.mark.parametrize(("times", "most"), [(1, 2), (3, None), (6, 7)])
def test_a_block_that_loses_fewer_workers_than_it_may_runs_again(
    client: Client, tmp_path: Path, times: int, most: int | None
):
    """Also more than Dask's own limit."""
    with dask.config.set({} if most is None else {"chunkfold.workers.losses": most}):
        run = cf.submit(deadly(tmp_path, times), "sum", client=client)
        assert run.result(200) == ROWS * 500
    assert len(list(tmp_path.iterdir())) == times
    assert run.attempts.again >= times


@pytest.mark.parametrize("most", [None, 1, 2])
def test_a_block_that_loses_all_workers_that_it_may_ends_the_run_with_4(
    client: Client, tmp_path: Path, most: int | None
):
    with dask.config.set({} if most is None else {"chunkfold.workers.losses": most}):
        run = cf.submit(deadly(tmp_path, 100), "sum", client=client)
        with pytest.raises(WorkerLostError, match=r"block \d+ of .* lost its worker") as told:
            run.result(200)
    most = most or 4
    # Dask sends a block on before the run hears of the last loss.
    assert most <= len(list(tmp_path.iterdir())) <= most + 1
    assert f"{counted(most, 'time')}, the last: worker tcp://" in str(told.value)
    assert f"allow more: --worker-losses {4 * most}" in str(told.value)
    assert _CODES[WorkerLostError] == EXIT_FAILED == 4


def test_workers_that_are_sent_away_do_not_count(client: Client):
    """What they had begun is begun anew, and that is counted."""
    slow = da.ones((ROWS, 500), chunks=(1, 500)).map_blocks(_slowly, dtype="f8")
    with (
        dask.config.set({"chunkfold.workers.losses": 1}),
        LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None) as made,
        Client(made, set_as_default=False) as other,
    ):
        gone = set[str]()

        def send_away(event: Event) -> None:
            if isinstance(event, BlockProgress) and event.worker not in gone and len(gone) < 2:
                gone.add(event.worker)
                other.loop.add_callback(_retire, other, event.worker)

        run = cf.submit(slow, "sum", client=other, on_event=send_away)
        assert run.result(200) == ROWS * 500
    assert len(gone) == 2
    assert run.attempts.again >= 1
    assert run.attempts.stopped == ()


def test_a_worker_command_that_is_ended_sends_its_workers_away(tmp_path: Path):
    """What they had made goes to others, and what they had begun begins there."""
    halves = [part.spec for part in cf.devices(f"{DEVICES[0].spec}/2")]
    with (
        dask.config.set({"chunkfold.workers.losses": 1}),
        slow_array(tmp_path) as (web, _, array),
        scheduled(tmp_path) as (_, address),
        started(worker_command(address, halves[0]), tmp_path / "one.log") as ended,
        connect(address) as other,
    ):
        other.wait_for_workers(1, timeout=60)
        (first,) = other.scheduler_info(n_workers=-1)["workers"]
        with started(worker_command(address, halves[1]), tmp_path / "two.log"):
            other.wait_for_workers(2, timeout=60)

            def end(event: Event) -> None:
                if isinstance(event, BlockProgress) and event.worker == first:
                    ended.send_signal(signal.SIGTERM)

            run = cf.submit(f"{web.url}/a.zarr", "sum", client=other, on_event=end)
            assert run.result(200) == array.sum(dtype="i8")
            assert ended.wait(60) == 0
    assert run.attempts.again >= 1
    assert run.attempts.stopped == ()


def _slowly(values: np.ndarray) -> np.ndarray:
    time.sleep(0.3)
    return values


async def _retire(client: Client, worker: str) -> None:
    await client.scheduler.retire_workers(workers=[worker], close_workers=True)


def test_partials_that_dask_folds_again_are_counted(client: Client):
    """A worker that has nothing to do any more dies with what it had made."""
    lost: list[str] = []
    pids = client.run(os.getpid)

    def kill(event: Event) -> None:
        if isinstance(event, BlockProgress) and event.done and event.block == 6 and not lost:
            lost.append(event.worker)
            os.kill(pids[event.worker], signal.SIGKILL)

    slow = da.ones((ROWS, 500), chunks=(1, 500)).map_blocks(_slowly, dtype="f8")
    run = cf.submit(slow, "sum", client=client, on_event=kill)
    assert run.result(200) == ROWS * 500
    assert lost
    assert run.attempts.again >= 1


def test_a_handler_of_somebody_else_for_all_topics_stays(client: Client):
    heard: list[object] = []
    client.subscribe_topic("all", heard.append)
    handler = client._event_handlers["all"]
    run = cf.submit(da.ones((ROWS, 500), chunks=(1, 500)), "sum", client=client)
    client.log_event("all", {"action": "hello"})
    assert run.result(60) == ROWS * 500
    assert client._event_handlers["all"] is handler
    assert listener_of(client)._removals == {}
    client.log_event("all", {"action": "bye"})
    until = time.monotonic() + 20
    while {"hello", "bye"} - {event[1].get("action") for event in heard}:
        assert time.monotonic() < until
        time.sleep(0.05)
    client.unsubscribe_topic("all")
    client._event_handlers.pop("all")


@pytest.mark.parametrize("given", [0, -1, 2.5, True, "four"])
def test_what_is_no_number_of_losses_is_refused(client: Client, given: object):
    with (
        dask.config.set({"chunkfold.workers.losses": given}),
        pytest.raises(cf.PlanError, match=f"chunkfold.workers.losses is {given!r}; give a number"),
    ):
        cf.reduce(da.ones((2, 500), chunks=(1, 500)), "sum", client=client)

"""Arrays of Dask's on a cluster: each task runs once there, and nothing comes to the client."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster, wait

import chunkfold as cf
from chunkfold.cluster.watching import Watched
from chunkfold.planning.work import Work
from chunkfold.running.backend import InProcess
from chunkfold.running.shared_tasks import TasksThere
from tests.conftest import DEVICES
from tests.pipeline.sources.test_dask_source import CHUNKS, MADE, VALUES, failing, small

__all__ = ["small"]
pytestmark = pytest.mark.usefixtures("small")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Return a client of two workers."""
    made = cf.LocalOpenCLCluster(DEVICES[0].spec, workers_per_device=2, dashboard_address=None)
    with made as cluster, Client(cluster) as connected:
        yield connected


@pytest.mark.parametrize("went_on", [True, False])
def test_a_run_whose_tasks_went_on_does_not_stall(went_on: bool, monkeypatch: pytest.MonkeyPatch):
    def later(chunk: np.ndarray) -> np.ndarray:
        time.sleep(1.5)
        return chunk

    monkeypatch.setattr(InProcess, "watch", lambda *_: Watched(went_on=went_on))
    array = da.from_array(VALUES).map_blocks(later, meta=VALUES[:0, :0])
    with dask.config.set({"chunkfold.run.stall": "1s"}):
        run = cf.submit(array, "max")
        if went_on:
            assert run.result() == VALUES.max()
        else:
            with pytest.raises(cf.ClusterError, match="made no progress"):
                run.result()


class Counted:
    """An array whose chunks are made by tasks that leave a mark each, in whatever process."""

    def __init__(self, folder: Path, seconds: float = 0) -> None:
        self.folder = folder

        def made(chunk: np.ndarray, block_info: Any = None) -> np.ndarray:
            time.sleep(seconds)
            place = "-".join(map(str, block_info[0]["chunk-location"]))
            with (folder / place).open("a") as marks:
                marks.write(f"{os.getpid()}\n")
            return chunk

        whole = da.from_array(VALUES, chunks=CHUNKS)
        self.array = whole.map_blocks(made, dtype=VALUES.dtype, meta=VALUES[:0, :0])

    @property
    def ran(self) -> Counter[str]:
        """How many times each chunk was made."""
        return Counter({p.name: len(p.read_text().split()) for p in self.folder.iterdir()})


ONCE = {f"{row}-{column}": 1 for row in range(6) for column in range(3)}


def left(client: Client) -> list[str]:
    """Return the keys of runs that the scheduler still has, once it had time to forget them."""

    def keys(dask_scheduler: Any) -> list[str]:
        return [str(key) for key in dask_scheduler.tasks if "chunkfold" in str(key)]

    until = time.monotonic() + 20
    while (found := client.run_on_scheduler(keys)) and time.monotonic() < until:
        time.sleep(0.05)
    return list(found)


@pytest.mark.parametrize("made", MADE)
def test_each_task_runs_once_and_its_result_stays_there(
    made: str, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    counted = Counted(tmp_path)
    array = MADE[made](counted.array)
    wanted = MADE[made](da.from_array(VALUES, chunks=CHUNKS)).max().compute(scheduler="sync")
    gathered = list[Any]()

    def gather(futures: Any, **given: Any) -> Any:
        gathered.append(futures)
        return Client.gather(client, futures, **given)

    monkeypatch.setattr(client, "gather", gather)
    monkeypatch.setattr(client, "scatter", None)  # nor does anything go there but tasks
    run = cf.submit(array, "max")  # the current client's
    assert run.result() == wanted
    assert len(run.plan.blocks) > 4
    assert len({worker for one in run.profile.values() for worker in one.workers}) == 2
    assert counted.ran == ONCE
    # Nothing comes to the client but each small partial, as soon as it is made: 8 make one.
    keys = [future.key for future in gathered]
    kinds = ("chunkfold-fold-", "chunkfold-combine-")
    blocks, combines = ({key for key in keys if key.startswith(kind)} for kind in kinds)
    assert (len(blocks), len(combines)) == (len(run.plan.blocks), 2) == (9, 2)
    assert len(gathered) == len(blocks) + len(combines)
    assert not left(client)


def test_what_is_persisted_stays_and_is_not_made_again(client: Client, tmp_path: Path):
    counted = Counted(tmp_path)
    kept = counted.array.persist()
    wait(kept)
    mine = dict(client.futures)
    for array, wanted in ((kept, VALUES), (kept - kept.max(), VALUES - VALUES.max())):
        assert cf.reduce(array, "max", axis=0, client=client).tolist() == wanted.max(0).tolist()
    assert cf.reduce((kept, VALUES), "dot") == (VALUES * VALUES).sum()  # there, too
    assert counted.ran == ONCE
    assert not left(client)
    assert mine.keys() == client.futures.keys()
    assert (kept.compute() == VALUES).all()


def test_futures_among_arguments_are_dependencies(client: Client):
    number = client.submit(lambda: 7)
    array = da.from_array(VALUES, chunks=CHUNKS).map_blocks(
        lambda chunk, more: chunk + more, number, dtype=VALUES.dtype, meta=VALUES[:0, :0]
    )
    assert cf.reduce(array, "max") == VALUES.max() + 7


def test_values_in_a_graph_go_to_workers_block_by_block(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("chunkfold.running.sending.INLINE_BYTES", 100)
    assert cf.reduce(da.from_array(VALUES, chunks=CHUNKS), "max") == VALUES.max()
    assert not left(client)


def test_what_is_persisted_elsewhere_is_refused(client: Client):
    other = LocalCluster(n_workers=0, processes=False, dashboard_address=None)
    with other, Client(other, set_as_default=False) as owner:
        array = owner.persist(da.ones((4, 4)))
        with pytest.raises(
            cf.PlanError, match=r"is persisted on .*: give the client that persisted it"
        ):
            cf.reduce(array, client=client)
        with (
            dask.config.set({"chunkfold.workers.join": "0.1s"}),
            pytest.raises(cf.ClusterError, match="no worker joined"),
        ):
            cf.reduce(array)  # where it is


@pytest.mark.parametrize("shared", [False, True])
def test_a_task_that_fails_ends_the_run_and_nothing_else(shared: bool, client: Client):
    array = da.from_array(VALUES, chunks=CHUNKS).map_blocks(failing, dtype=VALUES.dtype)
    array = array - array.max() if shared else array
    with pytest.raises(cf.ChunkError, match=rf"^{array.name}: cannot read .*2, 1.*: no such file"):
        cf.reduce(array, "max")
    assert not left(client)
    run = cf.submit(array, "max", on_bad_chunk="skip")
    if shared:  # which all chunks need
        with pytest.raises(cf.ChunkError, match="all their chunks were skipped"):
            run.result()
    else:
        bad = np.zeros(VALUES.shape, bool)
        bad[14:21, 10:30] = True
        assert run.result() == VALUES[~bad].max()
        assert sum(run.skipped.values()) == bad.sum()
    assert client.submit(int, 3).result() == 3  # its connection is as it was


def test_a_cancelled_run_lets_go_of_all(client: Client, tmp_path: Path):
    counted = Counted(tmp_path, seconds=0.2)
    run = cf.submit(counted.array - counted.array.max(), "max")
    while not counted.ran:
        time.sleep(0.02)
    run.cancel()
    with pytest.raises(cf.errors.CancelledError):
        run.result(60)
    assert not left(client)
    assert len(counted.ran) < 18


def test_of_tasks_that_tell_nothing_the_scheduler_is_asked(client: Client, tmp_path: Path):
    """Of a chain whose last result is taken alone, a client hears nothing until it is there."""

    def later(value: Any, number: int) -> Any:
        """Wait until the end of the link before is known."""
        until = time.monotonic() + 60
        while not (tmp_path / str(number)).exists() and time.monotonic() < until:
            time.sleep(0.02)
        return value

    link = np.array(0)
    for number in range(5):
        link = dask.delayed(later)(link, number)
    array = da.from_array(VALUES, chunks=CHUNKS) + da.from_delayed(link, (), VALUES.dtype)
    with dask.config.set({"optimization.fuse.active": False, "chunkfold.workers.ask": "0.05s"}):
        work = Work.of("someone", cf.plan(array, "max"))
        assert work.scan.tasks is not None
        tasks = TasksThere(work, client)
        taken = tasks.before(0, work.scan.tasks.own(0).inputs, lambda: None)
        news, (last,) = 0, taken.values()
        while last.status == "pending":
            (tmp_path / str(news)).touch()
            news += tasks.went_on()
            time.sleep(0.02)
        tasks.stop()
    assert news >= 3
    assert not left(client)


def test_results_that_are_lost_with_their_worker_are_made_again(client: Client, tmp_path: Path):
    counted, done = Counted(tmp_path, seconds=0.05), threading.Semaphore(0)

    def hear(event: Any) -> None:
        if getattr(event, "done", False):
            done.release()

    less = (counted.array - counted.array.max()).map_blocks(slowly, meta=VALUES[:0, :0])
    run = cf.submit(less, "max", on_event=hear)
    assert done.acquire(timeout=120)
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    assert run.result(120) == 0
    assert counted.ran.keys() == ONCE.keys()
    assert not left(client)


def slowly(chunk: np.ndarray) -> np.ndarray:
    time.sleep(0.1)
    return chunk

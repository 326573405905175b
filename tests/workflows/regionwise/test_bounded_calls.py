"""Each call is made once, and none is under way afterwards."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import dask
import pytest
from distributed import Client

from chunkfold.cluster.joining import connect
from chunkfold.errors import ClusterError
from chunkfold.workflows.regionwise import bounded_calls
from chunkfold.workflows.regionwise.bounded_calls import call_each
from tests.stops import scheduled

pytestmark = pytest.mark.unoptimised

ITEMS = 200


class Noted:
    """Leaves a file for each call that begins, and one for each that ends; one item fails."""

    def __init__(self, folder: Path, failing: int | None = None):
        self.folder, self.failing = folder, failing

    def __call__(self, item: int) -> None:
        (self.folder / f"begun-{item}").touch(exist_ok=False)
        if item == self.failing:
            raise ValueError(f"no {item}")
        time.sleep(0.01)
        (self.folder / f"ended-{item}").touch()


@pytest.fixture(params=["threads", "cluster"])
def maker(request) -> Iterator[None]:
    cluster = Client(processes=False, n_workers=2, threads_per_worker=2, dashboard_address=None)
    with cluster.as_current() if request.param == "cluster" else nullcontext():
        yield
    cluster.close()


def counted(folder: Path) -> tuple[int, int]:
    return len([*folder.glob("begun-*")]), len([*folder.glob("ended-*")])


def test_each_item_has_its_call(maker, tmp_path: Path):
    call_each(Noted(tmp_path), range(ITEMS))
    assert counted(tmp_path) == (ITEMS, ITEMS)


def test_after_one_fails_none_is_under_way_nor_begins(maker, tmp_path: Path):
    told: list[int] = []
    with pytest.raises(ValueError, match="no 20"):
        call_each(Noted(tmp_path, failing=20), range(ITEMS), told.append)
    begun, ended = counted(tmp_path)
    assert begun == ended + 1 < ITEMS
    time.sleep(0.1)
    assert counted(tmp_path) == (begun, ended)
    assert {f"ended-{one}" for one in told} == {path.name for path in tmp_path.glob("ended-*")}


def test_interrupted_none_is_under_way_nor_begins(maker, tmp_path: Path):
    def items() -> Iterator[int]:
        yield from range(40)
        raise KeyboardInterrupt

    told: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        call_each(Noted(tmp_path), items(), told.append)
    begun, ended = counted(tmp_path)
    assert begun == ended == len(told) <= 40
    time.sleep(0.1)
    assert counted(tmp_path) == (begun, ended)


def test_calls_that_do_not_end_are_not_waited_for_in_silence(maker, tmp_path: Path):
    short = dask.config.set({"chunkfold.run.stall": 0.2})
    with short, pytest.raises(ClusterError, match="none of 1 tasks ended for 0 s"):
        call_each(time.sleep, [1.0])


def test_without_any_worker_it_ends(monkeypatch):
    monkeypatch.setattr(bounded_calls, "_SETTLE_DEADLINE_S", 0.5)
    with (
        dask.config.set({"chunkfold.no-workers-timeout": 0.2, "chunkfold.workers.ask": 0.1}),
        Client(processes=False, n_workers=0, dashboard_address=None) as nobody,
        nobody.as_current(),
        pytest.raises(ClusterError, match="no worker was connected for 0 s: start some"),
    ):
        call_each(print, [1])


def test_without_its_scheduler_it_ends(tmp_path: Path):
    """As reductions do, with an error after which another try may go well."""
    with (
        scheduled(tmp_path) as (scheduler, address),
        connect(address) as nobody,
        nobody.as_current(),
    ):
        threading.Timer(1, scheduler.kill).start()
        with pytest.raises(ClusterError, match="connection to the scheduler was lost"):
            call_each(print, [1])


def test_with_its_scheduler_stopped_it_ends(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(bounded_calls, "_SETTLE_DEADLINE_S", 0.5)
    soon = {"chunkfold.workers.answer": 1.0, "chunkfold.workers.ask": 0.3, "chunkfold.close": 1.0}
    with dask.config.set(soon), scheduled(tmp_path) as (scheduler, address):
        with connect(address) as nobody, nobody.as_current():
            threading.Timer(1, scheduler.send_signal, [signal.SIGSTOP]).start()
            with pytest.raises(ClusterError, match="has not answered for 1 s: it stopped"):
                call_each(print, [1])
        scheduler.send_signal(signal.SIGCONT)

"""Devices that fail: others do their work, and if none can, the error names all."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr
from distributed import Client

import chunkfold as cf
from chunkfold.events import BlockProgress, Event, WorkerRetired
from chunkfold.workflows.cli import _CODES
from tests.conftest import DEVICES

pytestmark = [pytest.mark.unoptimised, pytest.mark.usefixtures("a_row_each")]
X = np.random.default_rng(0).normal(size=(96, 500))


@pytest.fixture
def path(tmp_path) -> str:
    zarr.create_array(tmp_path / "a", data=X, chunks=(1, 500))
    return str(tmp_path / "a")


@pytest.fixture
def workers(client: Client) -> Iterator[list[str]]:
    """Return the addresses of two workers, whose devices work again in the end."""
    client.wait_for_workers(2, timeout=60)
    yield sorted(client.scheduler_info(n_workers=-1)["workers"])
    client.run(_mend)


def _break(status: int, after: int = 0) -> None:
    """Have each launch but the first ones end with an OpenCL status, in this process."""
    import pyopencl as cl

    from chunkfold.kernels.fold.launch import Launcher

    launches = iter(range(after))
    enqueue = getattr(Launcher, "whole", Launcher.enqueue)

    def failing(self, *given):
        if next(launches, None) is not None:
            return enqueue(self, *given)
        raise cl.Error(cl._cl._ErrorRecord("clEnqueueNDRangeKernel", status, ""))

    Launcher.whole, Launcher.enqueue = enqueue, failing


def _slow(broken: str) -> None:
    """Have each launch take its time, in this process, and fail once a file is there."""
    import pyopencl as cl

    from chunkfold.kernels.fold.launch import Launcher

    enqueue = Launcher.enqueue

    def slowed(self, *given):
        time.sleep(0.15)
        if Path(broken).exists():
            raise cl.Error(cl._cl._ErrorRecord("clEnqueueNDRangeKernel", -59, ""))
        return enqueue(self, *given)

    Launcher.enqueue = slowed


def _mend() -> None:
    from chunkfold.kernels.fold.launch import Launcher

    if hasattr(Launcher, "whole"):
        Launcher.enqueue = Launcher.whole
        del Launcher.whole


@pytest.mark.parametrize("after", [0, 3])
@pytest.mark.parametrize(("status", "name"), [(-5, "OUT_OF_RESOURCES"), (-59, "INVALID_OPERATION")])
def test_another_device_does_what_one_failed_at(client, workers, path, status, name, after):
    """It failed from the start, or after some launches."""
    broken, whole = workers
    client.run(_break, status, after, workers=[broken])
    run = cf.submit(path, ["sum", "max"], client=client)
    found = run.result(120)
    assert found["sum"] == X.sum() or abs(found["sum"] - X.sum()) < 1e-9
    assert found == cf.reduce(path, ["sum", "max"])
    (told,) = [event for event in run.events if isinstance(event, WorkerRetired)]
    assert told.worker == broken
    assert name in told.reason
    assert run.attempts.again >= 1
    assert set(client.scheduler_info(n_workers=-1)["workers"]) == {broken, whole}


def test_an_error_names_every_device_that_failed(client, workers, path):
    client.run(_break, -59)
    with pytest.raises(cf.DeviceError, match=r" of .* failed on 2 devices") as told:
        cf.submit(path, "sum", client=client).result(120)
    assert set(re.findall(r"\(worker ([^)]*)\)", str(told.value))) == set(workers)
    assert type(told.value) not in _CODES  # so it is 2, as of a device that is not there


def test_the_only_device_says_itself_how_it_failed(path):
    with cf.LocalOpenCLCluster(dashboard_address=None) as cluster, Client(cluster) as alone:
        alone.run(_break, -59)
        with pytest.raises(cf.DeviceError, match=r"failed while launching .*INVALID_OPERATION"):
            cf.submit(path, "sum", client=alone).result(120)


@pytest.mark.short
def test_partials_that_a_killed_worker_had_are_made_anew_where_a_device_fails(
    path, tmp_path, monkeypatch
):
    """They stay on workers, and Dask makes them again: on the worker that fails, or on none."""
    monkeypatch.setattr("chunkfold.running.sending.GATHER_BYTES", 100)
    monkeypatch.setattr("chunkfold.planning.blocks.BLOCK_PER_PARTIAL", 1)
    want = cf.reduce(path, ["sum", "max"], axis=0)
    made = cf.LocalOpenCLCluster(DEVICES[0].spec, workers_per_device=3, dashboard_address=None)
    with made as cluster, Client(cluster, set_as_default=False) as connected:
        connected.wait_for_workers(3, timeout=60)
        failing, killed, last = sorted(connected.scheduler_info(n_workers=-1)["workers"])
        processes = connected.run(os.getpid)
        connected.run(_slow, str(tmp_path / "broken"), workers=[failing])
        connected.run(_slow, str(tmp_path / "never"), workers=[killed, last])
        ended = []

        def hear(event: Event) -> None:
            if isinstance(event, BlockProgress) and event.done and event.worker == killed:
                ended.append(event.block)
                if len(ended) == 5:
                    (tmp_path / "broken").touch()
                    os.kill(processes[killed], signal.SIGKILL)

        run = cf.submit(path, ["sum", "max"], axis=0, client=connected, on_event=hear)
        found = run.result(60)
    assert len(ended) >= 5
    for op in ("sum", "max"):
        np.testing.assert_array_equal(found[op], want[op])


def test_a_worker_that_comes_again_does_what_a_device_fails_at(path, tmp_path):
    """It is killed, and its nanny starts it anew, while the only other one fails."""
    made = cf.LocalOpenCLCluster(DEVICES[0].spec, workers_per_device=2, dashboard_address=None)
    with made as cluster, Client(cluster, set_as_default=False) as connected:
        connected.wait_for_workers(2, timeout=60)
        failing, killed = sorted(connected.scheduler_info(n_workers=-1)["workers"])
        processes = connected.run(os.getpid)
        connected.run(_slow, str(tmp_path / "never"), workers=[killed])
        connected.run(_break, -59, workers=[failing])
        ended = []

        def hear(event: Event) -> None:
            if isinstance(event, BlockProgress) and event.done and event.worker == killed:
                ended.append(event.block)
                if len(ended) == 2:
                    os.kill(processes[killed], signal.SIGKILL)

        run = cf.submit(path, ["sum", "max"], client=connected, on_event=hear)
        assert run.result(100) == cf.reduce(path, ["sum", "max"])
    assert len(ended) >= 2

"""On a cluster: several device workers, scripted failures, foreign schedulers."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from distributed import Client, LocalCluster
from distributed.core import Status
from tenacity import RetryCallState

import chunkfold as cf
from chunkfold.cluster import device_workers, event_listener
from chunkfold.cluster.joining import connect
from chunkfold.cluster.local_cluster import chosen_devices
from chunkfold.events import BlockProgress, WorkerRetired
from chunkfold.kernels import Device
from chunkfold.kernels.cache.entries import write_entry
from chunkfold.kernels.tuning.decode_request import DecodeRequest
from chunkfold.planning import blocks, planner
from chunkfold.planning.workers import host_cores
from chunkfold.running import on_cluster
from chunkfold.settings import wait_seconds
from chunkfold.worker import worker_device
from chunkfold.worker.worker_device import RESOURCE
from tests.conftest import DEVICES, workers_of
from tests.processes import BIN, awaited, finished, started, worker_command

pytestmark = pytest.mark.unoptimised

OPS = ["sum", "min", "max", "mean"]
_TICK = "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """64 MiB of integers in 256 chunks."""
    path = tmp_path_factory.mktemp("data") / "a.zarr"
    array = np.random.default_rng(0).integers(-(10**6), 10**6, (256, 256, 256), "i4")
    made = zarr.create_array(
        str(path), shape=array.shape, chunks=(1, 256, 256), dtype="i4", compressors=None
    )
    made[...] = array
    return path, array


@pytest.fixture(autouse=True)
def _many_blocks(monkeypatch):
    monkeypatch.setattr(planner, "LEAF_BYTES", 256 * 256 * 4)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (1 << 20, 2 << 20))
    with dask.config.set({"chunkfold.run.stall": 120}):  # before the test's own, and says more
        yield


@contextlib.contextmanager
def cluster(devices) -> Iterator[tuple[cf.LocalOpenCLCluster, Client]]:
    with (
        cf.LocalOpenCLCluster(devices, dashboard_address=None) as made,
        connect(made.scheduler_address) as client,
    ):
        yield made, client


def halves() -> list[Device]:
    """Every device of this host twice: its halves, if it can be split."""
    return [part for device in DEVICES for part in workers_of(device, 2)]


def check(results: dict, array: np.ndarray) -> None:
    assert results["sum"] == array.sum()
    assert results["min"] == array.min()
    assert results["max"] == array.max()
    assert results["mean"] == pytest.approx(array.mean(), rel=1e-12)


def test_a_variant_that_a_worker_has_not_is_refused_before_any_block(data, monkeypatch):
    sent: list[object] = []
    monkeypatch.setattr(on_cluster.OnCluster, "fold", lambda *given: sent.append(given))
    monkeypatch.setenv("CHUNKFOLD_WITHOUT", "sub_groups")
    with cluster(DEVICES[:1]) as (_, client), pytest.raises(cf.DeviceError, match="cannot be used"):
        cf.reduce(data[0], variant="sub_group", client=client)
    assert not sent


def test_every_device_folds_blocks_and_the_right_one_each(data):
    """Two devices of every runtime, in processes of their own, side by side."""
    path, array = data
    with cluster(halves()) as (made, client):
        run = cf.submit(path, OPS, client=client)
        check(run.result(120), array)
        done = [e for e in run.events if isinstance(e, BlockProgress) and e.done]
        owners = {w["name"]: a for a, w in client.scheduler_info(n_workers=-1)["workers"].items()}
    assert {e.block for e in done} == set(range(len(run.plan.blocks)))
    assert set(run.profile) == {device.identity for device in made.devices}
    for device in made.devices:
        entry = run.profile[device.identity]
        folded = [e for e in done if e.device == device.identity]
        assert (
            {e.worker for e in folded} == set(entry.workers) == {owners[f"cpu-{device.identity}"]}
        )
        assert entry.blocks == len(folded) > 0
    assert sum(entry.nbytes for entry in run.profile.values()) == array.nbytes


def test_axis_reductions_come_home_tile_by_tile(data):
    path, array = data
    with cluster(halves()[:2]) as (_, client):
        for axis in (0, (1, 2), 2):
            got = cf.reduce(path, ["sum", "max"], axis=axis, client=client)
            np.testing.assert_array_equal(got["sum"], array.sum(axis=axis))
            np.testing.assert_array_equal(got["max"], array.max(axis=axis))


def test_results_pass_a_scheduler_by_if_it_is_near(data):
    path, array = data

    def refuse(dask_scheduler) -> None:
        dask_scheduler.handlers["gather"] = None

    with cluster(halves()[:1]) as (_, client):
        client.run_on_scheduler(refuse)
        got = cf.reduce(path, "max", axis=0, client=client)
    np.testing.assert_array_equal(got, array.max(axis=0))


def test_a_killed_worker_costs_time_but_not_the_answer(data):
    path, array = data
    with cluster(halves()[:2]) as (made, client):
        pids = client.run(os.getpid)
        victims = []

        def kill_one(event) -> None:
            if isinstance(event, BlockProgress) and event.done and not victims:
                victims.append(event.worker)
                os.kill(pids[event.worker], signal.SIGKILL)

        run = cf.submit(path, OPS, client=client, on_event=kill_one)
        check(run.result(120), array)
        assert len(victims) == 1
        assert pids[victims[0]] not in client.run(os.getpid, on_error="ignore").values()
        # The nanny starts it again, on the same device.
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            found = client.run(_device_of_worker, on_error="ignore")
            if len(set(found.values())) == 2:
                break
            time.sleep(0.2)
        assert set(found.values()) == {device.uuid for device in made.devices}


def _device_of_worker(dask_worker) -> str:
    return dask_worker.plugins["chunkfold-device"].device.uuid


def _busy(dask_worker) -> int:
    return len(dask_worker.state.executing) + len(dask_worker.state.ready)


def test_a_cancelled_run_frees_its_workers(data):
    path, array = data
    with cluster(halves()[:2]) as (_, client):
        begun = threading.Event()
        run = cf.submit(path, OPS, client=client, on_event=lambda e: begun.set())
        assert begun.wait(30)
        run.cancel()
        with pytest.raises(cf.CancelledError):
            run.result(60)
        deadline = time.monotonic() + 30
        while sum(client.run(_busy).values()) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert sum(client.run(_busy).values()) == 0
        assert client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)) == 0
        check(cf.reduce(path, OPS, client=client), array)


def test_nothing_stays_on_the_cluster_after_a_run(data):
    path, array = data
    with cluster([DEVICES[0]]) as (_, client):
        check(cf.reduce(path, OPS, client=client), array)
        deadline = time.monotonic() + 10
        count = len
        while time.monotonic() < deadline:
            left = client.run_on_scheduler(lambda dask_scheduler: count(dask_scheduler.tasks))
            if not left:
                break
            time.sleep(0.1)
        assert left == 0


def test_nobody_listens_any_more_when_a_run_has_ended_or_cannot_be_planned(data):
    path, _ = data
    with cluster(halves()) as (_, client):
        with pytest.raises(cf.PlanError, match="a worker needs"):
            cf.submit(path, client=client, memory=1)
        assert cf.submit(path, "count", client=client).result(60)
        left = [
            listener
            for listener in client._event_handlers.values()
            if isinstance(listener, event_listener.EventListener)
        ]
        assert left == []
        assert event_listener.listener_of(client)._emits == {}
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            listening = client.run_on_scheduler(_topics_heard)
            if not listening:
                break
            time.sleep(0.1)
        assert listening == []


def _topics_heard(dask_scheduler) -> list[str]:
    topics = dask_scheduler._broker._topics.items()
    return [name for name, topic in topics if name.startswith("chunkfold-") and topic.subscribers]


def test_the_scheduler_never_holds_more_than_the_window(data):
    path, _ = data
    with cluster(halves()[:2]) as (_, client):
        most = [0]
        run = cf.submit(path, OPS, client=client)
        while not run.done():
            held = client.run_on_scheduler(
                lambda dask_scheduler: sum(
                    t.state in ("processing", "queued", "no-worker", "waiting")
                    for t in dask_scheduler.tasks.values()
                )
            )
            most[0] = max(most[0], held)
        run.result(60)
        window = 2 * 2 * 2
        assert len(run.plan.blocks) > 2 * window
        # Combines may wait beside the blocks of the window.
        assert 0 < most[0] <= window + 1 + len(run.plan.blocks) // 8


def test_a_changed_array_is_read_again(tmp_path: Path):
    made = zarr.create_array(str(tmp_path / "a.zarr"), shape=(100,), chunks=(10,), dtype="i8")
    with cluster([DEVICES[0]]) as (_, client):
        for value in (1, 2):
            made[...] = value
            assert cf.reduce(tmp_path / "a.zarr", client=client) == 100 * value


def test_a_bad_chunk_ends_the_run_with_its_name(tmp_path: Path):
    layout = {"shape": (100, 1000), "chunks": (1, 1000), "dtype": "i8"}
    made = zarr.create_array(str(tmp_path / "a.zarr"), **layout)
    made[...] = 1
    (tmp_path / "a.zarr" / "c" / "77" / "0").write_bytes(b"no")
    with (
        cluster([DEVICES[0]]) as (_, client),
        pytest.raises(cf.ChunkError, match=r"a.zarr: cannot read chunk 'c/77/0'"),
    ):
        cf.reduce(tmp_path / "a.zarr", client=client)


def test_a_run_that_nothing_is_heard_of_ends_and_says_where_it_stuck(data):
    path, array = data
    with cluster([DEVICES[0]]) as (_, client):
        check(cf.reduce(path, OPS, client=client), array)  # what may take long is done
        client.run(_never_read)
        place = r"made no progress.*fold-0\S* is at .*(per_thread|ring)\.py:\d+ _"
        short = dask.config.set({"chunkfold.run.stall": 5})
        with short, pytest.raises(cf.ClusterError, match=place):
            cf.reduce(path, OPS, client=client)


def _never_read() -> None:
    from chunkfold.decoding.direct import Direct

    Direct.each = lambda *_: (time.sleep(60) for _ in range(1))


def test_a_worker_without_its_device_is_retired_and_the_others_finish(data):
    """Its plugin's setup failed, and it goes on taking tasks."""
    path, array = data
    good = halves()[0]
    gone = replace(good, uuid="00000000-0000-0000-0000-000000000000")
    with cluster([good, gone]) as (_, client):
        run = cf.submit(path, OPS, client=client)
        check(run.result(120), array)
    assert any(isinstance(event, WorkerRetired) for event in run.events)
    assert set(run.profile) == {good.identity}


def test_workers_are_asked_again_however_long_it_took_to_see_that_they_had_gone():
    asking, join = device_workers._until_some_answer(), wait_seconds("chunkfold.workers.join")
    state = RetryCallState(asking, None, (), {})
    state.outcome_timestamp = state.start_time + 2 * join
    assert not asking.stop(state)
    state.prepare_for_next_attempt()
    state.outcome_timestamp = state.start_time + 3 * join
    assert asking.stop(state)


def test_no_worker_with_a_device_is_an_error(data):
    path, _ = data
    gone = replace(DEVICES[0], uuid="00000000-0000-0000-0000-000000000000")
    with (
        cluster([gone]) as (_, client),
        pytest.raises(cf.DeviceError, match=r"found no OpenCL device on 1 worker.*gone"),
    ):
        cf.reduce(path, client=client)


def test_plain_dask_workers_use_their_default_device(data):
    path, array = data
    with (
        LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=None) as made,
        Client(made) as client,
    ):
        check(cf.reduce(path, OPS), array)  # the current client
        assert client.run(lambda: 1)


def test_on_a_mixed_cluster_blocks_go_to_device_workers_only(data, tmp_path: Path):
    path, array = data
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as made,
        Client(made) as client,
        started(worker_command(made.scheduler_address, DEVICES[0].spec), tmp_path / "log"),
    ):
        client.wait_for_workers(3, timeout=60)
        run = cf.submit(path, OPS, client=client)
        check(run.result(120), array)
        workers = client.scheduler_info(n_workers=-1)["workers"]
        (owner,) = [address for address, w in workers.items() if RESOURCE in w["resources"]]
        others = [address for address in workers if address != owner]
        assert {entry.workers for entry in run.profile.values()} == {(owner,)}
        # So do those of arrays of Dask's, but where it fuses tasks it forgets what these ask for.
        lazy = cf.reduce(path, "max", compute=False, client=client)
        with dask.config.set({"optimization.fuse.active": False}):
            assert lazy.compute() == array.max()
        assert lazy.compute(resources={RESOURCE: 1}) == array.max()
        assert client.run(lambda: list(worker_device._of_process), workers=others) == {
            other: [] for other in others
        }


@pytest.mark.parametrize("how", ["a run", "a graph", "the client's own data"])
def test_a_cluster_that_adapts_from_no_worker_starts_some(data, how: str):
    path, array = data
    with (
        LocalCluster(n_workers=0, threads_per_worker=2, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        cluster.adapt(minimum=0, maximum=2, interval="200ms")
        if how == "a graph":
            lazy = cf.reduce(path, "sum", client=client, compute=False)
            found = client.compute(lazy).result(120)
        else:
            run = cf.submit(path if how == "a run" else array, "sum", client=client)
            found = run.result(120)
        assert found == array.sum(dtype="i8")


def test_whoever_joins_gets_blocks_too(tmp_path: Path, monkeypatch):
    """A run that was planned for one worker gives two as much to do as they take."""
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (256 * 256 * 4,) * 2)
    under_way, most = set[int](), [0]
    fold = on_cluster.OnCluster.fold

    def counted(self, block, attempt, done):
        under_way.add(block.number)
        most.append(len(under_way))

        def settled(outcome: object) -> None:
            under_way.discard(block.number)
            done(outcome)

        return fold(self, block, attempt, settled)

    monkeypatch.setattr(on_cluster.OnCluster, "fold", counted)
    slow = da.ones((40, 256, 256), chunks=(1, 256, 256)).map_blocks(_slowly, dtype="f8")
    with (
        dask.config.set({"chunkfold.workers.ask": 0.2}),
        LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        run = cf.submit(slow, "sum", client=client)
        assert run.plan.terms.workers == 1
        cluster.scale(2)
        assert run.result(120) == 40 * 256 * 256
        assert max(most) > 2 * run.plan.threads


def _slowly(values: np.ndarray) -> np.ndarray:
    time.sleep(0.3)
    return values


def test_a_cluster_without_workers_is_an_error(data):
    path, _ = data
    with (
        dask.config.set({"chunkfold.workers.join": "500 ms"}),
        LocalCluster(n_workers=0, dashboard_address=None) as made,
        Client(made) as client,
        pytest.raises(cf.ClusterError, match="no worker joined"),
    ):
        cf.reduce(path, client=client)


def test_a_scheduler_that_is_not_there_is_an_error_within_seconds():
    began = time.monotonic()
    with pytest.raises(cf.ClusterError, match=r"cannot reach a scheduler at 'tcp://127.0.0.1:9'"):
        connect("tcp://127.0.0.1:9", deadline_s=2)
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("address", ["", "nonsense", "nonsense://x:1", "tcp://", "host:port"])
def test_what_is_no_address_of_a_scheduler_is_bad_input(address):
    with pytest.raises(
        cf.PlanError, match=f"'{address}' is not an address of a scheduler .*: write it"
    ):
        connect(address, deadline_s=2)


def test_workers_share_a_device_and_one_that_dies_costs_time_only(data):
    path, array = data
    for device in halves()[::2]:  # a CPU would be split
        made = cf.LocalOpenCLCluster([device], workers_per_device=2, dashboard_address=None)
        with made, connect(made.scheduler_address) as client:
            addresses = set(client.scheduler_info(n_workers=-1)["workers"])
            run = cf.submit(path, OPS, client=client)
            assert run.plan.terms.workers == len(addresses) == 2
            check(run.result(120), array)
            (entry,) = run.profile.values()
            assert (entry.device, set(entry.workers)) == (device, addresses)
            assert (entry.blocks, entry.nbytes) == (len(run.plan.blocks), array.nbytes)

            pids = client.run(os.getpid)
            os.kill(next(iter(pids.values())), signal.SIGKILL)
            check(cf.reduce(path, OPS, client=client), array)


def test_a_cluster_brings_back_workers_however_long_that_takes(data):
    """Dask itself gives up one that is away for longer than a while."""
    path, array = data
    with dask.config.set({"distributed.deploy.lost-worker-timeout": 0.1}):
        made = cf.LocalOpenCLCluster([DEVICES[0]], dashboard_address=None)
    with made, connect(made.scheduler_address) as client:
        (nanny,) = made.workers.values()
        os.kill(nanny.pid, signal.SIGKILL)
        check(cf.reduce(path, OPS, client=client), array)
        assert nanny.pid is not None
        made.sync(nanny.close)  # as it does if its worker dies while it starts
        check(cf.reduce(path, OPS, client=client), array)
        assert nanny not in made.workers.values()


@pytest.mark.parametrize(("configured", "tick"), [({}, "1s"), ({_TICK: "5ms"}, "5ms")])
def test_dask_is_calm_unless_it_is_configured(configured, tick):
    """In a process of its own, as Dask's defaults are one list for all that a process does."""
    code = (
        "import dask; from chunkfold.cluster.local_cluster import calm_dask\n"
        "calm_dask(); calm_dask()\n"
        "for name in ('worker.profile.interval', 'admin.tick.interval'):\n"
        "    print(dask.config.get(f'distributed.{name}'))"
    )
    done = finished([sys.executable, "-c", code], 60, os.environ | configured)
    assert done.stdout.split() == ["1s", tick], done.stderr


def test_workers_may_be_threads(data):
    """One process for all devices."""
    path, array = data
    with (
        cf.LocalOpenCLCluster(halves()[:2], processes=False, dashboard_address=None) as made,
        connect(made.scheduler_address) as client,
    ):
        check(cf.reduce(path, OPS, client=client), array)


def test_a_run_that_lost_all_its_workers_ends(data):
    path, _ = data
    short = {"chunkfold.no-workers-timeout": 2, "chunkfold.workers.ask": 0.5}
    with dask.config.set(short), cluster([DEVICES[0]]) as (made, client):
        run = cf.submit(path, OPS, client=client, on_event=lambda _: time.sleep(0.05))
        client.retire_workers(list(made.scheduler.workers))
        with pytest.raises(cf.ClusterError, match="lost all its workers, and none came within 2 s"):
            run.result(60)


def test_an_asynchronous_client_is_refused(data):
    async def reduced() -> None:
        async with Client(asynchronous=True, processes=False, dashboard_address=None) as client:
            with pytest.raises(cf.PlanError, match=r"client is asynchronous.*asyncio.to_thread"):
                cf.reduce(data[0], client=client)

    asyncio.run(reduced())


def test_a_device_without_workers_is_refused():
    for number in (0, -1, 1.5, "x"):
        with pytest.raises(cf.DeviceError, match=r"workers_per_device is .*; give a whole number"):
            cf.LocalOpenCLCluster([DEVICES[0]], workers_per_device=number)


def test_a_cluster_does_not_scale_beyond_its_workers():
    with (
        cluster([DEVICES[0]]) as (made, _),
        pytest.raises(cf.ClusterError, match="beyond 1 worker"),
    ):
        made.new_worker_spec()


def test_an_interrupt_while_workers_start_closes_the_cluster():
    made = []
    before = {*multiprocessing.active_children()}  # of a cluster that other files share

    class Interrupted(cf.LocalOpenCLCluster):
        async def _start_workers(self) -> None:
            made.append(self)
            asyncio.get_running_loop().call_later(0.2, _thread.interrupt_main)
            await asyncio.gather(super()._start_workers(), asyncio.sleep(2))  # however fast it is

    with pytest.raises(KeyboardInterrupt):
        Interrupted(DEVICES[0].spec, dashboard_address=None)
    assert made[0].status is Status.closed
    assert not {*multiprocessing.active_children()} - before


def test_a_close_that_is_interrupted_goes_on():
    made = cf.LocalOpenCLCluster([DEVICES[0]], dashboard_address=None)

    async def interrupted() -> None:  # as Dask's `sync` does to what it waits for
        closing = asyncio.create_task(made._close())
        await asyncio.sleep(0)
        closing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await closing

    made.sync(interrupted)
    assert made.status == Status.closing
    made.close(timeout=30)
    assert made.status == Status.closed


def test_a_script_without_a_main_guard_is_told_so(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(
        "import chunkfold as cf\n"
        f"with cf.LocalOpenCLCluster({DEVICES[0].spec!r}, dashboard_address=None): pass\n"
    )
    done = finished([sys.executable, script], 100)
    assert done.returncode == 1
    assert "put its code under if __name__ == '__main__'" in done.stderr
    assert "ClusterError: only 0 of 1 worker started" in done.stderr


def test_a_closed_client_is_named(data):
    path, _ = data
    with cluster([DEVICES[0]]) as (_, client):
        pass
    with pytest.raises(cf.ClusterError, match="the client is closed"):
        cf.reduce(path, client=client)


def test_a_scheduler_that_dies_ends_the_run_with_a_cluster_error(data, tmp_path: Path):
    path, _ = data
    log = tmp_path / "scheduler.log"
    words = [BIN / "dask", "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    with started(words, log) as scheduler:
        address = awaited(log, r"Scheduler at:\s+(tcp://\S+)", scheduler)
        with started(worker_command(address, DEVICES[0].spec), tmp_path / "worker.log"):
            client = connect(address)
            client.wait_for_workers(1, timeout=60)

            def kill(event) -> None:
                if isinstance(event, BlockProgress):
                    scheduler.kill()

            run = cf.submit(path, client=client, on_event=kill)
            with pytest.raises(cf.ClusterError, match="connection to the scheduler was lost"):
                run.result(120)
            with contextlib.suppress(Exception):
                client.close(timeout=1)


def test_a_port_that_answers_nothing_or_nonsense_is_no_scheduler():
    import socket

    for answer in (b"", b"HTTP/1.0 400 Bad\r\n\r\n"):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]

            def serve(answer=answer, server=server) -> None:
                with contextlib.suppress(OSError):
                    comm, _ = server.accept()
                    comm.sendall(answer)
                    threading.Event().wait(5)
                    comm.close()

            threading.Thread(target=serve, daemon=True).start()
            with pytest.raises(cf.ClusterError, match="cannot reach a scheduler"):
                connect(f"tcp://127.0.0.1:{port}", deadline_s=2)


def test_devices_are_named_in_any_way():
    first = DEVICES[0]
    assert chosen_devices([first, first.spec, first.uuid]) == [first]
    assert chosen_devices(first.spec) == [first]
    with pytest.raises(cf.DeviceError, match="no devices were named"):
        chosen_devices([])


def test_workers_join_a_separately_started_scheduler(data, tmp_path: Path):
    """`dask scheduler` and `chunkfold worker`, each a process of its own."""
    path, array = data
    log = tmp_path / "scheduler.log"
    with contextlib.ExitStack() as stack:
        scheduler = stack.enter_context(
            started([BIN / "dask", "scheduler", "--host", "127.0.0.1", "--port", "0",
                     "--no-dashboard"], log)
        )  # fmt: skip
        address = awaited(log, r"Scheduler at:\s+(tcp://\S+)", scheduler)
        command = worker_command(address, *(part.spec for part in halves()[:2]))
        worker = stack.enter_context(started(command, tmp_path / "worker.log"))
        with connect(address) as client:
            client.wait_for_workers(2, timeout=60)
            run = cf.submit(path, OPS, client=client)
            check(run.result(120), array)
            assert len(run.profile) == 2
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
        with connect(address) as client:
            assert client.scheduler_info(n_workers=-1)["workers"] == {}


def test_a_worker_without_a_scheduler_gives_up_within_seconds():
    done = finished(worker_command("tcp://127.0.0.1:9", DEVICES[0].spec), 60)
    assert done.returncode == 4
    assert "ClusterError: cannot reach a scheduler at 'tcp://127.0.0.1:9'" in done.stderr


@pytest.mark.parametrize(("last", "by"), [(1e3, "host"), (9e12, "device")])
def test_the_slowest_device_decides_who_decodes(tmp_path: Path, monkeypatch, last: float, by: str):
    monkeypatch.setenv("CHUNKFOLD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CHUNKFOLD_TIES")
    path = tmp_path / "z"
    zarr.create_array(path, shape=(64, 16384), chunks=(1, 16384), dtype="f4")[...] = 1
    own = [replace(device, unified_memory=False) for device in DEVICES[-2:]]
    for device in own:
        rates = {"codec": "zstd", "device": last if device is own[-1] else 9e12, "core": 1e9}
        write_entry(DecodeRequest(device, "zstd").path, json.dumps(rates).encode())
    with (
        cf.LocalOpenCLCluster(own, workers_per_device=2, dashboard_address=None) as made,
        connect(made.scheduler_address) as client,
    ):
        plan = cf.plan(path, "sum", client=client)
        (rates,) = plan.terms.decode_rates
        assert (rates.device, rates.core) == (last, 1e9)
        assert rates.cores == min(2 * plan.terms.readers, host_cores())
        assert f"decoding  on the {by}: zstd, measured" in str(plan)
        assert cf.plan(plan, client=client).blocks is plan.blocks

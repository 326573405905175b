"""Two hosts, as network namespaces: the scheduler on one, the device worker on the other."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import zarr

from tests.conftest import DEVICES
from tests.processes import BIN, awaited, finished, started, worker_command

pytestmark = pytest.mark.real

JOB = """
import sys, numpy as np, chunkfold as cf
from chunkfold.cluster.joining import connect
if __name__ == "__main__":
    with connect(sys.argv[1]) as client:
        client.wait_for_workers(int(sys.argv[3]), timeout=60)
        run = cf.submit(sys.argv[2], ["sum", "min", "max"], client=client)
        results = run.result(120)
        workers = {worker.split(":")[1] for one in run.profile.values() for worker in one.workers}
        print({k: int(v) for k, v in results.items()}, sorted(workers))
"""


@dataclass(frozen=True)
class Host:
    """A network namespace with one address, and a name of its own for what runs in it."""

    namespace: str
    address: str

    def command(self, *words: object) -> list[object]:
        named = ["unshare", "--uts", "sh", "-c", f'hostname {self.namespace}; exec "$@"', "sh"]
        return ["ip", "netns", "exec", self.namespace, *named, *words]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    """Two hosts with a link between them, and nothing else."""
    assert os.geteuid() == 0, "make test-real needs root, to make network namespaces"
    tag = uuid.uuid4().hex[:6]
    pair = tuple(Host(f"cf-{tag}-{n}", f"10.213.7.{n + 1}") for n in range(2))
    with contextlib.ExitStack() as stack:
        for host in pair:
            ip("netns", "add", host.namespace)
            stack.callback(ip, "netns", "delete", host.namespace)
        ends = [f"v{tag}{n}" for n in range(2)]
        ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for host, end in zip(pair, ends, strict=True):
            ip("link", "set", end, "netns", host.namespace)
            ip("-n", host.namespace, "addr", "add", f"{host.address}/24", "dev", end)
            ip("-n", host.namespace, "link", "set", end, "up")
            ip("-n", host.namespace, "link", "set", "lo", "up")
        yield pair


@pytest.fixture
def data(tmp_path: Path) -> tuple[Path, dict]:
    array = np.random.default_rng(0).integers(-(10**6), 10**6, (200, 300, 300), "i4")
    made = zarr.create_array(
        str(tmp_path / "a.zarr"), shape=array.shape, chunks=(2, 300, 300), dtype="i4"
    )
    made[...] = array
    return tmp_path / "a.zarr", {op: int(getattr(np, op)(array)) for op in ("sum", "min", "max")}


def test_a_scheduler_and_workers_on_two_hosts(hosts, data, tmp_path: Path):
    """By the commands of deploy/README.md, and a client on either host."""
    one, two = hosts
    path, want = data
    (tmp_path / "job.py").write_text(JOB)
    log = tmp_path / "scheduler.log"
    with contextlib.ExitStack() as stack:
        words = [BIN / "dask", "scheduler", "--host", one.address, "--port", "8786"]
        scheduler = stack.enter_context(started(one.command(*words, "--no-dashboard"), log))
        address = awaited(log, r"Scheduler at:\s+(tcp://\S+)", scheduler)
        for number, host in enumerate(hosts):
            words = worker_command(address, f"{DEVICES[0].spec}/2#{number}")
            stack.enter_context(started(host.command(*words), tmp_path / f"worker-{number}.log"))
        for host in hosts:
            job = host.command(sys.executable, tmp_path / "job.py", address, path, 2)
            done = finished(job, 180)
            assert done.returncode == 0, done.stderr
            assert done.stdout.strip() == f"{want} ['//{one.address}', '//{two.address}']"


def test_hosts_of_one_model_of_cpu_join_with_the_same_device(hosts, data, tmp_path: Path):
    """Drivers give it the same UUID on both; a second worker for it on one of them is refused."""
    one, two = hosts
    path, want = data
    device, log = DEVICES[0], tmp_path / "scheduler.log"
    with contextlib.ExitStack() as stack:
        words = [BIN / "dask", "scheduler", "--host", one.address, "--port", "8786"]
        scheduler = stack.enter_context(started(one.command(*words, "--no-dashboard"), log))
        address = awaited(log, r"Scheduler at:\s+(tcp://\S+)", scheduler)
        joining = worker_command(address, device.spec)
        for host in hosts:
            stack.enter_context(started(host.command(*joining), tmp_path / host.namespace))
            awaited(log, rf"(Register worker .*{host.address})", scheduler)
        again = finished(two.command(*joining), 60)
        assert again.returncode == 2, again.stderr
        (said,) = [line for line in again.stderr.splitlines() if not line.startswith("worker ")]
        assert said.startswith(f"DeviceError: {device} of host {two.namespace!r} has a worker (tcp")
        reduce = [BIN / "chunkfold", "reduce", path, "--scheduler", address, "--op", "sum,min,max"]
        words = [*reduce, "--manifest", tmp_path / "m.json", "--json"]
        done = finished(two.command(*words), 180)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["results"] == want
    (run,) = json.loads((tmp_path / "m.json").read_text())["runs"].values()
    for told in (json.loads(done.stdout)["devices"], run["devices"]):
        assert {entry["host"] for entry in told} == {one.namespace, two.namespace}
        assert len({entry["workers"][0] for entry in told}) == len(told) == 2
        assert {entry["device"] for entry in told} == {device.spec}
        assert sum(entry["bytes"] for entry in told) == 200 * 300 * 300 * 4
    for host in hosts:
        assert f"{device.spec} on {host.namespace}" in done.stderr


def test_a_link_that_drops_does_not_hang_the_worker(hosts, tmp_path: Path):
    """The worker's own deadline ends it, with a sentence and exit code 4."""
    one, two = hosts
    ip("-n", one.namespace, "link", "set", "lo", "down")
    began = time.monotonic()
    words = worker_command(f"tcp://{one.address}:8786", DEVICES[0].spec)
    done = finished(two.command(*words), 90)
    assert done.returncode == 4
    assert "cannot reach a scheduler" in done.stderr
    assert time.monotonic() - began < 60

"""Runs of which a process is stopped, by real signals, at a moment that a server chooses.

Tests import the fixtures that they use.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import dask
import numpy as np
import pytest
import zarr
from distributed import Client

import chunkfold as cf
from chunkfold.cluster.joining import connect
from chunkfold.events import Waiting, WorkerRetired
from chunkfold.planning import blocks, planner
from chunkfold.running.run import Run
from tests.conftest import DEVICES
from tests.processes import BIN, all_ended, awaited, started, worker_command
from tests.web import Web, served

FIRST = DEVICES[0]
CHUNKS = 96
OPS = ["sum", "count", "max"]
SOON = {
    "chunkfold.workers.silent": 3.0,
    "chunkfold.workers.ask": 0.3,
    "chunkfold.no-workers-timeout": 4.0,
    "chunkfold.workers.answer": 5.0,
    "chunkfold.run.tell": 1.0,
    "chunkfold.close": 3.0,
}
"""Settings of the suite; `make chaos` takes the defaults."""


def variables(settings: dict[str, float]) -> dict[str, str]:
    """Return settings as a command's environment has them."""
    named = {name.upper().replace(".", "__"): value for name, value in settings.items()}
    return os.environ | {f"DASK_{name}": str(value) for name, value in named.items()}


@dataclass
class Trap:
    """Does something before one of the requests for chunks is answered."""

    at: int = -1
    then: Callable[[], None] = lambda: None
    asked: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def set(self, at: int, then: Callable[[], None]) -> None:
        """Do this before so many are answered from now on."""
        with self.lock:
            self.asked, self.at, self.then = 0, at, then

    def __call__(self, path: str, before: int) -> str:
        if "/c/" in path:
            with self.lock:
                self.asked += 1
                due = self.asked == self.at
            if due:
                self.then()
        return ""


@contextlib.contextmanager
def slow_array(folder: Path) -> Iterator[tuple[Web, Trap, np.ndarray]]:
    """Serve an array of which a worker reads a chunk after the other."""
    array = np.random.default_rng(0).integers(-(10**6), 10**6, (CHUNKS, 64, 64), "i4")
    made = zarr.create_array(
        str(folder / "a.zarr"), shape=array.shape, chunks=(1, 64, 64), dtype="i4", compressors=None
    )
    made[...] = array
    trap = Trap()
    few = dask.config.set({"chunkfold.remote.requests": 2})
    with few, served(folder, failing=trap, delay_s=0.02) as web:
        yield web, trap, array


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run have many leaves, and several blocks."""
    monkeypatch.setattr(planner, "LEAF_BYTES", 64 * 64 * 4)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (1 << 15, 1 << 16))


@pytest.fixture(scope="module")
def two() -> Iterator[Client]:
    """Connect to a cluster of two workers."""
    halves = [part.spec for part in cf.devices(f"{FIRST.spec}/2")]
    with (
        cf.LocalOpenCLCluster(halves, dashboard_address=None) as made,
        connect(made.scheduler_address) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Web, Trap, np.ndarray]]:
    """Serve an array of which a worker reads a chunk after the other."""
    with slow_array(tmp_path_factory.mktemp("data")) as made:
        yield made


def stopped_once(
    client: Client, web: Web, trap: Trap, array: np.ndarray, goes_on: str = "never"
) -> tuple[Run, str]:
    """Reduce while one of the workers is stopped, at random; return the run, and the worker.

    It goes on "never", "early": before others do its work, or "late": as soon as they do.
    """
    pids = client.run(os.getpid)
    victim, moment = random.choice(sorted(pids)), random.randint(1, CHUNKS * 9 // 10)
    print(f"{victim} is stopped at chunk {moment}, and goes on: {goes_on}")
    proceed = threading.Event()

    def stop() -> None:
        os.kill(pids[victim], signal.SIGSTOP)
        if goes_on == "early":
            pause = dask.config.get("chunkfold.workers.silent", 60.0) / 3
            threading.Timer(pause, os.kill, (pids[victim], signal.SIGCONT)).start()
        if goes_on == "late":
            proceed.wait(120)  # somebody has to be waited for when it does

    def hear(event: object) -> None:
        if isinstance(event, WorkerRetired) and goes_on == "late":
            os.kill(pids[event.worker], signal.SIGCONT)
            threading.Timer(2, proceed.set).start()

    trap.set(moment, stop)
    try:
        run = cf.submit(f"{web.url}/a.zarr", OPS, client=client, on_event=hear)
        results = run.result(250)
    finally:
        proceed.set()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pids[victim], signal.SIGCONT)
            os.kill(pids[victim], signal.SIGKILL)
    assert trap.asked >= moment
    assert results["count"] == array.size
    assert results["sum"] == array.sum(dtype="i8")
    assert results["max"] == array.max()
    return run, victim


def waited_for(run: Run) -> list[str]:
    """Return what a run said that it waited for."""
    return [event.what for event in run.events if isinstance(event, Waiting)]


def both_there(client: Client, count: int = 2, seconds: float = 60) -> None:
    """Wait until all workers answer: of one that was killed another is started."""
    deadline = time.monotonic() + seconds
    while len(client.run(os.getpid, on_error="ignore")) < count and time.monotonic() < deadline:
        time.sleep(0.2)


def close_with_a_stopped_worker(spec: str) -> float:
    """Close a cluster whose worker is stopped; return how long it took, in seconds."""
    made = cf.LocalOpenCLCluster([spec], dashboard_address=None)
    (nanny,) = made.workers.values()
    process = nanny.pid
    os.kill(process, signal.SIGSTOP)
    began = time.monotonic()
    made.close()
    seconds = time.monotonic() - began
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, 0)
        raise AssertionError(f"worker {process} is there still")
    return seconds


@contextlib.contextmanager
def scheduled(folder: Path) -> Iterator[tuple[subprocess.Popen, str]]:
    """A plain scheduler, a process of its own."""
    words = [BIN / "dask", "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    log = folder / "scheduler.log"
    with started(words, log) as scheduler:
        yield scheduler, awaited(log, r"Scheduler at:\s+(tcp://\S+)", scheduler)


def reduce_with_one_stopped(
    address: str,
    spec: str,
    web: Web,
    trap: Trap,
    folder: Path,
    settings: dict[str, float],
    scheduler: int | None = None,
) -> tuple[float, str]:
    """Stop the only worker, or the scheduler by its pid, while a command reduces.

    Returns how long the command took, and what it said.
    """
    environment = variables(settings)
    with (folder / "worker").open("w") as out:
        worker = subprocess.Popen(
            [str(word) for word in worker_command(address, spec)],
            env=environment,
            start_new_session=True,
            stderr=out,
        )
    with connect(address) as client:
        client.wait_for_workers(1, timeout=60)
        (process,) = client.run(os.getpid).values()
    trap.set(10, lambda: os.kill(scheduler or process, signal.SIGSTOP))
    command = [BIN / "chunkfold", "reduce", f"{web.url}/a.zarr", "--scheduler", address]
    began = time.monotonic()
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=250, check=False
    )
    seconds = time.monotonic() - began
    assert done.returncode == 4, done.stderr
    if scheduler is not None:
        os.kill(scheduler, signal.SIGCONT)
    worker.terminate()
    assert worker.wait(60) == 0
    assert all_ended(worker.pid)
    return seconds, done.stderr


def reduce_and_sleep(
    spec: str, web: Web, trap: Trap, settings: dict[str, float], seconds: float
) -> tuple[str, list[str]]:
    """Stop a command and all it started for a while; return its output, and names of events."""
    command = [
        BIN / "chunkfold", "reduce", f"{web.url}/a.zarr", "--json-lines", "--device", f"{spec}/2",
    ]  # fmt: skip
    process = subprocess.Popen(
        [str(word) for word in command],
        env=variables(settings),
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def sleep() -> None:
        os.killpg(process.pid, signal.SIGSTOP)
        threading.Timer(seconds, os.killpg, (process.pid, signal.SIGCONT)).start()

    trap.set(20, sleep)
    told, said = process.communicate(timeout=seconds + 100)
    assert process.returncode == 0, said
    assert trap.asked > 20
    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return told + said, [event["event"] for event in events]

"""Processes that are stopped: a run goes on without them, or ends; nothing hangs.

With settings of seconds; `make chaos` does the same with the defaults.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import dask
import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.cluster.joining import connect
from chunkfold.errors import WorkerStoppedError
from chunkfold.planning.blocks import Block
from chunkfold.running import ready
from chunkfold.running.backend import InProcess, OnOutcome
from tests.stops import (
    FIRST,
    SOON,
    both_there,
    close_with_a_stopped_worker,
    reduce_and_sleep,
    reduce_with_one_stopped,
    scheduled,
    slow,
    small,
    stopped_once,
    two,
    waited_for,
)


@pytest.fixture(autouse=True)
def _soon() -> Iterator[None]:
    with dask.config.set(SOON):
        yield


@pytest.mark.parametrize("goes_on", ["never", "early", "late"])
def test_a_worker_that_is_stopped_at_any_moment_costs_time_but_not_the_answer(two, slow, goes_on):
    both_there(two)
    run, victim = stopped_once(two, *slow, goes_on)  # type: ignore[call-arg]
    # One that goes on in time is nobody's loss.
    assert run.attempts.stopped == (() if goes_on == "early" else (victim,))
    assert goes_on == "early" or any(f"worker {victim} was not heard" in w for w in waited_for(run))


def test_a_run_goes_on_without_a_worker_that_was_stopped_before_it(two, slow):
    both_there(two)
    web, _, array = slow
    pids = two.run(os.getpid)
    victim = next(iter(pids))
    os.kill(pids[victim], signal.SIGSTOP)
    assert cf.reduce(f"{web.url}/a.zarr", client=two) == array.sum(dtype="i8")
    assert victim not in two.scheduler_info(n_workers=-1)["workers"]
    # Going on, it finds that it is not wanted, and its nanny starts another in its place.
    os.kill(pids[victim], signal.SIGCONT)
    both_there(two)
    assert len(two.run(os.getpid)) == 2


class Twice(InProcess):
    """Says of the first attempt of a block that its worker is stopped; it is carried out anyway."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: list[int] = []

    def fold(self, block: Block, attempt: int, on_outcome: OnOutcome) -> object:
        if block.number == 0:
            self.numbers.append(attempt)
        if block.number == 0 and attempt == 0:
            on_outcome(WorkerStoppedError("stopped", "w"))
        return super().fold(block, attempt, on_outcome)


def test_what_an_earlier_attempt_brings_is_dropped_and_counted(tmp_path: Path, monkeypatch):
    backend = Twice()
    monkeypatch.setattr(ready, "InProcess", lambda: backend)
    array = np.arange(64 * 64 * 64, dtype="i8").reshape(64, 64, 64)
    zarr.create_array(str(tmp_path / "a"), data=array, chunks=(1, 64, 64))
    run = cf.submit(tmp_path / "a", ["sum", "count"])
    assert run.result(60) == {"sum": array.sum(), "count": array.size}
    assert backend.numbers == [0, 1]
    assert (run.attempts.again, run.attempts.dropped) == (1, 1)


def test_a_cluster_closes_in_time_though_a_worker_is_stopped():
    assert close_with_a_stopped_worker(FIRST.spec) < 2 * SOON["chunkfold.close"] + 5


def test_the_only_worker_of_a_plain_scheduler_is_stopped_and_the_run_ends(slow, tmp_path: Path):
    """The command ends with exit code 4 in time, and so do the worker's, and what it started."""
    with scheduled(tmp_path) as (scheduler, address):
        seconds, said = reduce_with_one_stopped(address, FIRST.spec, *slow[:2], tmp_path, SOON)  # type: ignore[call-arg]
        assert seconds < 30
        assert "waiting: no worker was heard for" in said
        assert "lost all its workers, and none came within 4 s" in said

        # A client is left in time where its scheduler is stopped.
        client = connect(address)
        scheduler.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        with client:
            pass
        assert time.monotonic() - began < SOON["chunkfold.close"] + 5
        scheduler.send_signal(signal.SIGCONT)


def test_a_scheduler_is_stopped_and_the_run_ends(slow, tmp_path: Path):
    settings = SOON | {"chunkfold.workers.answer": 2.0, "chunkfold.close": 1.0}
    with scheduled(tmp_path) as (scheduler, address):
        asked = (address, FIRST.spec, *slow[:2], tmp_path, settings, scheduler.pid)
        seconds, said = reduce_with_one_stopped(*asked)
    assert f"ClusterError: the scheduler at {address} has not answered for 2 s: it stopped" in said
    assert "after 2 s the run ends" in said
    assert seconds < 15


def test_all_are_stopped_for_longer_than_any_deadline_and_nobody_is_removed(slow):
    """As a laptop that slept: workers, scheduler and client."""
    web, trap, array = slow
    slept = 2 * SOON["chunkfold.workers.silent"]
    told, events = reduce_and_sleep(FIRST.spec, web, trap, SOON, slept)
    assert str(array.sum(dtype="i8")) in told
    assert not {"WorkerRetired", "Failed"}.intersection(events)

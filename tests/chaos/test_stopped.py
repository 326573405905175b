"""Stopped processes with the settings that users have: make chaos."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import zarr

import chunkfold as cf
from tests.processes import BIN
from tests.stops import (
    FIRST,
    OPS,
    both_there,
    close_with_a_stopped_worker,
    reduce_and_sleep,
    reduce_with_one_stopped,
    scheduled,
    slow,
    small,
    stopped_once,
    two,
)

pytestmark = pytest.mark.chaos
MOMENTS = 20
BEYOND_S = 120
"""Longest that a stopped worker may take more than an undisturbed run, in seconds."""


@pytest.mark.parametrize("number", range(MOMENTS))
def test_a_worker_of_two_is_stopped_at_a_random_moment(two, slow, number):
    web, trap, _ = slow
    goes_on = ("never", "late", "never", "early")[number % 4]
    both_there(two)
    trap.set(-1, lambda: None)
    began = time.monotonic()
    cf.reduce(f"{web.url}/a.zarr", OPS, client=two)
    undisturbed = time.monotonic() - began
    began = time.monotonic()
    run, victim = stopped_once(two, *slow, goes_on)  # type: ignore[call-arg]
    took = time.monotonic() - began
    print(f"undisturbed {undisturbed:.1f} s, with a stopped worker {took:.1f} s; {run.attempts}")
    assert took < undisturbed + BEYOND_S
    given_up = run.attempts.stopped
    assert given_up in ((), (victim,) if goes_on != "early" else ())
    # Blocks that were late may have ended elsewhere before it was given up.
    assert given_up or run.attempts.again or goes_on == "early"


def test_the_only_worker_is_stopped(slow, tmp_path: Path):
    with scheduled(tmp_path) as (_, address):
        seconds, said = reduce_with_one_stopped(address, FIRST.spec, *slow[:2], tmp_path, {})  # type: ignore[call-arg]
    print(f"exit code 4 after {seconds:.0f} s:\n{said}")
    assert said.count("waiting: ") >= 10


def test_the_scheduler_is_stopped(slow, tmp_path: Path):
    with scheduled(tmp_path) as (scheduler, address):
        asked = (address, FIRST.spec, *slow[:2], tmp_path, {}, scheduler.pid)
        seconds, said = reduce_with_one_stopped(*asked)
    print(f"exit code 4 after {seconds:.0f} s:\n{said}")
    assert "has not answered for 60 s" in said
    assert seconds < 60 + 45


def test_all_are_stopped_for_90_s(slow):
    web, trap, array = slow
    told, events = reduce_and_sleep(FIRST.spec, web, trap, {}, 90)
    assert str(array.sum(dtype="i8")) in told
    assert not {"WorkerRetired", "Failed"}.intersection(events)


def test_a_cluster_is_closed_whose_worker_is_stopped():
    seconds = close_with_a_stopped_worker(FIRST.spec)
    print(f"closed in {seconds:.0f} s")
    assert seconds < 40


@pytest.mark.timeout(400)
def test_a_worker_is_stopped_as_it_starts(tmp_path: Path):
    preload = tmp_path / "stopped.py"
    preload.write_text("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)")
    array = tmp_path / "a.zarr"
    zarr.create_array(str(array), data=np.arange(10))
    began = time.monotonic()
    done = subprocess.run(
        [BIN / "chunkfold", "reduce", array, "--device", FIRST.spec],
        env=os.environ | {"DASK_DISTRIBUTED__WORKER__PRELOAD": str(preload)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    print(f"exit code {done.returncode} after {time.monotonic() - began:.0f} s:\n{done.stderr}")
    assert done.returncode == 4
    assert "it has not answered yet" in done.stderr

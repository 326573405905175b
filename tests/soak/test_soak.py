"""Thousands of runs in one process and on one cluster: these hold no more at the end.

CHUNKFOLD_SOAK is how many runs each has.
"""

from __future__ import annotations

import gc
import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import dask
import dask.array
import h5py
import numpy as np
import psutil
import pytest
import zarr
from distributed import Client

import chunkfold as cf
from chunkfold.running.run import Run
from tests.conftest import DEVICES
from tests.ledgers import aged, assert_same
from tests.pipeline.test_leaks import SHORT

pytestmark = [pytest.mark.soak, pytest.mark.spawned, pytest.mark.timeout(1800)]
RUNS = int(os.environ.get("CHUNKFOLD_SOAK", "200"))
SHAPE = (24, 20, 30)
QUESTIONS: Sequence[tuple[str, Any, dict[str, Any]]] = (
    ("f4", "sum", {}),
    ("f4", ["mean", "std", "argmax"], {"axis": 0}),
    ("i2", ["min", "max"], {"axis": (1, 2)}),
    ("f4", "mean", {"axis": 0, "by": np.arange(24) % 4}),
    ("i2", ["median", "p95"], {"axis": 0}),
    ("f4", "sum", {"mode": "fast"}),
    ("h5", "mean", {"selection": (slice(3, 20), ..., 5)}),
    ("numpy", "var", {"axis": 1}),
    ("i2", "count", {"where": "x > 50"}),
    ("f4", "mean", {"axis": 0, "weights": np.linspace(1, 2, 30)}),
    ("f4", "mean", {"coarsen": {1: 4, 2: 5}}),
    ("dask", "max", {"axis": 2}),
    ("f4", {"a": cf.ask("mean"), "b": cf.ask("max", axis=0)}, {}),
    ("cut", "sum", {}),
)
WARM = max(RUNS // 10, 8 * len(QUESTIONS))
"""Runs before it is first measured what is held: each question several times, with a ledger too."""
ONE_LEDGER = 10 * len(QUESTIONS)
"""Runs that share a ledger: then they have another, which has nothing."""
CANCELLED = 17
"""One of so many runs is cancelled as soon as it is submitted."""


@dataclass(frozen=True)
class Held:
    """The resources that a process holds."""

    nbytes: int
    """Resident memory."""
    files: int
    threads: int


MOST = Held(8 << 20, 4, 4)
"""More than before, however many runs there were: memory that is free, but in pieces; pools."""
MOST_OF_RUN = Held(4096, 0, 0)
"""More than before for each run: a million of them would be 4 GiB."""


def held(pids: Sequence[int]) -> list[Held]:
    """Measure processes."""
    gc.collect()
    each = [psutil.Process(pid) for pid in pids]
    return [Held(one.memory_info().rss, one.num_fds(), one.num_threads()) for one in each]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("sources")
    rng = np.random.default_rng(0)
    floats = rng.normal(size=SHAPE).astype("f4")
    integers = rng.integers(0, 99, SHAPE).astype("i2")
    zarr.create_array(folder / "f4", data=floats, chunks=(2, *SHAPE[1:]))
    zarr.create_array(folder / "i2", data=integers, chunks=(2, 10, 10), shards=(4, 20, 30))
    zarr.create_array(folder / "cut", data=floats, chunks=(2, *SHAPE[1:]))
    os.truncate(folder / "cut" / "c" / "5" / "0" / "0", 100)
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("h5", data=floats, chunks=(4, *SHAPE[1:]), compression="gzip")
    aged(folder)
    return {
        **{name: folder / name for name in ("f4", "i2", "cut")},
        "h5": folder / "a.h5" / "h5",
        "numpy": floats,
        "dask": dask.array.from_array(integers, chunks=(8, *SHAPE[1:])),
    }


def submitted(sources: dict[str, Any], number: int, folder: Path, client: Client | None) -> Run:
    """Start the run of a number."""
    of, op, more = QUESTIONS[number % len(QUESTIONS)]
    if number // len(QUESTIONS) % 2 and of in ("f4", "i2", "cut") and "mode" not in more:
        more = more | {"ledger": folder / f"{number // ONE_LEDGER}.ledger"}
    run = cf.submit(sources[of], op, client=client, **more)
    if number % CANCELLED == 0:
        run.cancel()
    return run


def outcome(run: Run) -> Any:
    """Return the results of a run, or what it ended by."""
    try:
        return run.result(60)
    except (cf.CancelledError, cf.ChunkError) as error:
        return type(error).__name__


def soaked(
    sources: dict[str, Any],
    folder: Path,
    at_once: int,
    measured: Callable[[], list[Held]],
    client: Client | None = None,
) -> None:
    """Run all, so many at once; see that each question has one answer, and that nothing grows."""
    expected: dict[int, Any] = {}
    for begin in range(0, RUNS, at_once):
        if begin // at_once == WARM // at_once:
            before, warm = measured(), begin
        if begin // at_once % 25 == 0:
            gc.collect()  # of what waits for it the most is resident, however little is held
        numbers = range(begin, min(RUNS, begin + at_once))
        runs = [submitted(sources, number, folder, client) for number in numbers]
        for number, run in zip(numbers, runs, strict=True):
            found = outcome(run)
            if number % CANCELLED:
                assert_same(found, expected.setdefault(number % len(QUESTIONS), found))
    del run, runs
    after = measured()
    assert len(expected) == len(QUESTIONS)
    for one, other in zip(before, after, strict=True):
        print(f"{RUNS - warm} runs: {one} -> {other}")
        most, of_run = astuple(MOST), astuple(MOST_OF_RUN)
        for had, has, free, each in zip(astuple(one), astuple(other), most, of_run, strict=True):
            assert has - had <= free + each * (RUNS - warm), (one, other)


def test_runs_in_one_process_leave_nothing(sources: dict[str, Any], tmp_path: Path):
    soaked(sources, tmp_path, 1, lambda: held([os.getpid()]))


def test_runs_on_one_cluster_leave_nothing(sources: dict[str, Any], tmp_path: Path):
    """Scheduler and client are of this process."""
    with (
        dask.config.set(SHORT),
        cf.LocalOpenCLCluster(f"{DEVICES[0].spec}/2") as cluster,
        cluster.get_client() as client,
    ):
        pids = [os.getpid(), *client.run(os.getpid).values()]
        client.run(logging.disable, logging.ERROR)  # a chunk is bad on purpose

        def left() -> tuple[int, ...]:
            kept = client.run(lambda dask_worker: len(dask_worker.state.tasks)).values()
            return len(cluster.scheduler.tasks), len(client.futures), *kept

        def measured() -> list[Held]:
            deadline = time.monotonic() + 20
            while any(left()) and time.monotonic() < deadline:
                time.sleep(0.1)
            assert not any(left()), left()
            return held(pids)

        soaked(sources, tmp_path, 4, measured, client)

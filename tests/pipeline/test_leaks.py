"""A client may live for long: runs leave nothing in it, nor in the scheduler and its workers."""

from __future__ import annotations

import gc
import logging
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import dask
import numpy as np
import pytest
import zarr
from distributed import Client

import chunkfold as cf

WARM, RUNS, MOST_BYTES, ROUNDS = 48, 64, 1000, 8
"""Runs before, runs that are measured, what each may leave, how often that is measured at most."""
SHORT = {
    "distributed.admin.low-level-log-length": 10,
    "distributed.diagnostics.computations.max-history": 2,
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "1 hour",
}
"""Logs of Dask's that are bounded, but by thousands of runs."""


@pytest.fixture
def unlogged() -> Iterator[None]:
    """Keep nothing of what is logged, as pytest would."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("unlogged")
def test_runs_of_a_client_leave_nothing(tmp_path: Path):
    """Scheduler and worker are of this process, so that all of them are measured."""
    zarr.create_array(str(tmp_path / "a"), data=np.arange(100), chunks=(50,))
    with (
        dask.config.set(SHORT),
        Client(processes=False, n_workers=1, dashboard_address=None) as client,
    ):
        scheduler = client.cluster.scheduler  # type: ignore[union-attr]
        spans = scheduler.extensions["spans"].spans

        def held(runs: int) -> int:
            for _ in range(runs):
                assert cf.reduce(tmp_path / "a", client=client) == 4950
            time.sleep(0.5)  # what was sent to the scheduler is done
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        held(WARM)
        tracemalloc.start()
        try:
            before, topics = held(WARM), len(scheduler._broker._topics)
            grown = []  # what runs leave they leave each time; what else comes does not
            while len(grown) < ROUNDS and not (grown and grown[-1] < MOST_BYTES):
                after = held(RUNS)
                grown.append((after - before) / RUNS)
                before = after
        finally:
            tracemalloc.stop()
        assert min(grown) < MOST_BYTES, grown
        ended = time.monotonic() + 30
        while len(spans) > 1 and time.monotonic() < ended:  # the scheduler has ended the last run
            time.sleep(0.1)
        # One each: what Dask keeps for good.
        assert len(scheduler._broker._topics) == topics
        assert list(spans) == ["chunkfold"]
        assert len(spans["chunkfold"].groups) <= 16
        assert not [topic for topic in client._event_handlers if topic.startswith("chunkfold")]
        assert not scheduler.task_groups

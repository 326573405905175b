"""Kernels run on the thread that enqueues them where a runtime can, without Python's lock."""

from __future__ import annotations

import sys
import threading
import time

import numpy as np
import pyopencl as cl
import pytest

from chunkfold.kernels import Device, DeviceContext, DeviceError, Fold, as_monoid, bind, choose
from chunkfold.kernels.device.callers_queue import CallersQueue, runs_here
from chunkfold.kernels.geometry import box
from tests.kernels.fold.test_fold import upload

SUM = bind([as_monoid("sum")], [np.dtype("float64")]).accumulator
_ran: set[str] = set()


@pytest.fixture
def fold(device: Device, opened: DeviceContext) -> Fold:
    """Return a fold whose kernels run here, if the device can."""
    return Fold(opened, SUM, choose(device, SUM), queue=opened.queue(here=True))


def test_only_devices_that_can_run_here(device: Device, fold: Fold):
    assert isinstance(fold.launcher.queue, CallersQueue) == runs_here(device)


def test_what_was_enqueued_is_done(device: Device, opened: DeviceContext, fold: Fold):
    """Also what waits for other events."""
    values = np.arange(100_003.0)
    buffer = upload(opened, values)
    first = fold.add([buffer], box((50_000,), (0,)))
    assert first is not None
    last = fold.add([buffer], box((50_003,), (0,), offset=50_000), [first])
    assert last is not None
    if runs_here(device):
        assert last.command_execution_status == cl.command_execution_status.COMPLETE
        _ran.add(str(device))
    (total,) = fold.read_back().arrays.values()
    assert total == values.sum()
    assert fold.profile()["fold_flat", 0].launches == 2


def test_pythons_lock_is_free_meanwhile(device: Device, opened: DeviceContext, fold: Fold):
    if not runs_here(device):
        return  # counted in test_some_device_ran_here
    buffer, whole = upload(opened, np.ones(1 << 24)), box((1 << 24,), (0,))
    fold.add([buffer], whole)  # the first, which builds
    stop, seen = threading.Event(), []

    def watch() -> None:
        while not stop.is_set():
            seen.append(time.perf_counter())

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)  # far less than a fold takes
    watcher = threading.Thread(target=watch)
    watcher.start()
    folds = []
    try:
        for _ in range(20):
            began = time.perf_counter()
            fold.add([buffer], whole)
            folds.append((began, time.perf_counter()))
    finally:
        stop.set()
        watcher.join()
        sys.setswitchinterval(usual)
    fold.read_back()
    # Another thread came to it in the middle of some fold, not only before and behind.
    middles = [(began + (ended - began) / 4, ended - (ended - began) / 4) for began, ended in folds]
    assert any(after < at < before for at in seen for after, before in middles)


def test_a_refused_launch_is_an_error(device: Device, opened: DeviceContext, fold: Fold):
    values = {"acc": fold._acc, "acc_n": 1, "begin": 0, "count": 1}
    too_many = 2 * device.max_work_group_size
    with pytest.raises(DeviceError, match=r"launching fill_zero in pass 0: INVALID_WORK_GROUP"):
        fold.launcher.launch(("passes.cl", "fill_zero"), (1, too_many), **values)


def test_some_device_ran_here():
    assert _ran

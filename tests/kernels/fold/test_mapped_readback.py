"""Results seen where kernels left them: they stay as long as anybody has them, and no longer."""

from __future__ import annotations

import gc

import numpy as np
import pyopencl as cl
import pytest

from chunkfold.kernels import Device, DeviceContext, as_monoid, bind, box
from chunkfold.kernels.catalogue.histograms import histogram
from chunkfold.kernels.fold.readback import lent, shown
from chunkfold.kernels.fold.waiting import wait
from tests.kernels.fold.test_fold import fold_for, upload

NBYTES = 300_000


@pytest.fixture
def opened(device: Device) -> DeviceContext:
    if not device.unified_memory:
        pytest.skip("it has memory of its own")
    return DeviceContext(device)


def left(opened: DeviceContext, value: int, nbytes: int = NBYTES) -> np.ndarray:
    """Leave bytes in a buffer, and see them there."""
    queue, buffer = opened.queue(), lent(opened, nbytes)
    cl.enqueue_fill_buffer(queue, buffer, np.uint8(value), 0, nbytes)
    view, event = shown(opened, queue, buffer, nbytes)
    queue.flush()
    wait(opened.device, event, "showing a buffer")
    return view


def test_what_somebody_has_a_part_of_is_not_written_to(opened: DeviceContext):
    parts = [left(opened, value)[1000 * value : 1000 * value + 8].view("u2") for value in range(5)]
    gc.collect()
    assert not opened.places
    assert [set(part.view("u1")) for part in parts] == [{value} for value in range(5)]


def test_what_nobody_has_is_lent_again(opened: DeviceContext):
    where = {left(opened, value).ctypes.data for value in range(10)}
    assert len(where) == len(opened.places) == 1


def test_a_buffer_far_too_large_or_too_small_is_not_lent(opened: DeviceContext):
    where = left(opened, 1).ctypes.data
    assert left(opened, 2, NBYTES // 8).ctypes.data != where
    assert left(opened, 3, NBYTES * 2).ctypes.data != where
    assert left(opened, 4, NBYTES // 2).ctypes.data == where


def test_few_are_kept(opened: DeviceContext):
    several = [left(opened, value) for value in range(10)]
    del several
    assert 0 < len(opened.places) < 10


def test_launches_that_come_again_leave_partials_alone(device: Device):
    """Prepared ones have the buffer that the tables of a partial stay in."""
    opened, whole, bins = DeviceContext(device), box((64,), (0,)), 12_000
    bound = bind([histogram(np.arange(bins + 1.0))], [np.dtype("f4")])
    fold = fold_for(opened, bound, whole, splits=1)
    found = []
    for value in range(4):
        for _ in range(3):
            fold.add([upload(opened, np.full(64, value, "f4"))], whole)
        found.append(fold.read_back())
    for value, partial in enumerate(found):
        (counts,) = (array[0] for array in partial.arrays.values() if array.ndim == 2)
        assert counts.nonzero()[0].tolist() == [value]
        assert counts[value] == 3 * 64


def test_a_partial_outlives_its_fold_and_its_device(device: Device):
    opened, whole = DeviceContext(device), box((40_000, 2), (1,))
    fold = fold_for(opened, bind([as_monoid("sum")], [np.dtype("i4")]), whole)
    data = np.arange(80_000, dtype="i4").reshape(40_000, 2)
    fold.add([upload(opened, data)], whole)
    array = next(iter(fold.read_back().arrays.values()))
    del fold, opened
    gc.collect()
    np.testing.assert_array_equal(array, data.sum(1))

"""Landings: what is read stays where it is as long as anybody has it, and no longer."""

from __future__ import annotations

import gc

import numpy as np
import pyopencl as cl
import pytest

from chunkfold.kernels import DeviceContext, as_monoid, bind, box
from chunkfold.kernels.fold import readback
from chunkfold.kernels.fold.readback import landed
from chunkfold.kernels.fold.waiting import wait
from tests.kernels.fold.test_fold import fold_for, upload

MANY = 300_000
"""More bytes than the smallest landing has."""


@pytest.fixture
def opened(device) -> DeviceContext:
    return DeviceContext(device)


def read(opened: DeviceContext, queue: cl.CommandQueue, data: np.ndarray) -> np.ndarray:
    memory, event = landed(opened, queue, upload(opened, data), data.nbytes)
    queue.flush()
    wait(opened.device, event, "reading")
    return memory


def test_what_somebody_has_a_part_of_is_not_overwritten(opened: DeviceContext):
    queue, data = opened.queue(), np.arange(MANY, dtype="u1")
    part = read(opened, queue, data)[1000:2000].view("u2")
    others = [read(opened, queue, data + number) for number in range(3)]
    gc.collect()
    assert not opened.landings
    assert np.array_equal(part.view("u1"), data[1000:2000])
    assert all(np.array_equal(other, data + n) for n, other in enumerate(others))


def test_what_nobody_has_is_used_again(opened: DeviceContext):
    queue, data = opened.queue(), np.arange(MANY, dtype="u1")
    where = {read(opened, queue, data + number).ctypes.data for number in range(10)}
    assert len(where) == len(opened.landings) == 1


def test_a_partial_stays_as_it_is_as_long_as_any_part_is_left(opened: DeviceContext):
    """Also of a device that shares the host's memory."""
    rows = 40_000
    whole = box((rows, 2), (1,))
    fold = fold_for(opened, bind([as_monoid("sum")], [np.dtype("i4")]), whole)
    kept, where = [], set()
    for number in range(6):
        data = np.arange(2 * rows, dtype="i4").reshape(rows, 2) + number
        fold.add([upload(opened, data)], whole)
        array = next(iter(fold.read_back().arrays.values()))
        where.add(array.ctypes.data)
        kept.append((array[number::7], data.sum(1)[number::7]))
        if number == 2:
            kept.clear()  # whose memory is used again
        del array
    assert all(np.array_equal(got, want) for got, want in kept)
    assert len(where) == 3


def test_small_reads_leave_large_landings_alone(opened: DeviceContext):
    queue, data = opened.queue(), np.arange(MANY, dtype="u1")
    large = read(opened, queue, data).ctypes.data
    small = read(opened, queue, data[:100])
    assert small.ctypes.data != large
    assert np.array_equal(small, data[:100])
    assert read(opened, queue, data).ctypes.data == large


@pytest.mark.parametrize(("nbytes", "kept"), [(MANY, 1), (6 * MANY, 6), (20 * MANY, 10)])
def test_as_many_are_kept_as_have_few_bytes(opened: DeviceContext, monkeypatch, nbytes, kept: int):
    monkeypatch.setattr(readback, "_KEPT_BYTES", nbytes)
    queue, data = opened.queue(), np.arange(MANY, dtype="u1")
    several = [read(opened, queue, data) for _ in range(10)]
    where = {one.ctypes.data for one in several}
    del several
    assert len(opened.landings) == kept
    again = [read(opened, queue, data) for _ in range(kept)]
    assert {one.ctypes.data for one in again} <= where


def test_a_landing_is_not_used_before_its_read_has_ended(opened: DeviceContext):
    queue, data = opened.queue(), np.arange(MANY, dtype="u1")
    gate = cl.UserEvent(opened.context)
    source, other = upload(opened, data), upload(opened, data)
    cl.enqueue_copy(queue, other, source, wait_for=[gate])
    first, event = landed(opened, queue, source, data.nbytes)
    queue.flush()
    abandoned = first.ctypes.data
    del first
    assert len(opened.landings) == 1
    second, _ = landed(opened, opened.queue(), upload(opened, data), data.nbytes)
    try:
        assert second.ctypes.data != abandoned
    finally:
        gate.set_status(cl.command_execution_status.COMPLETE)
        wait(opened.device, event, "reading")

"""Staging buffers: nothing is rewritten while a fold reads it."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pyopencl as cl
import pytest

from chunkfold.kernels import DeviceContext, DeviceError, Fold, as_monoid, bind, box, choose
from chunkfold.kernels.fold import launch
from chunkfold.kernels.fold.staging import StagingBuffer

BOUND = bind([as_monoid("sum")], [np.dtype("int32")])
SUM = BOUND.accumulator


@pytest.fixture(params=["shared memory", "shared memory without pointers", "behind a link"])
def staged(request, opened: DeviceContext):
    """A buffer as the device has it, and as others would: without pointers, or far away."""
    other = DeviceContext(opened.device)
    other.device = replace(opened.device, unified_memory=request.param != "behind a link")
    if request.param != "shared memory":
        other.takes_pointers = False
    return other, StagingBuffer(other, other.queue(), 4000)


def test_what_is_committed_is_what_is_folded(staged):
    opened, buffer = staged
    fold = Fold(opened, SUM, choose(opened.device, SUM, kernels=("flat",)))
    total = 0
    for n in range(20):
        memory = buffer.begin().view("i4")
        memory[:] = np.arange(1000) + n
        total += int(memory.sum())
        ready = buffer.commit(4000)
        buffer.busy_until(fold.add([ready.buffer], box((1000,), (0,)), ready.events))
    assert BOUND.statistics[0].finish(fold.read_back())[0] == total
    buffer.drain()


def test_a_buffer_is_not_given_out_before_its_fold_is_done(staged):
    """The fold is held back by a user event."""
    opened, buffer = staged
    fold = Fold(opened, SUM, choose(opened.device, SUM, kernels=("flat",)))
    buffer.begin().view("i4")[:] = 1
    gate = cl.UserEvent(opened.context)
    ready = buffer.commit(4000)
    buffer.busy_until(fold.add([ready.buffer], box((1000,), (0,)), [*ready.events, gate]))
    given = threading.Event()
    thread = threading.Thread(target=lambda: (buffer.begin(), given.set()))
    thread.start()
    assert not given.wait(0.3)
    gate.set_status(cl.command_execution_status.COMPLETE)
    assert given.wait(10)
    thread.join()
    assert BOUND.statistics[0].finish(fold.read_back())[0] == 1000


def test_waiting_has_a_deadline(opened: DeviceContext):
    gate = cl.UserEvent(opened.context)
    with pytest.raises(DeviceError, match=r"has not finished dreaming in 0 s"):
        launch.wait(opened.device, gate, "dreaming", deadline_s=0.05)
    gate.set_status(cl.command_execution_status.COMPLETE)

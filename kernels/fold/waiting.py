"""Wait for commands of a device, with a deadline."""

from __future__ import annotations

import contextlib
import os
import threading
import time

import pyopencl as cl

from chunkfold.kernels.device.device import Device
from chunkfold.kernels.errors import DeviceError
from chunkfold.kernels.program.device_context import failure

DEADLINE_S = 600.0
"""Longest wait for one command of a device, in seconds."""
_COMPLETE = cl.command_execution_status.COMPLETE
_SPIN_S = 5e-3
"""How long a GPU is polled without pause, in seconds."""


def wait(device: Device, event: cl.Event, doing: str, deadline_s: float = DEADLINE_S) -> None:
    """Wait until a command has finished. The queue must have been flushed.

    OpenCL's own wait has no deadline. On a CPU device a thread of its own waits in it, and is left
    there when the time is up: with Intel's runtime a thread that waits is one of the two that fold
    on two cores. A GPU is polled, without sleep at first: the shortest sleep is longer than a
    read-back.

    Raises
    ------
    DeviceError
        If the command failed, or `deadline_s` passed.
    """
    began = time.monotonic()
    if device.kind == "cpu" and event.command_execution_status > _COMPLETE:
        waiter = threading.Thread(target=_await, args=(event,), daemon=True)
        waiter.start()
        waiter.join(deadline_s)
    while (status := event.command_execution_status) > _COMPLETE:
        waited = time.monotonic() - began
        if waited > deadline_s:
            raise DeviceError(f"{device} has not finished {doing} in {deadline_s:.0f} s")
        if waited < _SPIN_S:
            os.sched_yield()
        else:
            time.sleep(min(waited / 64, 1e-3))
    if status < 0:
        raise failure(device, doing, status)


def wait_watched(device: Device, event: cl.Event, doing: str) -> None:
    """Wait in OpenCL itself, without a deadline: for threads that others watch over.

    Raises
    ------
    DeviceError
        If the command failed.
    """
    status = event.command_execution_status
    if status > _COMPLETE:
        _await(event)
    if status != _COMPLETE:
        wait(device, event, doing)  # which sees how it ended


def _await(event: cl.Event) -> None:
    with contextlib.suppress(cl.Error):  # its status tells
        event.wait()

"""Launch kernels on a queue, keep their events, wait with a deadline."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from chunkfold.kernels.device import Device
from chunkfold.kernels.errors import DeviceError
from chunkfold.kernels.opened import device_errors, status_text
from chunkfold.kernels.profile import (
    LaunchTimes,
    PassName,
    PassTimes,
    Profile,
    measured,
    merged,
)

DEADLINE_S = 600.0
"""Longest wait for one command of a device, in seconds."""
_SPIN_S = 5e-3
"""How long a GPU is polled without pause, in seconds."""
_KEPT = 256
"""Events kept before finished ones are read off and dropped."""


class Launcher:
    """Launches kernels on one queue and accounts for every launch."""

    def __init__(self, device: Device, queue: cl.CommandQueue) -> None:
        self.device = device
        self.queue = queue
        self._pending: list[tuple[PassName, cl.Event]] = []
        self._profile: dict[PassName, PassTimes] = {}

    def launch(
        self,
        kernel: cl.Kernel,
        pass_number: int,
        groups: int,
        local_size: int,
        *args: Any,
        wait_for: Sequence[cl.Event] = (),
    ) -> cl.Event:
        """Enqueue a kernel over `groups` work-groups of `local_size`; return its event.

        Raises
        ------
        DeviceError
            If the device refuses the launch; names device, kernel, pass and code.
        """
        name = kernel.function_name
        with device_errors(self.device, f"launching {name} in pass {pass_number}"):
            event = kernel(
                self.queue, (groups * local_size,), (local_size,), *args, wait_for=list(wait_for)
            )
        self._pending.append(((name, pass_number), event))
        if len(self._pending) > _KEPT:
            self._read_off()
        return event

    def wait(self, event: cl.Event, doing: str) -> None:
        """Wait for one command of this queue, whose launches were all before it.

        Raises
        ------
        DeviceError
            If a launch failed, or the deadline passed.
        """
        self.queue.flush()
        try:
            wait(self.device, event, doing)
        except DeviceError:
            self._read_off()  # a failed launch before it says more
            raise

    def profile(self) -> Profile:
        """Return the times of all launches that have finished.

        Raises
        ------
        DeviceError
            If one failed.
        """
        self._read_off()
        return dict(self._profile)

    def _read_off(self) -> None:
        kept = []
        for name, event in self._pending:
            status = event.command_execution_status
            if status < 0:
                raise DeviceError(
                    f"{self.device} failed in {name[0]} of pass {name[1]}: {status_text(status)}"
                )
            if status != cl.command_execution_status.COMPLETE:
                kept.append((name, event))
                continue
            self._account(name, event)
        self._pending = kept

    def _account(self, name: PassName, event: cl.Event) -> None:
        with device_errors(self.device, f"reading the times of {name[0]}"):
            times = event.profile
            launch = LaunchTimes(times.queued, times.submit, times.start, times.end)
        first = name not in self._profile
        self._profile = merged([self._profile, {name: measured(launch, first)}])


def wait(device: Device, event: cl.Event, doing: str, deadline_s: float = DEADLINE_S) -> None:
    """Wait until a command has finished. The queue must have been flushed.

    OpenCL's own wait has no deadline, so the status is polled, at intervals of a sixteenth of the
    time waited: the answer is late by that share at most. A GPU is polled without sleep at first:
    the shortest one took 50 us where a read-back takes 20. A CPU device needs the core.

    Raises
    ------
    DeviceError
        If the command failed, or `deadline_s` passed.
    """
    began = time.monotonic()
    pause_from = 0.0 if device.kind == "cpu" else _SPIN_S
    while (status := event.command_execution_status) > cl.command_execution_status.COMPLETE:
        waited = time.monotonic() - began
        if waited > deadline_s:
            raise DeviceError(f"{device} has not finished {doing} in {deadline_s:.0f} s")
        if waited < pause_from:
            os.sched_yield()
        else:
            time.sleep(min(max(waited / 16, 10e-6), 1e-3))
    if status < 0:
        raise DeviceError(f"{device} failed while {doing}: {status_text(status)}")

"""One device per worker: a plugin opens it, block tasks verify it."""

from __future__ import annotations

import signal
import threading
from dataclasses import dataclass, field
from typing import Any

import pyopencl as cl
from distributed import WorkerPlugin

from chunkfold.errors import DeviceError, WorkerLostError
from chunkfold.kernels import (
    Accumulator,
    Device,
    OpenedDevice,
    Tuning,
    choose,
    default_devices,
    devices,
)
from chunkfold.kernels.staging import StagingBuffer

PLUGIN = "chunkfold-device"
RESOURCE = "chunkfold-device"
"""Every device worker declares one, so that on mixed clusters blocks go to device workers only."""


@dataclass
class WorkerDevice:
    """A device that a process has opened, and the tunings that were seen to work on it."""

    opened: OpenedDevice
    _tunings: dict[object, Tuning] = field(default_factory=dict)
    _buffers: list[StagingBuffer] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def device(self) -> Device:
        """What it is."""
        return self.opened.device

    def borrow(self, nbytes: int) -> StagingBuffer:
        """Return a staging buffer of that size, used before if there is one: its pages are warm.

        Idle buffers of another size are dropped, so that no more is held than a block may use.
        """
        with self._lock:
            self._buffers = [buffer for buffer in self._buffers if buffer.nbytes == nbytes]
            if self._buffers:
                return self._buffers.pop()
        return StagingBuffer(self.opened, self.opened.queue(), nbytes)

    def give_back(self, buffer: StagingBuffer) -> None:
        """Take a buffer back whose last fold is done."""
        with self._lock:
            self._buffers.append(buffer)

    def tuning(self, accumulator: Accumulator, variant: str | None) -> Tuning:
        """Return the tuning for a reduction; the first call may try kernels in a child process."""
        key = (accumulator, variant)
        with self._lock:
            if key not in self._tunings:
                self._tunings[key] = choose(self.device, accumulator, variant)
            return self._tunings[key]


class DevicePlugin(WorkerPlugin):
    """Opens a worker's device when the worker starts, and keeps it until it ends."""

    name = PLUGIN

    def __init__(self, device: Device) -> None:
        self.device = device
        self.owned: WorkerDevice | None = None
        self.failure = ""

    def setup(self, worker: Any) -> None:
        """Open the device. A failure is kept: the worker would go on taking tasks anyway."""
        if worker.nanny and threading.current_thread() is threading.main_thread():
            # A terminal sends Ctrl-C to the workers too, but it is for the client to decide.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self.owned = WorkerDevice(OpenedDevice(self.device))
        except DeviceError as error:
            self.failure = str(error)

    def __reduce__(self) -> tuple[type[DevicePlugin], tuple[Device]]:
        return (DevicePlugin, (self.device,))


_of_process: dict[str, WorkerDevice] = {}
_process_lock = threading.Lock()


def process_device(spec: str | None = None) -> WorkerDevice:
    """Return a device opened in this process: the first that `spec` names, or the default."""
    with _process_lock:
        device = (default_devices()[0] if spec is None else devices(spec))[0]
        if device.uuid not in _of_process:
            _of_process[device.uuid] = WorkerDevice(OpenedDevice(device))
        return _of_process[device.uuid]


def device_of(worker: Any) -> WorkerDevice:
    """Return the device that a worker owns, after seeing that it is there.

    A plain Dask worker, started without a device, uses its process's default one.

    Raises
    ------
    WorkerLostError
        If the worker should own a device and cannot use it.
    """
    plugin = worker.plugins.get(PLUGIN)
    try:
        owned = process_device() if plugin is None else plugin.owned
        if owned is None:
            raise DeviceError(plugin.failure)
        if not owned.opened.handle.available:
            raise DeviceError(f"{owned.device} says that it is not available")
    except (DeviceError, cl.Error) as error:
        message = f"worker {worker.address} has no device: {error}"
        raise WorkerLostError(message, worker.address) from error
    return owned


def describe_worker(dask_worker: Any) -> Device | str:
    """Return a worker's device, or why it has none. Runs on the worker."""
    try:
        return device_of(dask_worker).device
    except WorkerLostError as error:
        return str(error)

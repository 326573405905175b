"""The device of a worker: a plugin opens it, tasks check and use it."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyopencl as cl
from distributed import WorkerPlugin

from chunkfold.errors import CancelledError, DeviceError, WorkerLostError
from chunkfold.kernels import (
    Accumulator,
    Device,
    DeviceContext,
    Tuning,
    choose,
    default_devices,
    devices,
)
from chunkfold.kernels.decode.decode_rates import DecodeRates
from chunkfold.kernels.geometry import FOLDS
from chunkfold.kernels.tuning.decode_request import decode_rates
from chunkfold.near_cores import keep_to
from chunkfold.planning.work import Scan
from chunkfold.planning.workers import by_cores, readers_each
from chunkfold.reading.readers import Readers
from chunkfold.worker.lent_memory import LentMemory

_Read = TypeVar("_Read")
PLUGIN = "chunkfold-device"
_ASK_EVERY_S = 0.25
"""Interval at which a block that waits for its turn checks whether its run goes on, s."""
_RUNS_KNOWN = 64
"""Latest runs whose laws were tried that are remembered."""
RESOURCE = "chunkfold-device"
"""Each device worker declares it, so that on mixed clusters blocks go to device workers only."""


@dataclass
class WorkerDevice:
    """A device that a process has opened, its memory, its readers, and its tried tunings."""

    opened: DeviceContext
    readers: int
    """Number of threads that read and decode for all its blocks."""
    process: int = field(default_factory=os.getpid)
    """The process that opened it."""
    _tunings: dict[object, dict[frozenset[str], Tuning]] = field(default_factory=dict)
    """Tunings by reduction, and by the kernels that were tried."""
    memory: LentMemory = field(init=False)
    """Buffers and folds that blocks borrow."""
    trying: threading.Lock = field(default_factory=threading.Lock)
    """Locked while the laws of a run's monoids are tried."""
    tried: deque[tuple[str, int]] = field(default_factory=lambda: deque(maxlen=_RUNS_KNOWN))
    """Latest runs whose laws were tried, and the numbers of their questions."""
    _priorities: Iterator[int] = field(default_factory=itertools.count)
    _pools: dict[int, Readers] = field(default_factory=dict)
    """Pools by their number of threads."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _admitted: Counter[str] = field(default_factory=Counter)
    """Number of blocks that run here, by their run."""
    _ended: threading.Condition = field(default_factory=threading.Condition)
    """Notified when a block has ended."""
    _choosing: threading.Lock = field(default_factory=threading.Lock)
    """A lock of its own: reads of other blocks go on while kernels are tried."""

    def __post_init__(self) -> None:
        self.memory = LentMemory(self.opened, self.readers)

    @property
    def device(self) -> Device:
        """The device."""
        return self.opened.device

    @contextmanager
    def admitted(self, run: str, most: int, cancelled: Callable[[], bool]) -> Iterator[None]:
        """Wait until fewer than `most` blocks of a run go on here, and be one of them.

        Raises
        ------
        CancelledError
            If the run is cancelled before.
        """
        with self._ended:
            while not self._ended.wait_for(lambda: self._admitted[run] < most, _ASK_EVERY_S):
                if cancelled():
                    raise CancelledError(f"run {run} was cancelled")
            self._admitted[run] += 1
        try:
            yield
        finally:
            with self._ended:
                self._admitted -= Counter([run])  # drops counts of 0
                self._ended.notify_all()

    def shared(self, run: str) -> bool:
        """Return whether blocks of other runs go on here, too."""
        with self._ended:
            return any(other != run for other in self._admitted)

    def priority(self) -> int:
        """Return the priority of a block that begins: larger than those of earlier ones."""
        return next(self._priorities)

    def read(
        self, readers: int, priority: int, task: Callable[..., _Read], *given: Any
    ) -> Future[_Read]:
        """Submit a task of the block of a priority to one of `readers` reading threads."""
        with self._lock:
            if readers not in self._pools:
                self._pools[readers] = Readers(readers)
            return self._pools[readers].submit(priority, task, *given)

    def leave_readers(self) -> None:
        """Replace the reading threads, one of which hangs; move waiting tasks to new ones."""
        with self._lock:
            self._pools = {n: Readers(n, pool.leave()) for n, pool in self._pools.items()}

    def readers_for(self, scan: Scan) -> int:
        """Return the number of threads that read for a run; more than cores for remote arrays."""
        remote = any(source.remote for source in scan.sources)
        return scan.readers if remote else min(scan.readers, self.readers)

    def tuning(
        self, accumulator: Accumulator, variant: str | None, kernels: Collection[str] = ()
    ) -> Tuning:
        """Return a tuning whose kernels passed their trial; parameters as `kernels.choose`.

        `kernels` names those of `kernels.geometry.FOLDS` that will be launched; none for combines.
        The first call may try them in a child process.
        """
        with self._choosing:
            tried = self._tunings.setdefault((accumulator, variant), {})
            for others, tuning in tried.items():
                if others.issuperset(kernels):
                    return tuning
            # Combines launch none of them: any tuning will do, but a trial needs one.
            wanted = frozenset(kernels or FOLDS[:1])
            return tried.setdefault(wanted, choose(self.device, accumulator, variant, wanted))


class DevicePlugin(WorkerPlugin):
    """Opens a worker's device when the worker starts, and keeps it until it ends.

    A process of its own keeps to `cores` before it has any memory of the device; empty: to none.
    """

    name = PLUGIN

    def __init__(self, device: Device, readers: int, cores: frozenset[int]) -> None:
        self.device, self.readers, self.cores = device, readers, cores
        self.worker_device: WorkerDevice | None = None
        self.failure = ""

    def setup(self, worker: Any) -> None:
        """Open the device. A failure is kept, for tasks to raise: the worker goes on anyway."""
        if worker.nanny and threading.current_thread() is threading.main_thread():
            # A terminal sends Ctrl-C to workers, too, but the client decides.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            # A garbage collection over all imported modules would stop a block.
            gc.freeze()
            keep_to(self.cores)
        try:
            self.worker_device = WorkerDevice(DeviceContext(self.device), self.readers)
        except DeviceError as error:
            self.failure = str(error)

    def __reduce__(self) -> tuple[type[DevicePlugin], tuple[Device, int, frozenset[int]]]:
        return (DevicePlugin, (self.device, self.readers, self.cores))


_of_process: dict[str, WorkerDevice] = {}
_process_lock = threading.Lock()


def process_device(spec: str | None = None) -> WorkerDevice:
    """Return a device opened in this process: the first that `spec` names, or the default.

    Raises
    ------
    DeviceError
        If there is no such device, or this process was forked from one that had opened a device.
    """
    if any(worker_device.process != os.getpid() for worker_device in _of_process.values()):
        raise DeviceError(
            f"process {os.getpid()} was forked from one that had opened its devices, whose "
            "threads it lacks: start new processes, as multiprocessing.set_start_method('spawn') "
            "does"
        )
    with _process_lock:
        device = (default_devices()[0] if spec is None else devices(spec))[0]
        if device.identity not in _of_process:
            _of_process[device.identity] = WorkerDevice(DeviceContext(device), readers_each(1))
        return _of_process[device.identity]


def device_of(worker: Any) -> WorkerDevice:
    """Return the device that a worker owns, after a check that it is available.

    A plain Dask worker, started without a device, uses its process's default one.

    Raises
    ------
    WorkerLostError
        If the worker cannot use its device.
    """
    plugin = worker.plugins.get(PLUGIN)
    try:
        worker_device = process_device() if plugin is None else plugin.worker_device
        if worker_device is None:
            raise DeviceError(plugin.failure)
        if not worker_device.opened.handle.available:
            raise DeviceError(f"{worker_device.device} says that it is not available")
    except (DeviceError, cl.Error) as error:
        message = f"worker {worker.address} has no device: {error}"
        raise WorkerLostError(message, worker.address) from error
    return worker_device


def describe_worker(dask_worker: Any) -> tuple[Device, int] | str:
    """Return a worker's device and its readers, or the reason for none. Runs on the worker."""
    try:
        worker_device = device_of(dask_worker)
    except WorkerLostError as error:
        return str(error)
    return worker_device.device, worker_device.readers


async def decode_rates_here(
    codecs: Collection[str], workers: int, dask_worker: Any
) -> tuple[DecodeRates, ...]:
    """Return the rates of a worker's device, which so many share. Runs on the worker.

    Measuring takes seconds: the worker answers others meanwhile.
    """
    worker_device = device_of(dask_worker)
    rates = await asyncio.to_thread(decode_rates, worker_device.device, codecs)
    return by_cores(rates, workers * worker_device.readers)

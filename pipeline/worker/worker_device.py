"""The device of a worker: a plugin opens it, block tasks verify it."""

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
from chunkfold.kernels.decode.device_decoder import DeviceDecoders
from chunkfold.kernels.feed.fed_buffer import FedBuffer
from chunkfold.kernels.feed.feeder import Feeder
from chunkfold.kernels.fold.staging import StagingBuffer
from chunkfold.kernels.geometry import FOLDS
from chunkfold.kernels.tuning.decode_request import decode_rates
from chunkfold.planning.staffing import readers_each
from chunkfold.planning.work import Work
from chunkfold.planning.workers import by_cores
from chunkfold.reading.readers import Readers

_Read = TypeVar("_Read")
PLUGIN = "chunkfold-device"
_ASK_EVERY_S = 0.25
_RUNS_KNOWN = 64
"""How often a block that waits for its turn asks whether its run goes on, in seconds."""
RESOURCE = "chunkfold-device"
"""Every device worker declares one, so that on mixed clusters blocks go to device workers only."""


@dataclass
class WorkerDevice:
    """A device that a process has opened, and the tunings that were seen to work on it."""

    opened: DeviceContext
    readers: int
    """Threads that read and decode for all its blocks."""
    process: int = field(default_factory=os.getpid)
    """By which it was opened."""
    _tunings: dict[object, dict[frozenset[str], Tuning]] = field(default_factory=dict)
    """By reduction, and by the kernels that were tried."""
    _buffers: list[StagingBuffer | FedBuffer] = field(default_factory=list)
    _feeder: Feeder | None = None
    """What feeds the device from files, once it was needed."""
    _decoders: DeviceDecoders = field(init=False)
    trying: threading.Lock = field(default_factory=threading.Lock)
    """Held while the laws of a run's monoids are tried."""
    tried: deque[str] = field(default_factory=lambda: deque(maxlen=_RUNS_KNOWN))
    """Latest runs of which that is done."""
    _priorities: Iterator[int] = field(default_factory=itertools.count)
    _pools: dict[int, Readers] = field(default_factory=dict)
    """By their threads."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _under_way: Counter[str] = field(default_factory=Counter)
    """Blocks, by their run."""
    _ended: threading.Condition = field(default_factory=threading.Condition)
    """A block has."""
    _choosing: threading.Lock = field(default_factory=threading.Lock)
    """Its own: another block's reads do not wait while kernels are tried."""

    def __post_init__(self) -> None:
        self._decoders = DeviceDecoders(self.opened)

    @property
    def device(self) -> Device:
        """What it is."""
        return self.opened.device

    @contextmanager
    def admitted(self, run: str, most: int, cancelled: Callable[[], bool]) -> Iterator[None]:
        """Be one of the blocks of a run that are under way here: so many at most.

        Raises
        ------
        CancelledError
            If the run is cancelled before there is room.
        """
        with self._ended:
            while not self._ended.wait_for(lambda: self._under_way[run] < most, _ASK_EVERY_S):
                if cancelled():
                    raise CancelledError(f"run {run} was cancelled")
            self._under_way[run] += 1
        try:
            yield
        finally:
            with self._ended:
                self._under_way -= Counter([run])  # which drops what is 0
                self._ended.notify_all()

    def shared(self, run: str) -> bool:
        """Whether blocks of other runs are under way too."""
        with self._ended:
            return any(other != run for other in self._under_way)

    def priority(self) -> int:
        """Return a number for a block that begins, larger than those of earlier ones."""
        return next(self._priorities)

    def read(
        self, readers: int, priority: int, task: Callable[..., _Read], *given: Any
    ) -> Future[_Read]:
        """Let one of so many reading threads do something for the block of a priority."""
        with self._lock:
            if readers not in self._pools:
                self._pools[readers] = Readers(readers)
            return self._pools[readers].submit(priority, task, *given)

    def leave_readers(self) -> None:
        """Let new threads read from now on, also what waits: of these, one never came back."""
        with self._lock:
            self._pools = {n: Readers(n, pool.leave()) for n, pool in self._pools.items()}

    def feeder(self) -> Feeder:
        """Return what feeds the device from files: some cores are left to who waits and decodes."""
        with self._lock:
            if self._feeder is None:
                self._feeder = Feeder(self.opened, max(1, 3 * self.readers // 4))
            return self._feeder

    def borrow(self, nbytes: int) -> StagingBuffer | FedBuffer:
        """Return a buffer of that size, used before if there is one: its pages are warm.

        Idle buffers of another size are dropped, so that no more is held than a block may use.
        """
        with self._lock:
            self._buffers = [buffer for buffer in self._buffers if buffer.nbytes == nbytes]
            if self._buffers:
                return self._buffers.pop()
        if self.device.unified_memory:
            return StagingBuffer(self.opened, self.opened.queue(), nbytes)
        return FedBuffer(self.opened, nbytes, self.feeder, self._decoders)

    def give_back(self, buffer: StagingBuffer | FedBuffer) -> None:
        """Take a buffer back whose last fold is done."""
        with self._lock:
            self._buffers.append(buffer)

    def readers_for(self, work: Work) -> int:
        """Return how many threads read for a run: more than there are cores, if they wait."""
        remote = any(source.remote for source in work.sources)
        return work.readers if remote else min(work.readers, self.readers)

    def tuning(
        self, accumulator: Accumulator, variant: str | None, kernels: Collection[str] = ()
    ) -> Tuning:
        """Return a tuning of which these kernels were seen to work; parameters as `kernels.choose`.

        `kernels` names those of `kernels.geometry.FOLDS` that will be launched; none to combine.
        The first call may try them in a child process.
        """
        with self._choosing:
            tried = self._tunings.setdefault((accumulator, variant), {})
            for others, tuning in tried.items():
                if others.issuperset(kernels):
                    return tuning
            # Combines launch none of them: any tuning will do, but one must be tried.
            wanted = frozenset(kernels or FOLDS[:1])
            return tried.setdefault(wanted, choose(self.device, accumulator, variant, wanted))


class DevicePlugin(WorkerPlugin):
    """Opens a worker's device when the worker starts, and keeps it until it ends."""

    name = PLUGIN

    def __init__(self, device: Device, readers: int) -> None:
        self.device, self.readers = device, readers
        self.owned: WorkerDevice | None = None
        self.failure = ""

    def setup(self, worker: Any) -> None:
        """Open the device. A failure is kept: the worker would go on taking tasks anyway."""
        if worker.nanny and threading.current_thread() is threading.main_thread():
            # A terminal sends Ctrl-C to the workers too, but it is for the client to decide.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            # To look for garbage among all that was imported would stop a block for 0.1 s.
            gc.freeze()
        try:
            self.owned = WorkerDevice(DeviceContext(self.device), self.readers)
        except DeviceError as error:
            self.failure = str(error)

    def __reduce__(self) -> tuple[type[DevicePlugin], tuple[Device, int]]:
        return (DevicePlugin, (self.device, self.readers))


_of_process: dict[str, WorkerDevice] = {}
_process_lock = threading.Lock()


def process_device(spec: str | None = None) -> WorkerDevice:
    """Return a device opened in this process: the first that `spec` names, or the default.

    Raises
    ------
    DeviceError
        If there is none, or a process that has opened one was forked to make this one.
    """
    if any(owned.process != os.getpid() for owned in _of_process.values()):
        raise DeviceError(
            f"process {os.getpid()} was forked from one that had opened its devices, whose threads "
            "are not here: start processes anew, as multiprocessing.set_start_method('spawn') does"
        )
    with _process_lock:
        device = (default_devices()[0] if spec is None else devices(spec))[0]
        if device.identity not in _of_process:
            _of_process[device.identity] = WorkerDevice(DeviceContext(device), readers_each(1))
        return _of_process[device.identity]


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


def describe_worker(dask_worker: Any) -> tuple[Device, int] | str:
    """Return a worker's device and its readers, or why it has none. Runs on the worker."""
    try:
        owned = device_of(dask_worker)
    except WorkerLostError as error:
        return str(error)
    return owned.device, owned.readers


async def decode_rates_here(
    codecs: Collection[str], workers: int, dask_worker: Any
) -> tuple[DecodeRates, ...]:
    """Return the rates of a worker's device, which so many share. Runs on the worker.

    Measuring takes seconds: the worker answers others meanwhile.
    """
    owned = device_of(dask_worker)
    rates = await asyncio.to_thread(decode_rates, owned.device, codecs)
    return by_cores(rates, workers * owned.readers)

"""A local Dask cluster: worker processes for each OpenCL device of this host."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import multiprocessing
import signal
from collections.abc import Sequence
from multiprocessing import resource_tracker
from typing import Any

import dask.config
from distributed import LocalCluster
from distributed.core import Status
from distributed.deploy.cluster import Cluster

from chunkfold.cluster.security import ENCRYPTED, security_of_local
from chunkfold.cluster.starting import (
    DeviceNanny,
    check_host,
    check_started,
    end_all,
    end_those_that_start,
    words_of,
)
from chunkfold.deadline import ended
from chunkfold.errors import ClusterError, DeviceError
from chunkfold.kernels import Device, devices
from chunkfold.planning.workers import THREADS, Post, posts
from chunkfold.plural import counted
from chunkfold.settings import dashboard_address, wait_seconds
from chunkfold.worker.worker_device import RESOURCE, DevicePlugin

_LOOPBACK = "127.0.0.1:0"
START = "the workers to start"
_CALM = {
    "admin": {"tick": {"interval": "1s"}},
    "worker": {"profile": {"interval": "1s"}, "memory": {"monitor-interval": "1s"}},
}
_PAUSES_S = (0.0, 1.0, 3.0, 10.0, 30.0)
"""Before a nanny that ended is started again, each time it does."""


def chosen_devices(given: str | Sequence[Device | str] | None) -> list[Device]:
    """Return the devices that a spec, several specs or nothing (the default) name, each once.

    Raises
    ------
    DeviceError
        If a spec matches nothing.
    """
    if given is None or isinstance(given, str):
        return devices(given)
    found = [
        device
        for entry in given
        for device in ([entry] if isinstance(entry, Device) else devices(entry))
    ]
    if not found:
        raise DeviceError("no devices were named; pass None for the default ones")
    return list({device.identity: device for device in found}.values())


def calm_dask() -> None:
    """Reduce the load of Dask's own monitoring: it took 4% of two cores that decode.

    Dask counts ticks of three event loops 50 times a second, samples the stacks of tasks 100 times,
    and weighs processes 10 times; afterwards once a second. Settings of the user stay.
    """
    dask.config.update_defaults({"distributed": _CALM})


def worker_options(post: Post, threads: int) -> dict[str, Any]:
    """Return what a nanny needs to start and restart a worker."""
    return {
        "name": post.name,
        "nthreads": threads,
        "memory_limit": post.memory,
        "resources": {RESOURCE: threads},
        "plugins": {DevicePlugin(post.device, post.readers, post.cores)},
    }


def _refuse_to_spawn_from_a_spawned_process() -> None:
    """End a worker process that runs the caller's script again, where it has no main guard."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(
            "LocalOpenCLCluster starts processes, which import the script that starts it: "
            "put its code under if __name__ == '__main__':"
        )


class LocalOpenCLCluster(LocalCluster):
    """A distributed cluster on this host: worker processes for each OpenCL device.

    Workers that die are started again, for as long as it is open. On a host with several NUMA nodes
    each keeps to the cores near its GPU, unless Dask's configuration says otherwise
    (`chunkfold.workers.near-cores: false`); this process is left as it is.

    Parameters
    ----------
    devices
        Devices or specs (see `chunkfold.devices`); None for the default ones. Parts of a CPU
        ("cpu/2") have one worker each.
    threads_per_worker
        Blocks that a worker runs at once.
    memory_limit
        Bytes per worker; None shares this host's memory out.
    workers_per_device
        Worker processes that share a GPU, or have a part of a CPU each, and decode for it. None:
        one for every 8 of the cores that decode for it, of a GPU 4 at most, as Python's lock makes
        more of them wait. A GPU in a mode that lets one process in only needs 1.
    **kwargs
        For `distributed.LocalCluster`. The dashboard listens on this host's own address, unless
        `dashboard_address` or Dask's configuration, `chunkfold.dashboard.address`, has another.
        Where that requires encryption (`distributed.comm.require-encryption`), and names no
        certificates, there are temporary ones, in memory.

    Raises
    ------
    DeviceError
        If a spec matches no device, or there are to be no workers.
    PlanError
        If it is to be encrypted, and certificates are missing or of no use.
    ClusterError
        If a worker does not start.
    """

    def __init__(
        self,
        devices: str | Sequence[Device | str] | None = None,
        *,
        threads_per_worker: int = THREADS,
        memory_limit: int | None = None,
        workers_per_device: int | None = None,
        **kwargs: Any,
    ) -> None:
        _refuse_to_spawn_from_a_spawned_process()
        calm_dask()
        self.devices = tuple(chosen_devices(devices))
        self._posts = posts(self.devices, workers_per_device, memory_limit)
        self._threads = threads_per_worker
        self._attending: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Future[None] | None = None
        kwargs = _pages(kwargs)
        kwargs["security"] = security_of_local(kwargs.get("security"), encrypted=_encrypted(kwargs))
        if kwargs.get("processes") is not False:
            check_host(len(self._posts))
            kwargs.setdefault("worker_class", DeviceNanny)
        try:
            self._start_scheduler({"threads_per_worker": threads_per_worker, **kwargs})
            if not self.asynchronous:
                self.scale(len(self._posts))
                self.sync(self._start_workers)
        except BaseException:
            # Left to Dask it is closed when the interpreter is, which takes it ten seconds.
            with contextlib.suppress(Exception):  # what ended the start is what is told
                self.close(3 * wait_seconds("chunkfold.close"))
            raise

    def _start_scheduler(self, given: dict[str, Any]) -> None:
        try:
            super().__init__(n_workers=0, **given)  # type: ignore[no-untyped-call] # Dask has none
        except RuntimeError as error:
            raise ClusterError(f"no cluster could be started: {words_of(error)}") from error

    async def _start_workers(self) -> None:
        # They inherit this, so that a terminal's Ctrl-C is for this process alone, also while they
        # start; which gets it in another thread. The tracker would undo it as it starts.
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        # An interrupt cancels this, but not what it waits for: closing ends that.
        correcting = asyncio.shield(self._correct_state())
        await ended([correcting], wait_seconds("chunkfold.workers.start"), START)
        # What fails in it is told of each worker, but of those that could not be made.
        broken = correcting.exception() if correcting.done() else None
        await check_started(self._created, len(self._posts), broken)
        for name, nanny in self.workers.items():
            if isinstance(nanny, DeviceNanny):
                attending = asyncio.create_task(self._attend(name))
                self._attending.add(attending)  # asyncio holds weak references only
                attending.add_done_callback(self._attending.discard)

    async def _close(self) -> None:
        # As there: left half closed, it would wait for itself until the interpreter gives it up.
        if self._closing is None:
            end_those_that_start(self._created)
            self._closing = asyncio.ensure_future(self._close_in_time())
        await asyncio.shield(self._closing)

    async def _close_in_time(self) -> None:
        """Ask the workers to end, as Dask does; kill those that do not: one may be stopped."""
        seconds, what = wait_seconds("chunkfold.close"), "the workers to end"
        closing = asyncio.ensure_future(super()._close())  # type: ignore[no-untyped-call]
        if not await ended([closing], seconds, what):
            end_all(self._created)
            if not await ended([closing], seconds, what):
                closing.cancel()
                self.status = Status.closed
                return
        await closing

    async def _attend(self, name: str) -> None:
        """Start a worker's nanny again, should it end, as when its worker dies while it starts."""
        for pause in itertools.chain(_PAUSES_S, itertools.repeat(_PAUSES_S[-1])):
            nanny = self.workers[name]
            await nanny.finished()
            if nanny.retired or self.status != Status.running:
                return
            self.workers.pop(name, None)  # it may have been scaled away
            await asyncio.sleep(pause)
            with contextlib.suppress(Exception):  # it is attended like the one before
                await self._correct_state()
            if name not in self.workers:
                return  # it is not wanted any more

    def _update_worker_status(self, op: str, msg: Any) -> None:
        # Dask's own would end the nanny of a worker that is away for 15 seconds, and on a busy
        # host, or if the next one dies too, it takes that long to start another.
        Cluster._update_worker_status(self, op, msg)

    def new_worker_spec(self) -> dict[str, dict[str, Any]]:
        """Describe the next worker to start (called by `scale`)."""
        for post in self._posts:
            if post.name not in self.worker_spec:
                spec = copy.deepcopy(self.new_spec)
                spec["options"].update(worker_options(post, self._threads))
                return {post.name: spec}
        raise ClusterError(
            f"cannot scale beyond {counted(len(self._posts), 'worker')}, for "
            f"{counted(len(self.devices), 'device')}"
        )


def _pages(given: dict[str, Any]) -> dict[str, Any]:
    """Have scheduler and workers serve pages, logs and metrics to this host only, unless told else.

    Without a dashboard Dask serves some of it still.
    """
    options: dict[str, Any] = {
        "dashboard_address": dashboard_address(),
        "worker_dashboard_address": _LOOPBACK,
        **given,
    }
    if options["dashboard_address"] is None:
        hidden = {"dashboard": False, "dashboard_address": _LOOPBACK}
        options["scheduler_kwargs"] = hidden | (given.get("scheduler_kwargs") or {})
    return options


def _encrypted(given: dict[str, Any]) -> bool:
    """Return True if arguments of a `LocalCluster` ask for encrypted addresses."""
    said = given.get("protocol") or str(given.get("host") or "")
    return said.split("://")[0] in ENCRYPTED

"""Where blocks run: on the device workers of a Dask cluster, or in this process."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from distributed import Client, get_worker
from distributed.scheduler import KilledWorker

from chunkfold.block import Folded, Watch, Work, combine, fold_block
from chunkfold.errors import CancelledError, ClusterError, DeviceError, WorkerLostError
from chunkfold.events import BlockProgress, OnEvent, from_message, to_message
from chunkfold.kernels import Device
from chunkfold.planning import Block
from chunkfold.worker import RESOURCE, WorkerDevice, describe_worker, device_of, process_device

T = TypeVar("T")
ANSWER_DEADLINE_S = 60.0
"""Longest wait for workers to answer a short question, in seconds. A first one opens a device."""
JOIN_DEADLINE_S = 30.0
"""Longest wait for a first worker to join, in seconds."""
GATHER_DEADLINE_S = 300.0
"""Longest wait for a root partial to reach the client, in seconds."""

Done = Callable[[object], None]
"""Told the outcome of a task: a handle of its result, or an exception."""


@dataclass(frozen=True)
class Crew:
    """Who will do the work."""

    devices: tuple[Device, ...]
    """Device of each worker."""
    threads: int
    """Blocks that one worker runs at once."""
    memory_limit: int | None
    """Bytes that the smallest worker may use."""


class Backend(Protocol):
    """Runs blocks and combines; a result stays where it was made until it is gathered."""

    def crew(self) -> Crew:
        """Find out who is there."""

    def start(self, work: Work, emit: OnEvent) -> None:
        """Get ready for a run."""

    def fold(self, block: Block, done: Done) -> None:
        """Start a block; `done` is called from any thread."""

    def combine(self, parts: Sequence[object], done: Done) -> None:
        """Start a combine of what earlier tasks left."""

    def gather(self, handle: object) -> Folded:
        """Fetch a result."""

    def retire(self, error: WorkerLostError) -> bool:
        """Give up the worker that raised; say whether any are left."""

    def stop(self) -> None:
        """Release everything; interrupt what still runs."""


class InProcess:
    """Runs every task in the caller's process, on its one device."""

    def __init__(self, device: str | None = None) -> None:
        self._spec = device
        self._stopped = threading.Event()

    def crew(self) -> Crew:
        """Open the device."""
        self._owned: WorkerDevice = process_device(self._spec)
        return Crew((self._owned.device,), 1, None)

    def start(self, work: Work, emit: OnEvent) -> None:
        """Remember the run."""
        self._work, self._emit = work, emit

    def fold(self, block: Block, done: Done) -> None:
        """Fold it before returning."""
        report = _reporter(self._work.run, block.number, "", self._owned.device.uuid, self._emit)
        watch = Watch(report, self._stopped.is_set)
        self._run(done, lambda: fold_block(self._owned, "", self._work, block, watch))

    def combine(self, parts: Sequence[object], done: Done) -> None:
        """Combine them before returning."""
        folded = [part for part in parts if isinstance(part, Folded)]
        self._run(done, lambda: combine(self._owned, "", self._work, folded))

    def gather(self, handle: object) -> Folded:
        """Return it: it is here."""
        assert isinstance(handle, Folded)
        return handle

    def retire(self, error: WorkerLostError) -> bool:  # noqa: ARG002 # the one there is
        """There is no other."""
        return False

    def stop(self) -> None:
        """Make a running block end at its next leaf."""
        self._stopped.set()

    @staticmethod
    def _run(done: Done, task: Callable[[], Folded]) -> None:
        try:
            done(task())
        except Exception as error:  # noqa: BLE001 # whatever it is, the engine decides
            done(error)


class OnCluster:
    """Runs tasks on a Dask cluster's device workers through futures."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._resources: dict[str, int] = {}
        self._futures: set[Any] = set()
        self._numbers = itertools.count()
        self._topic = ""

    def crew(self) -> Crew:
        """Ask every worker for its device.

        Raises
        ------
        ClusterError
            If no worker joins or they do not answer in time.
        DeviceError
            If none of them has a device.
        """
        with contextlib.suppress(TimeoutError):
            self._client.wait_for_workers(1, timeout=JOIN_DEADLINE_S)
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        if not workers:
            raise ClusterError(
                f"no worker joined {self._client} in {JOIN_DEADLINE_S:.0f} s; "
                "start some: chunkfold worker ADDRESS"
            )
        declared = {a: w for a, w in workers.items() if RESOURCE in w.get("resources", {})}
        if declared and len(declared) < len(workers):
            # Resources switch off queuing on the scheduler; the engine's window replaces it.
            self._resources = {RESOURCE: 1}
            workers = declared
        answers = within(
            ANSWER_DEADLINE_S,
            "the workers' answer about their devices",
            lambda: self._client.run(describe_worker, workers=list(workers), on_error="return"),
        )
        found = {a: d for a, d in answers.items() if isinstance(d, Device)}
        if not found:
            raise DeviceError(
                f"none of {len(answers)} worker(s) has an OpenCL device: "
                + "; ".join(str(answer) for answer in answers.values())
            )
        limits = [workers[a]["memory_limit"] for a in found if workers[a].get("memory_limit")]
        threads = min(int(workers[address]["nthreads"]) for address in found)
        return Crew(tuple(found.values()), threads, min(limits, default=None))

    def start(self, work: Work, emit: OnEvent) -> None:
        """Subscribe to the workers' events."""
        self._work, self._topic = work, f"chunkfold-{work.run}"
        self._client.subscribe_topic(self._topic, lambda event: emit(from_message(event[1])))

    def fold(self, block: Block, done: Done) -> None:
        """Submit a block."""
        self._submit(done, f"fold-{block.number}", block_task, self._work, block)

    def combine(self, parts: Sequence[object], done: Done) -> None:
        """Submit a combine; it runs where the partials are, or they go to it."""
        self._submit(done, "combine", combine_task, self._work, *parts)
        self._futures.difference_update(parts)

    def gather(self, handle: object) -> Folded:
        """Bring a root partial to the client."""
        folded = within(
            GATHER_DEADLINE_S,
            "a root partial",
            lambda: handle.result(timeout=GATHER_DEADLINE_S),  # type: ignore[attr-defined]
        )
        self._futures.discard(handle)
        assert isinstance(folded, Folded)
        return folded

    def retire(self, error: WorkerLostError) -> bool:
        """Close the worker that has no device any more."""
        within(
            ANSWER_DEADLINE_S,
            "a worker's retirement",
            lambda: self._client.retire_workers([error.worker]),
        )
        return bool(self._client.scheduler_info(n_workers=-1)["workers"])

    def stop(self) -> None:
        """Cancel what is queued, tell running blocks to end, and let go of all results."""
        futures, self._futures = list(self._futures), set()
        with contextlib.suppress(Exception):  # whatever is left of the cluster, we are leaving
            if futures:
                self._client.cancel(futures)
                mark = (cancel_run, self._work.run)
                within(10.0, "cancelling", lambda: self._client.run(*mark, on_error="ignore"))
        with contextlib.suppress(Exception):
            if self._topic:
                self._client.unsubscribe_topic(self._topic)

    def _submit(self, done: Done, name: str, task: Callable[..., Folded], *args: Any) -> None:
        future = self._client.submit(
            task,
            *args,
            # A key of this run's own: the same call on a changed file is another call.
            key=f"chunkfold-{name}-{self._work.run}-{next(self._numbers)}",
            pure=False,
            resources=self._resources or None,
        )
        self._futures.add(future)
        future.add_done_callback(lambda settled: done(_outcome(settled)))


def _outcome(future: Any) -> object:
    """Return a finished future, or why it has no result, in chunkfold's terms."""
    if future.status == "finished":
        return future
    if future.status == "cancelled":
        return CancelledError("a task was cancelled on the scheduler")
    error = future.exception(timeout=ANSWER_DEADLINE_S)
    if isinstance(error, KilledWorker):
        return DeviceError(
            f"workers died {error.allowed_failures + 1} times while folding the same block; "
            f"the last was {error.last_worker.address}: look at its log for the reason"
        )
    return error


def within(seconds: float, what: str, call: Callable[[], T]) -> T:
    """Run a blocking call with a deadline.

    Raises
    ------
    ClusterError
        If it passed.
    """
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(call).result(seconds)
    except FutureTimeoutError:
        raise ClusterError(f"waited {seconds:.0f} s for {what} in vain") from None
    finally:
        pool.shutdown(wait=False)


def _reporter(
    run: str, block: int, worker: str, device: str, emit: OnEvent
) -> Callable[[int, bool], None]:
    began = time.monotonic()

    def progress(nbytes: int, done: bool) -> None:
        seconds = time.monotonic() - began
        emit(BlockProgress(run, block, nbytes, done, worker, device, seconds))

    return progress


_cancelled_runs: set[str] = set()


def cancel_run(run: str) -> None:
    """Make this process's blocks of a run end at their next leaf. Runs on workers."""
    _cancelled_runs.add(run)


def block_task(work: Work, block: Block) -> Folded:
    """Fold a block on the worker's device. Runs on workers."""
    worker, topic = get_worker(), f"chunkfold-{work.run}"
    owned, address = device_of(worker), worker.address
    report = _reporter(
        work.run,
        block.number,
        address,
        owned.device.uuid,
        lambda event: worker.log_event(topic, to_message(event)),  # type: ignore[arg-type]
    )
    return fold_block(
        owned, address, work, block, Watch(report, lambda: work.run in _cancelled_runs)
    )


def combine_task(work: Work, *parts: Folded) -> Folded:
    """Combine partials on the worker's device. Runs on workers."""
    worker = get_worker()
    return combine(device_of(worker), worker.address, work, parts)

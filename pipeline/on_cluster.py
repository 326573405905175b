"""The backend that runs blocks on the device workers of a Dask cluster."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from distributed import Client
from distributed.scheduler import KilledWorker
from tenacity import (
    Retrying,
    retry_if_result,
    stop_after_attempt,
    stop_after_delay,
    stop_all,
    wait_fixed,
)

from chunkfold.backend import Crew, Done
from chunkfold.block import Folded
from chunkfold.blocks import Block
from chunkfold.deadline import within
from chunkfold.errors import CancelledError, ClusterError, DeviceError, WorkerLostError
from chunkfold.events import OnEvent, from_message, topic_of
from chunkfold.tasks import block_task, cancel_run, combine_task, tasks_at
from chunkfold.work import Work
from chunkfold.worker import RESOURCE, describe_worker

ANSWER_DEADLINE_S = 60.0
"""Longest wait for workers to answer a short question, in seconds. A first one opens a device."""
JOIN_DEADLINE_S = 30.0
"""Longest wait for a first worker to join, in seconds."""
_UNTIL_SOME_ANSWER = Retrying(
    retry=retry_if_result(lambda asked: all(isinstance(one, OSError) for one in asked[1].values())),
    stop=stop_all(stop_after_delay(JOIN_DEADLINE_S), stop_after_attempt(2)),
    wait=wait_fixed(0.2),
    retry_error_callback=lambda state: state.outcome and state.outcome.result(),
)
"""A worker that dies while it is asked may come again, though Dask took all that time to see it."""
GATHER_DEADLINE_S = 300.0
"""Longest wait for a root partial to reach the client, in seconds."""


class _Ear:
    """Hears of a run. Dask's client keeps it for good, so it keeps nothing when the run ends."""

    emit: OnEvent | None = None

    def __call__(self, event: tuple[float, Any]) -> None:
        emit = self.emit
        if emit is not None:
            emit(from_message(event[1]))


class OnCluster:
    """Runs tasks on a Dask cluster's device workers through futures."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._resources: dict[str, int] = {}
        self._futures: set[Any] = set()
        self._near = False
        """Whether the workers are where the client reaches the scheduler: on one host with it."""
        self._numbers = itertools.count()
        self._topic = ""
        self._ear = _Ear()

    def listen(self, run: str) -> None:
        """Subscribe to the workers' events: tasks sent within 10 ms of that would wait for it.

        Dask's client sends no more often.
        """
        self._topic = topic_of(run)
        with contextlib.suppress(Exception):  # a client that is closed: `crew` says so
            self._client.subscribe_topic(self._topic, self._ear)

    def crew(self) -> Crew:
        """Ask every worker for its device.

        Raises
        ------
        ClusterError
            If no worker joins or they do not answer in time.
        DeviceError
            If none of them has a device.
        """
        if self._client.status != "running":
            raise ClusterError(f"the client is {self._client.status}: connect it to a scheduler")
        workers, answers = _UNTIL_SOME_ANSWER(self._ask)
        found = {a: known for a, known in answers.items() if isinstance(known, tuple)}
        if not found:
            raise DeviceError(
                f"none of {len(answers)} worker(s) has an OpenCL device: "
                + "; ".join(str(answer) for answer in answers.values())
            )
        reached: Any = self._client.scheduler  # None, had it not been running
        self._near = {_host(address) for address in found} == {_host(reached.address)}
        limits = [workers[a]["memory_limit"] for a in found if workers[a].get("memory_limit")]
        threads = min(int(workers[address]["nthreads"]) for address in found)
        devices, readers = zip(*found.values(), strict=True)
        (_, neighbours), *_ = Counter(map(_host, found)).most_common(1)
        return Crew(devices, threads, max(readers), min(limits, default=None), neighbours)

    def _ask(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Wait for a worker, and ask all there are; return them, and what they answer."""
        workers = self._workers()
        if not workers:
            with contextlib.suppress(TimeoutError):
                self._client.wait_for_workers(1, timeout=JOIN_DEADLINE_S)
            workers = self._workers()
        if not workers:
            address = self._client.scheduler_info(n_workers=0)["address"]
            raise ClusterError(
                f"no worker joined {address} in {JOIN_DEADLINE_S:.0f} s; "
                f"start some: chunkfold worker {address}"
            )
        declared = {a: w for a, w in workers.items() if RESOURCE in w.get("resources", {})}
        if declared and len(declared) < len(workers):
            # Resources switch off queuing on the scheduler; the engine's window replaces it.
            self._resources = {RESOURCE: 1}
            workers = declared
        return workers, within(
            ANSWER_DEADLINE_S,
            "the workers' answer about their devices",
            lambda: self._client.run(describe_worker, workers=list(workers), on_error="return"),
        )

    def _workers(self) -> dict[str, Any]:
        found: dict[str, Any] = self._client.scheduler_info(n_workers=-1)["workers"]
        return found

    def start(
        self,
        work: Work,
        emit: OnEvent,
        cancelled: Callable[[], bool],  # noqa: ARG002 # the engine asks, and calls stop
    ) -> None:
        """Remember the run."""
        self._work, self._ear.emit = work, emit

    def fold(self, block: Block, done: Done) -> None:
        """Submit a block."""
        key = f"fold-{block.number}-{self._work.run}"
        self.submit(done, key, block_task, self._work, block)

    def combine(self, parts: Sequence[object], done: Done) -> None:
        """Submit a combine; it runs where the partials are, or they go to it."""
        # Before blocks that wait on a worker: partials take memory until they are combined.
        key = f"combine-{self._work.run}"
        self.submit(done, key, combine_task, self._work, *parts, priority=1)

    def submit(
        self, done: Done, name: str, task: Callable[..., Any], *args: Any, priority: int = 0
    ) -> None:
        """Submit any task; `done` is told its future, or why it has no result."""
        future = self._client.submit(
            task,
            *args,
            # A key of this run's own: the same call on a changed file is another call.
            key=f"chunkfold-{name}-{next(self._numbers)}",
            pure=False,
            priority=priority,
            resources=self._resources or None,
        )
        self._futures.add(future)
        future.add_done_callback(lambda settled: done(self._outcome(settled)))

    def gather(self, handle: object) -> Folded:
        """Bring a root partial to the client: past the scheduler, if the worker is near."""
        folded = within(
            GATHER_DEADLINE_S,
            "a root partial",
            lambda: self._client.gather(handle, direct=self._near),
        )
        self.release([handle])
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

    def manned(self) -> bool:
        """Ask the scheduler. What it does not answer is no worker's loss."""
        try:
            there = within(ANSWER_DEADLINE_S, "the scheduler's answer", self._workers)
        except Exception:  # noqa: BLE001 - its loss is found out by what is waited for
            return True
        needed = self._resources.keys()
        return any(needed <= worker.get("resources", {}).keys() for worker in there.values())

    def doing(self) -> Sequence[str]:
        """Ask the workers."""
        try:
            answers = within(
                ANSWER_DEADLINE_S,
                "the workers to say what they do",
                lambda: self._client.run(tasks_at, self._work.run, on_error="ignore"),
            )
        except Exception as error:  # noqa: BLE001 - what is told is why the run ended, and this
            return [str(error)]
        return [f"{worker}: {task}" for worker, tasks in answers.items() for task in tasks]

    def stop(self) -> None:
        """Cancel what is queued, tell running blocks to end, and let go of all results."""
        futures = list(self._futures)
        with contextlib.suppress(Exception):  # whatever is left of the cluster, we are leaving
            if futures:
                self._client.cancel(futures)
            if futures and self._topic:
                mark = (cancel_run, self._work.run)
                within(10.0, "cancelling", lambda: self._client.run(*mark, on_error="ignore"))
        with contextlib.suppress(Exception):
            self.release(futures)
        self._ear.emit = None
        with contextlib.suppress(Exception):
            if self._topic:
                self._client.unsubscribe_topic(self._topic)

    def release(self, handles: Sequence[Any]) -> None:
        """Let go of futures at once; garbage collection would do so some time."""
        self._futures.difference_update(handles)
        for future in handles:
            future.release()

    def _outcome(self, future: Any) -> object:
        """Return a finished future, or why it has no result, in chunkfold's terms.

        Dask only logs what a callback raises, and nobody would hear of the task any more.
        """
        if future.status == "finished":
            return future
        if self._client.status != "running" or future.status == "lost":
            return ClusterError(f"the connection to the scheduler was lost: {self._client.status}")
        if future.status == "cancelled":
            return CancelledError("a task was cancelled on the scheduler")
        try:
            return _failure(future)
        except Exception as error:  # noqa: BLE001 - the scheduler may have gone meanwhile
            return ClusterError(f"why a task failed is not known: {error!r}")


def _host(address: str) -> str | None:
    return urlsplit(address).hostname


def _failure(future: Any) -> object:
    error = future.exception(timeout=ANSWER_DEADLINE_S)
    if isinstance(error, KilledWorker):
        return DeviceError(
            f"workers died {error.allowed_failures + 1} times while they ran the same task; "
            f"the last was {error.last_worker.address}: look at its log for the reason"
        )
    return error

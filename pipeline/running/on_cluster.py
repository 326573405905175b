"""The backend that runs blocks on the device workers of a Dask cluster."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import dask
from dask import annotate  # type: ignore[attr-defined] # its own documentation does so
from distributed import Client, Future

from chunkfold.cluster.device_workers import DeviceWorkers
from chunkfold.cluster.event_listener import TIDY_EVERY, listener_of
from chunkfold.cluster.scheduler_calls import SPAN, on_loop, tidied
from chunkfold.cluster.watching import Watched, WorkersWatch
from chunkfold.deadline import awaited, in_background, with_deadline
from chunkfold.errors import CancelledError, ClusterError, WorkerLostError, WorkerStoppedError
from chunkfold.events import OnEvent
from chunkfold.planning.blocks import Block
from chunkfold.planning.work import Work
from chunkfold.planning.workers import Workers
from chunkfold.running import sending
from chunkfold.running.backend import OnOutcome, PartialsLostError
from chunkfold.running.sent_tasks import SentTasks, is_gone, of_combine, outcome_of
from chunkfold.running.shared_tasks import TasksThere
from chunkfold.settings import wait_seconds
from chunkfold.worker.fold_block import Folded
from chunkfold.worker.tasks import block_task, cancel_run, combine_task, constants_task, tasks_at

_LARGE = "distributed.admin.large-graph-warning-threshold"


class _TakenOverError(Exception):
    """The wait is over: its result may have been on a worker that was removed just now."""


class OnCluster:
    """Runs tasks on a Dask cluster's device workers through futures."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._workers = DeviceWorkers(client)
        self._futures: set[Any] = set()
        self._numbers = itertools.count()
        self._constants: Any = None
        """The future of a run's constants, where they do not travel with its tasks."""
        self._shared: TasksThere | None = None
        """Of Dask's arrays, where a run has any."""
        self._newest: dict[int, int] = {}
        """The last attempt of each block."""
        self._run = ""
        self._sent = SentTasks()
        self._watching = WorkersWatch(client, self._workers.useful, self._sent.give_up)
        self._gone: dict[str, str] = {}
        """Why workers were removed that nobody has heard of."""

    def listen(self, run: str) -> None:
        """Subscribe to the workers' events: tasks sent within 10 ms of that would wait for it.

        Dask's client sends no more often.
        """
        before, self._run = self._run, run
        with contextlib.suppress(Exception):  # a client that is closed: `workers` says so
            listener = listener_of(self._client)
            listener.listen(self._client, run)
            if before:
                listener.leave(self._client, before)

    def workers(self, codecs: Collection[str] = ()) -> Workers:
        """Ask every worker for its device; see `DeviceWorkers.ask`."""
        return self._workers.ask(self.watch, codecs)

    def joined_workers(self) -> dict[str, Any]:
        """Ask the scheduler who has joined: what it knows of each, by address."""
        return self._workers.joined_workers()

    @staticmethod
    def _answer() -> float:
        return wait_seconds("chunkfold.workers.answer")

    def start(
        self,
        work: Work,
        emit: OnEvent,
        cancelled: Callable[[], bool],  # noqa: ARG002 # the block scheduler asks, and calls stop
    ) -> None:
        """Remember the run."""
        self._whole, self._work, listener = work, work.common(), listener_of(self._client)
        self._topic = listener.topic
        listener.tell(work.scan.run, emit, self._sent.worker_removed)
        if self._shared is not None:
            self._shared.stop()
        self._shared = None if work.scan.tasks is None else TasksThere(work, self._client)
        self._constants = None
        if work.constants.nbytes > sending.INLINE_BYTES:
            self._work = self._work.without_constants()
            # A task, not data that is scattered: Dask makes it again where a worker is lost. Dask
            # need not warn of its size: it is bounded.
            with dask.config.set({_LARGE: 1 << 40}):
                name = f"constants-{work.scan.run}"
                packed = work.constants.packed()
                self._constants = self.submit(_ignored, name, constants_task, packed)

    def fold(self, block: Block, attempt: int, on_outcome: OnOutcome) -> object:
        """Submit a block."""
        key = f"fold-{block.number}-{self._work.scan.run}-{attempt}"
        data = self._whole.data_of(block)
        results, sent = None, sending.scatter_if_large(self._client, data, self._look_after_a_block)
        if isinstance(sent, Future):
            on_outcome = partial(self._let_go_of, sent, on_outcome)
        if self._shared is not None and data is not None:
            results = self._shared.before(block.number, data.tasks.inputs, lambda: None)
            self._newest[block.number] = attempt
            on_outcome = partial(self._folded, block.number, attempt, on_outcome)
        if sending.partials_will_be_small(self._whole, block):
            on_outcome = partial(self._gather_then, on_outcome)
        given = (self._work, block, attempt, self._topic, self._constants, sent, results)
        future = self.submit(on_outcome, key, block_task, *given)
        return self._replaceable(future, on_outcome)

    def _look_after_a_block(self) -> None:
        self._gone |= self.watch().removed

    def _folded(self, number: int, attempt: int, on_outcome: OnOutcome, outcome: object) -> None:
        """Release shared results that no block needs any more, except those of a later attempt."""
        if not isinstance(outcome, BaseException) and self._newest[number] == attempt:
            assert self._shared is not None
            self._shared.done(number)
        on_outcome(outcome)

    def _let_go_of(self, data: Any, on_outcome: OnOutcome, outcome: object) -> None:
        """Release the data that were sent ahead; if a worker lost them, the task is repeated."""
        if isinstance(outcome, CancelledError) and data.status in ("lost", "cancelled"):
            outcome = WorkerStoppedError("a worker was lost with the data of a block", "")
        data.release()
        on_outcome(outcome)

    def combine(self, parts: Sequence[object], attempt: int, on_outcome: OnOutcome) -> object:
        """Submit a combine; it runs where the partials are, or they go to it."""
        # Before blocks that wait on a worker: partials take memory until they are combined.
        key, sent = f"combine-{self._work.scan.run}-{attempt}", list[object]()
        if all(isinstance(part, Folded) and sending.partials_are_small(part) for part in parts):
            on_outcome = partial(self._gather_then, on_outcome)
        for part in parts:
            given = sending.scatter_partial_if_large(self._client, part, self._look_after_a_block)
            sent.append(given)
            if given is not part:
                on_outcome = partial(self._let_go_of, given, on_outcome)
        on_outcome = partial(self._combined, parts, on_outcome)
        future = self.submit(on_outcome, key, combine_task, self._work, *sent, priority=1)
        return self._replaceable(future, on_outcome)

    def _gather_then(self, on_outcome: OnOutcome, outcome: object) -> None:
        sending.gather_then(self._client, outcome, on_outcome, self.release)

    def _combined(self, parts: Sequence[Any], on_outcome: OnOutcome, outcome: object) -> None:
        on_outcome(of_combine(parts, outcome))

    def _replaceable(self, future: Any, on_outcome: OnOutcome) -> object:
        self._sent.add(future.key, on_outcome)
        return future

    def submit(
        self,
        on_outcome: OnOutcome,
        name: str,
        task: Callable[..., Any],
        *args: Any,
        priority: int = 0,
    ) -> Any:
        """Submit any task; `on_outcome` is told its future, or why it has no result.

        Returns the future. Of a worker that is stopped, Dask itself takes such a task to another.
        """
        preferred = sorted(self._workers.preferred())
        with annotate(span=SPAN):
            future = self._client.submit(
                task,
                *args,
                # A key of this run's own: the same call on a changed file is another call.
                key=f"chunkfold-{name}-{next(self._numbers)}",
                pure=False,
                priority=priority,
                workers=preferred or None,
                allow_other_workers=bool(preferred),  # they may go before they have begun it
                resources=self._workers.resources or None,
            )
        self._futures.add(future)
        future.add_done_callback(lambda settled: on_outcome(outcome_of(settled, self._client)))
        return future

    def gather(self, handle: object) -> Folded:
        """Bring a root partial to the client: past the scheduler, if the worker is near."""
        if isinstance(handle, Folded):
            return handle
        while True:
            fetched = in_background(lambda: self._client.gather(handle, direct=self._workers.near))
            seconds = wait_seconds("chunkfold.run.gather")
            try:
                folded = awaited(fetched, seconds, "a root partial", self._look_after_a_root)
                break
            except _TakenOverError:
                continue  # Dask makes it once more, elsewhere
            except Exception:
                if is_gone(handle):
                    raise PartialsLostError([handle]) from None
                raise
        self.release([handle])
        assert isinstance(folded, Folded)
        return folded

    def fetcher(self, handle: object) -> Callable[[], Folded]:
        """Return what brings a result, under a handle of its own."""
        return sending.fetcher(self._client, handle)

    def _look_after_a_root(self) -> None:
        watched, timeout = self.watch(), wait_seconds("chunkfold.no-workers-timeout")
        if watched.removed:
            raise _TakenOverError
        if watched.nobody > timeout:
            raise ClusterError(f"no worker was heard for {timeout:.0f} s: run it again")

    def retire(self, error: WorkerLostError) -> bool:
        """Close the worker that has no device any more."""
        return self._workers.retire(error.worker)

    def avoid(self, worker: str, cancelled: Callable[[], bool]) -> set[str]:
        """Submit to other workers from now on."""
        return self._workers.avoid(worker, cancelled)

    def watch(self, quiet: float = math.inf) -> Watched:
        """Look after the workers; see `WorkersWatch.look`."""
        watched = self._watching.look(quiet)
        gone, self._gone = self._gone | dict(watched.removed), {}
        went_on = self._shared is not None and self._shared.went_on()
        return replace(watched, removed=gone, went_on=went_on)

    def doing(self) -> Sequence[str]:
        """Ask the workers."""
        try:
            answers = with_deadline(
                self._answer(),
                "the workers to say what they do",
                lambda: self._client.run(tasks_at, self._work.scan.run, on_error="ignore"),
            )
        except Exception as error:  # noqa: BLE001 - what is told is why the run ended, and this
            return [str(error)]
        return [f"{worker}: {task}" for worker, tasks in answers.items() for task in tasks]

    def stop(self) -> None:
        """Cancel what is queued, tell running blocks to end, and let go of all results."""
        self._watching.stop()
        futures = list(self._futures)
        with contextlib.suppress(Exception):  # whatever is left of the cluster, we are leaving
            if futures:
                self._client.cancel(futures)
            # By way of the scheduler: of one that does not answer there is nothing to wait for.
            if futures and self._run and self._watching.unanswered() < self._answer():
                mark = (cancel_run, self._run)
                seconds = wait_seconds("chunkfold.close")
                with_deadline(
                    seconds, "cancelling", lambda: self._client.run(*mark, on_error="ignore")
                )
        with contextlib.suppress(Exception):
            self.release(futures)
        with contextlib.suppress(Exception):
            if self._shared is not None:
                self._shared.stop()
        with contextlib.suppress(Exception):
            if self._run:
                listener = listener_of(self._client)
                listener.leave(self._client, self._run)
                if next(listener.left) % TIDY_EVERY == 0:
                    on_loop(self._client, tidied)

    def release(self, handles: Sequence[Any]) -> None:
        """Release futures at once, without waiting for garbage collection."""
        futures: list[Any] = [handle for handle in handles if isinstance(handle, Future)]
        self._futures.difference_update(futures)
        self._sent.drop(future.key for future in futures)
        for future in futures:
            future.release()


def _ignored(outcome: object) -> None:
    """Blocks that have a task's result end as it does."""

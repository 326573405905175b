"""Tasks of Dask's that several blocks of a run need: each runs once, before the first of them."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

from dask import annotate  # type: ignore[attr-defined] # its own documentation does so
from dask.threaded import get
from dask.typing import Key
from distributed import Client

from chunkfold.cluster.scheduler_calls import SPAN, on_loop
from chunkfold.planning.work import Work
from chunkfold.settings import wait_seconds
from chunkfold.sources.dask_division import Division, Own
from chunkfold.sources.dask_graph import computed, guarded
from chunkfold.sources.dask_source import DaskSource
from chunkfold.suspend_clock import SuspendClock

OnTask = Callable[[], None]
_ASKED = 1000
"""Most tasks that a scheduler is asked about: some of those that are under way stand for all."""
_UNDER_WAY = ("waiting", "no-worker", "queued", "processing")
"""States of tasks that are to be done, as Dask calls them."""


class SharedTasks(ABC):
    """Results of such tasks, kept until the last block that takes them is done."""

    def __init__(self, work: Work) -> None:
        self._tasks = work.scan.tasks or Division({}, ())
        self._run, self._skips = work.scan.run, work.scan.skips
        own = [one for one in work.scan.sources if isinstance(one, DaskSource)]
        self._name = " and ".join(dict.fromkeys(one.name for one in own))
        self._results: dict[Key, Any] = {}
        self._kept = {key: set(blocks) for key, blocks in self._tasks.takers.items()}
        self._of_block = defaultdict[int, list[Key]](list)
        for key, blocks in self._tasks.takers.items():
            for block in blocks:
                self._of_block[block].append(key)
        self._begun = 0
        """Blocks whose tasks have begun, counted from the first."""
        self._error: Exception | None = None
        self._lock = threading.Lock()

    def before(self, block: int, inputs: Sequence[Key], told: OnTask) -> Mapping[Key, Any]:
        """Run what a block needs and nobody did; return the results that it takes, by key.

        `told` is called whenever a task is done that is waited for, and may raise.
        """
        with self._lock:
            if self._error is not None:
                raise self._error
            if block >= self._begun:
                tasks = self._tasks.before(range(self._begun, block + 1))
                self._begun = block + 1
                try:
                    self._add(tasks, told)
                except Exception as error:
                    self._error = error
                    raise
            self._make_again(block, inputs, told)
            return {key: self._result(key) for key in inputs}

    def _make_again(self, block: int, inputs: Sequence[Key], told: OnTask) -> None:
        """Run once more what a block takes that was done, and is to be done again."""
        taken = [key for key in inputs if key in self._kept]
        lacking = [key for key in taken if key not in self._results]
        if not lacking:
            return
        tasks = self._tasks.again(lacking, self._results)
        results = {key: self._result(key) for key in tasks.inputs}
        self._results.update(zip(lacking, self._made(tasks, results, lacking, told), strict=True))
        self._of_block[block] = taken
        for key in taken:
            self._kept[key].add(block)

    def done(self, block: int) -> None:
        """Release the results that no other block needs."""
        with self._lock:
            for key in self._of_block.pop(block, ()):
                self._kept[key].discard(block)
                if not self._kept[key]:
                    self._drop(self._results.pop(key))

    def stop(self) -> None:
        """Release all results."""
        with self._lock:
            for result in self._results.values():
                self._drop(result)
            self._results.clear()
            self._of_block.clear()

    def _add(self, tasks: Own, told: OnTask) -> None:
        kept = [key for key in tasks.graph if key in self._kept]
        if kept:
            results = {key: self._result(key) for key in tasks.inputs}
            self._results.update(zip(kept, self._made(tasks, results, kept, told), strict=True))

    def _result(self, key: Key) -> Any:
        return self._results[key]

    @abstractmethod
    def _made(
        self, tasks: Own, results: Mapping[Key, Any], kept: Sequence[Key], told: OnTask
    ) -> Iterable[Any]:
        """Run tasks; return what is kept of them."""

    @abstractmethod
    def _drop(self, result: Any) -> None:
        """Release a result."""


class TasksHere(SharedTasks):
    """Runs them in threads of this process, which holds their results."""

    def __init__(self, work: Work, threads: Executor) -> None:
        super().__init__(work)
        self._get = partial(get, pool=threads)

    def _made(
        self, tasks: Own, results: Mapping[Key, Any], kept: Sequence[Key], told: OnTask
    ) -> Iterable[Any]:
        keeps = self._skips
        made = computed(tasks.graph, results, kept, self._name, self._get, told, keeps=keeps)
        return [made[key] for key in kept]

    def _drop(self, result: Any) -> None:
        """Nobody else has it."""


class TasksThere(SharedTasks):
    """Runs them on a cluster's workers, of whatever kind, which hold the results: futures."""

    def __init__(self, work: Work, client: Client) -> None:
        super().__init__(work)
        self._client = client
        self._given = {
            key: future
            for one in work.scan.sources
            if isinstance(one, DaskSource)
            for key, future in one.futures.items()
        }
        """What the sources are made of: it is their owner's, and stays."""
        self._states: dict[Key, str] = {}
        """Of some tasks under way, as the scheduler told them last."""
        self._asking: Future[Mapping[Key, str]] | None = None
        self._clock, self._asked = SuspendClock(), 0.0

    def went_on(self) -> bool:
        """Say whether a task began or ended since this was asked last; to be called often.

        Of tasks whose results nobody keeps a client is told nothing: the scheduler is asked.
        """
        now, news = self._clock.seconds(), False
        if self._asking is not None and self._asking.done():
            answer, self._asking = self._asking, None
            told = {} if answer.cancelled() or answer.exception() else answer.result()
            news = any(self._states.get(key) != state for key, state in told.items())
            for key, state in told.items():
                if state in _UNDER_WAY:
                    self._states[key] = state
                else:
                    del self._states[key]
        every = wait_seconds("chunkfold.workers.ask")
        if self._states and self._asking is None and now - self._asked >= every:
            self._asked, keys = now, list(self._states)
            self._asking = on_loop(self._client, lambda made: made.get_task_status(keys=keys))
        return news

    def stop(self) -> None:
        """Release all results: tasks that nobody needs end.

        They are not cancelled: Dask would cancel their dependents too, and a scheduler asserts that
        each dependent is wanted.
        """
        super().stop()
        if self._asking is not None:
            self._asking.cancel()

    def _result(self, key: Key) -> Any:
        return self._given[key] if key in self._given else self._results[key]

    def _called(self, key: Key) -> Key:
        """Return a key of the run's own: what it lets go of is nobody else's."""
        if key in self._given:
            return key
        name, *numbers = key if isinstance(key, tuple) else (key,)
        made = f"chunkfold-{self._run}-{name}"
        return (made, *numbers) if isinstance(key, tuple) else made

    def _made(
        self,
        tasks: Own,
        results: Mapping[Key, Any],  # noqa: ARG002 # workers have them
        kept: Sequence[Key],
        told: OnTask,  # noqa: ARG002 # they are not waited for
    ) -> Iterable[Any]:
        graph = guarded(tasks.graph, self._name, keeps=self._skips, called=self._called)
        with annotate(span=SPAN):
            made = self._client.get(
                graph, [self._called(key) for key in kept], sync=False, fifo_timeout=0
            )
        self._states |= dict.fromkeys(list(graph)[:: -(-len(graph) // _ASKED)], "")
        return list(made)

    def _drop(self, result: Any) -> None:
        result.release()

"""A backend runs blocks: the protocol of all backends, and the backend of the caller's process."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

from dask import threaded

from chunkfold.cluster.watching import Watched
from chunkfold.errors import WorkerLostError
from chunkfold.events import OnEvent, reporter
from chunkfold.kernels.tuning.decode_request import decode_rates
from chunkfold.planning.blocks import Block
from chunkfold.planning.work import Work, to_this_process
from chunkfold.planning.workers import THREADS, Workers, by_cores, memory_each
from chunkfold.plural import counted
from chunkfold.running.shared_tasks import TasksHere
from chunkfold.sources.source import Source
from chunkfold.stores.h5_files import close_idle
from chunkfold.worker.combine_blocks import combine
from chunkfold.worker.computing import TaskProgress, sources_in
from chunkfold.worker.fold_block import Folded, fold_block
from chunkfold.worker.totals import Watch
from chunkfold.worker.worker_device import WorkerDevice, process_device

OnOutcome = Callable[[object], None]
"""Told the outcome of a task: a handle of its result, or an exception."""


class PartialsLostError(Exception):
    """Partials that were waited with were lost, and with them what they were made of."""

    def __init__(self, lost: Sequence[object]) -> None:
        super().__init__(f"{counted(len(lost), 'partial')} lost with the worker")
        self.lost = lost
        """Their handles."""


class Backend(Protocol):
    """Runs blocks and combines; a result stays where it was made until it is gathered."""

    def listen(self, run: str) -> None:
        """Get ready to hear of a run's tasks."""

    def workers(self, codecs: Collection[str] = ()) -> Workers:
        """Find out who is there, and how fast their devices and hosts decode some codecs."""

    def start(self, work: Work, emit: OnEvent, cancelled: Callable[[], bool]) -> None:
        """Get ready for a run, or for the next read of one."""

    def fold(self, block: Block, attempt: int, on_outcome: OnOutcome) -> object:
        """Start a block; `on_outcome` is called from any thread. Returns what `release` takes."""

    def combine(self, parts: Sequence[object], attempt: int, on_outcome: OnOutcome) -> object:
        """Start a combine of what earlier tasks left; as `fold`.

        Its outcome is a `PartialsLostError` where these are to be made again.
        """

    def gather(self, handle: object) -> Folded:
        """Fetch a result.

        Raises
        ------
        PartialsLostError
            If it is to be made again.
        """

    def fetcher(self, handle: object) -> Callable[[], Folded]:
        """Return what brings a result, which stays where it is; others may release it meanwhile."""

    def release(self, handles: Sequence[object]) -> None:
        """Release results that were combined, or tasks that nobody waits for."""

    def retire(self, error: WorkerLostError) -> bool:
        """Give up the worker that raised; say whether any are left."""

    def avoid(self, worker: str, cancelled: Callable[[], bool]) -> set[str]:
        """Send tasks to other workers than one whose device failed; return their addresses."""

    def watch(self, quiet: float = math.inf) -> Watched:
        """Look after the workers: tasks of those that are stopped end with `WorkerStoppedError`.

        To be called a few times a second; it takes time only where one is removed. `quiet` is for
        how long nothing was heard of the tasks, in seconds.

        Raises
        ------
        ClusterError
            If the scheduler does not answer either.
        """

    def doing(self) -> Sequence[str]:
        """Say where the code of the tasks is that run elsewhere, for whoever waits in vain."""

    def stop(self) -> None:
        """Release everything; interrupt what still runs."""


class InProcess:
    """Runs every task in the caller's process, on its one device."""

    def __init__(self, device: str | None = None) -> None:
        self._spec = device
        self._stopped = threading.Event()
        self._blocks = ThreadPoolExecutor(THREADS, "chunkfold-block")
        self._tasks: ThreadPoolExecutor | None = None
        """Those that run tasks of Dask's, where sources have some."""

    def listen(self, run: str) -> None:
        """Its tasks tell what they do themselves."""

    def workers(self, codecs: Collection[str] = ()) -> Workers:
        """Open the device."""
        self._worker_device: WorkerDevice = process_device(self._spec)
        device, readers = self._worker_device.device, self._worker_device.readers
        rates = by_cores(decode_rates(device, codecs), readers)
        return Workers((device,), THREADS, readers, memory_each(1), decode_rates=rates)

    def start(self, work: Work, emit: OnEvent, cancelled: Callable[[], bool]) -> None:
        """Remember the run."""
        self._end_tasks()
        self._work, self._emit, self._cancelled = work, emit, cancelled
        if work.scan.tasks is not None:
            self._tasks = ThreadPoolExecutor(self._worker_device.readers, "chunkfold-task")
            self._shared = TasksHere(work, self._tasks)

    def fold(self, block: Block, attempt: int, on_outcome: OnOutcome) -> object:
        """Fold it in a thread."""
        identity = self._worker_device.device.identity
        report = reporter(self._work.scan.run, block.number, attempt, "", identity, self._emit)
        watch = Watch(report, lambda: self._stopped.is_set() or self._cancelled())
        return self._blocks.submit(_settle, on_outcome, partial(self._folded, block, watch))

    def _folded(self, block: Block, watch: Watch) -> Folded:
        if self._tasks is None:
            return fold_block(self._worker_device, "", self._work, block, watch)
        bring = partial(self._sources, block, TaskProgress(self._work.scan.run, watch))
        folded = fold_block(self._worker_device, "", self._work, block, watch, bring)
        self._shared.done(block.number)
        return folded

    def _sources(self, block: Block, told: Callable[[], None]) -> Mapping[int, Source]:
        data = self._work.data_of(block, to_this_process)
        assert data is not None  # or there were no tasks
        results = self._shared.before(block.number, data.tasks.inputs, told)
        return sources_in(data, results, partial(threaded.get, pool=self._tasks), told)

    def combine(
        self,
        parts: Sequence[object],
        attempt: int,  # noqa: ARG002 # there is no other
        on_outcome: OnOutcome,
    ) -> object:
        """Combine them before returning."""
        folded = [part for part in parts if isinstance(part, Folded)]
        _settle(on_outcome, partial(combine, self._worker_device, "", self._work, folded))
        return None

    def gather(self, handle: object) -> Folded:
        """Return it: it is here."""
        assert isinstance(handle, Folded)
        return handle

    def fetcher(self, handle: object) -> Callable[[], Folded]:
        """Return what returns it."""
        return partial(self.gather, handle)

    def release(self, handles: Sequence[object]) -> None:
        """Nothing holds them but the block scheduler."""

    def retire(self, error: WorkerLostError) -> bool:  # noqa: ARG002 # the one there is
        """There is no other."""
        return False

    def avoid(self, worker: str, cancelled: Callable[[], bool]) -> set[str]:  # noqa: ARG002 # it is alone
        """There is no other."""
        return set()

    def watch(self, quiet: float = math.inf) -> Watched:  # noqa: ARG002 # nobody is asked
        """The caller's process is here."""
        return Watched()

    def doing(self) -> Sequence[str]:
        """Nothing runs elsewhere."""
        return ()

    def stop(self) -> None:
        """Stop running blocks at their next leaf, and wait for them."""
        self._stopped.set()
        self._blocks.shutdown(cancel_futures=True)
        self._end_tasks()
        close_idle()  # the caller may want to write to them now

    def _end_tasks(self) -> None:
        if self._tasks is not None:
            self._tasks.shutdown(cancel_futures=True)
            self._shared.stop()
            self._tasks = None


def _settle(on_outcome: OnOutcome, task: Callable[[], Folded]) -> None:
    try:
        on_outcome(task())
    except BaseException as error:  # noqa: BLE001 # whatever it is, the block scheduler decides
        on_outcome(error)

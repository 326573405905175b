"""Counts the attempts at each task of a read, the workers that each has lost, and failures."""

from __future__ import annotations

from collections import Counter

from chunkfold.errors import DeviceError, WorkerLostError, WorkerStoppedError
from chunkfold.plural import counted
from chunkfold.running.tree_nodes import TreeNode
from chunkfold.settings import WORKER_LOSSES, worker_losses
from chunkfold.worker.block_report import Attempts

_MOST_TRIES = 8
"""Times that devices may fail at a task."""
_MORE = 4
"""Times as many losses, that a message proposes to allow."""


class AttemptCounts:
    """Counts; ends the run where a task loses worker after worker: it may be what kills them."""

    def __init__(self) -> None:
        self._most = worker_losses()
        self._losses = Counter[TreeNode]()
        self._failures: dict[TreeNode, dict[str, str]] = {}
        """For each task the workers whose devices failed at it, and why."""
        self._tries = Counter[TreeNode]()
        self._stopped: list[str] = []
        self._again = self._repeated = 0
        self._late: set[tuple[TreeNode, int]] = set()
        self._done: set[tuple[TreeNode, int]] = set()

    @property
    def attempts(self) -> Attempts:
        """Return the counts of workers removed, of tasks begun again, and of late results."""
        return Attempts(tuple(self._stopped), self._again + self._repeated, len(self._late))

    def stopped(self, worker: str) -> None:
        """Count a worker that was removed."""
        self._stopped.append(worker)

    def again(self) -> None:
        """Count a task that the run begins anew."""
        self._again += 1

    def done(self, node: TreeNode, number: int) -> None:
        """Count a block that is done; one that was done before, Dask ran anew."""
        self._repeated += (node, number) in self._done
        self._done.add((node, number))

    def late(self, node: TreeNode, number: int) -> None:
        """Count the result of an earlier attempt, once."""
        self._late.add((node, number))

    def failed(self, node: TreeNode, what: str, error: DeviceError, others: set[str]) -> bool:
        """Count a device that failed at a task; return True if its worker's did not before.

        Raises
        ------
        DeviceError
            If the devices of all `others` have failed at it, too; it names each.
        """
        known = any(error.worker in failures for failures in self._failures.values())
        own = self._failures.setdefault(node, {})
        own[error.worker] = str(error)
        self._tries[node] += 1
        if others - own.keys() and self._tries[node] < _MOST_TRIES:
            return not known
        if len(own) == 1:
            raise error
        told = "; ".join(f"{why} (worker {worker})" for worker, why in own.items())
        raise DeviceError(f"{what} failed on {len(own)} devices: {told}") from error

    def lost(self, node: TreeNode, what: str, error: WorkerStoppedError) -> None:
        """Count a worker that a task has lost, but for those that were sent away.

        Raises
        ------
        WorkerLostError
            If these are too many.
        """
        self._losses[node] += not error.planned
        losses = self._losses[node]
        if error.planned or losses < self._most:
            return
        raise WorkerLostError(
            f"{what} lost its worker {counted(losses, 'time')}, the last: {error}. Look at the "
            "worker's log for the reason, such as its memory limit; where workers come and go, as "
            f"spot instances do, allow more: --worker-losses {_MORE * losses} ({WORKER_LOSSES} in "
            "Dask's configuration)",
            error.worker,
        ) from error

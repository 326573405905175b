"""Carry a plan out: blocks in a bounded window, combines as soon as their partials are there."""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from chunkfold.backend import Backend
from chunkfold.block import Folded
from chunkfold.blocks import Block
from chunkfold.errors import (
    CancelledError,
    ClusterError,
    DeviceError,
    IncompleteError,
    WorkerLostError,
)
from chunkfold.events import BlocksCombined, Event, OnEvent, WorkerRetired
from chunkfold.planned import Plan
from chunkfold.tree import Tree

STALL_DEADLINE_S = 900.0
"""Longest time without any task ending or reporting progress, in seconds."""
UNMANNED_DEADLINE_S = 120.0
"""Longest time without any worker: a cluster may start others for those that it lost."""
_POLL_S = 0.2
_ASK_EVERY_S = 5.0
"""How often to ask whether there are workers, where nothing is heard, in seconds."""
_RETRIES = 3
"""Times that a block may find its worker without a device."""


@dataclass(frozen=True)
class _Node:
    """A place in the tree of one run of tiles; level 0 are blocks."""

    tiles: tuple[int, int]
    level: int
    number: int


@dataclass
class _Branch:
    """The partials of one run of tiles on their way to its root."""

    tree: Tree
    ready: dict[tuple[int, int], object] = field(default_factory=dict)


class Engine:
    """Executes one plan on one backend."""

    def __init__(
        self,
        plan: Plan,
        backend: Backend,
        run: str,
        emit: OnEvent,
        cancelled: Callable[[], bool],
    ) -> None:
        self._plan, self._backend, self._run = plan, backend, run
        self._emit, self._cancelled = emit, cancelled
        self._outcomes: queue.SimpleQueue[tuple[_Node, object]] = queue.SimpleQueue()
        self._waiting = deque(_with_nodes(plan.blocks))
        self._blocks = dict(self._waiting)
        self._branches = {
            tiles: _Branch(Tree(count, plan.tree.fan_in)) for tiles, count in plan.runs.items()
        }
        self._window = max(2, 2 * plan.workers * plan.threads)
        self._folding = 0
        self._tries: dict[_Node, int] = {}
        self._combining: dict[_Node, list[object]] = {}
        self._roots: dict[tuple[int, int], object] = {}
        self._heard = self._asked = self._manned = time.monotonic()

    def hear(self, event: Event) -> None:
        """Pass a worker's event on; whoever reports is alive."""
        self._heard = time.monotonic()
        self._emit(event)

    def execute(self) -> list[tuple[tuple[int, int], Folded]]:
        """Run everything; return the root of each run of tiles, in order.

        Raises
        ------
        ChunkfoldError
            Whatever ended the run.
        """
        while len(self._roots) < len(self._branches):
            if self._cancelled():
                raise CancelledError(f"run {self._run} was cancelled")
            self._fill_window()
            try:
                node, outcome = self._outcomes.get(timeout=_POLL_S)
            except queue.Empty:
                self._check_heard()
                continue
            self._heard = time.monotonic()
            self._settle(node, outcome)
        roots = [(tiles, self._backend.gather(self._roots[tiles])) for tiles in self._branches]
        self._check([folded for _, folded in roots])
        return roots

    def _fill_window(self) -> None:
        while self._waiting and self._folding + len(self._combining) < self._window:
            node, block = self._waiting.popleft()
            self._folding += 1
            self._backend.fold(self._plan.sent(block), self._done(node))

    def _check_heard(self) -> None:
        """End the run if nothing will come of it any more."""
        now = time.monotonic()
        if now - self._heard > STALL_DEADLINE_S:
            raise ClusterError(
                f"nothing was heard of run {self._run} for {STALL_DEADLINE_S:.0f} s: "
                "no task ended and no worker reported progress; "
                + ("; ".join(self._backend.doing()) or "no worker runs a task of it")
            )
        if now - max(self._heard, self._asked) < _ASK_EVERY_S:
            return
        self._asked = now
        if self._backend.manned():
            self._manned = now
        elif now - max(self._manned, self._heard) > UNMANNED_DEADLINE_S:
            raise ClusterError(
                f"run {self._run} has lost all its workers, and in {UNMANNED_DEADLINE_S:.0f} s no "
                "other came: start some, and run it again"
            )

    def _done(self, node: _Node) -> Callable[[object], None]:
        return lambda outcome: self._outcomes.put((node, outcome))

    def _settle(self, node: _Node, outcome: object) -> None:
        self._folding -= node.level == 0
        if isinstance(outcome, WorkerLostError):
            self._try_elsewhere(node, outcome)
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            self._backend.release(self._combining.pop(node, []))
            self._place(node, outcome)

    def _try_elsewhere(self, node: _Node, error: WorkerLostError) -> None:
        self._tries[node] = self._tries.get(node, 0) + 1
        if self._tries[node] > _RETRIES or not self._backend.retire(error):
            raise DeviceError(f"no worker is left that has a device: {error}") from error
        self._emit(WorkerRetired(self._run, error.worker, str(error)))
        if node.level:
            self._backend.combine(self._combining[node], self._done(node))
        else:
            self._waiting.appendleft((node, self._blocks[node]))

    def _place(self, node: _Node, handle: object) -> None:
        """Keep a partial; combine it with its siblings once all are there."""
        branch = self._branches[node.tiles]
        if node.level == branch.tree.levels:
            self._roots[node.tiles] = handle
            return
        branch.ready[node.level, node.number] = handle
        parent = _Node(node.tiles, node.level + 1, node.number // branch.tree.fan_in)
        siblings = branch.tree.children(parent.level, parent.number)
        if not all((node.level, n) in branch.ready for n in siblings):
            return
        parts = [branch.ready.pop((node.level, n)) for n in siblings]
        if len(parts) == 1:
            self._place(parent, parts[0])
            return
        self._emit(BlocksCombined(self._run, parent.level, parent.number, len(parts)))
        self._combining[parent] = parts
        self._backend.combine(parts, self._done(parent))

    def _check(self, roots: Sequence[Folded]) -> None:
        reports = [root.report for root in roots]
        seen = sum(report.elements + sum(report.skipped.values()) for report in reports)
        wanted = self._plan.layout.elements
        if seen != wanted:
            raise IncompleteError(
                f"the result of {self._plan.name} saw {seen:,} elements of {wanted:,}; "
                "this is a fault of chunkfold's: please report it"
            )


def _with_nodes(blocks: Sequence[Block]) -> list[tuple[_Node, Block]]:
    """Number blocks within their run of tiles."""
    seen: dict[tuple[int, int], int] = {}
    out = []
    for block in blocks:
        number = seen.get(block.tiles, 0)
        seen[block.tiles] = number + 1
        out.append((_Node(block.tiles, 0, number), block))
    return out

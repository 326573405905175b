"""Carry one read of a plan out: a bounded number of blocks at once, and combines above them."""

from __future__ import annotations

import contextlib
import queue
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from chunkfold.errors import (
    CancelledError,
    DeviceError,
    IncompleteError,
    WorkerLostError,
    WorkerStoppedError,
)
from chunkfold.events import BlockProgress, BlocksCombined, Event, OnEvent, WorkerRetired
from chunkfold.planning.blocks import Range, Tree
from chunkfold.planning.plan import Plan
from chunkfold.running.attempt_counts import AttemptCounts
from chunkfold.running.backend import Backend, OnOutcome, PartialsLostError
from chunkfold.running.kept_blocks import KeptBlocks
from chunkfold.running.progress_watch import POLL_S, ProgressWatch
from chunkfold.running.stragglers import Stragglers
from chunkfold.running.tree_nodes import Attempt, Branch, TreeNode, with_nodes
from chunkfold.worker.block_report import Attempts
from chunkfold.worker.fold_block import Folded

_RETRIES = 3
"""Times that a block may find its worker without a device."""


class BlockScheduler:
    """Executes one plan on one backend.

    A task has one attempt under way at a time. Where a worker is lost or stopped, the next attempt
    begins, under a number and a key of its own; what an earlier one still brings is dropped. Dask
    makes a lost partial again, unless the client had brought its parts: then its blocks begin anew.
    Where results leave as they come, `take` is given each root, by its run of tiles, as soon as it
    is there, and returns what is to be kept of it. Blocks that `kept` has are not run.
    """

    def __init__(
        self,
        plan: Plan,
        backend: Backend,
        run: str,
        emit: OnEvent,
        cancelled: Callable[[], bool],
        take: Callable[[tuple[int, int], Folded], Folded] | None = None,
        kept: KeptBlocks | None = None,
    ) -> None:
        self._take, self._kept = take, kept
        self._plan, self._backend, self._run = plan, backend, run
        self._emit, self._cancelled = emit, cancelled
        self._outcomes: queue.SimpleQueue[tuple[TreeNode, int, object]] = queue.SimpleQueue()
        self._waiting = deque(with_nodes(plan.blocks))
        self._blocks = dict(self._waiting)
        self._branches = {
            tiles: Branch(Tree(count, plan.largest_tree.fan_in))
            for tiles, count in plan.tile_ranges.items()
        }
        self._most_under_way = max(2, 2 * plan.terms.workers * plan.threads)
        self._folding = 0
        self._tries, self._numbers = dict[TreeNode, int](), dict[TreeNode, int]()
        self._of_block = {block.number: node for node, block in self._waiting}
        self._under_way: dict[TreeNode, Attempt] = {}
        self._stragglers = Stragglers()
        self._counts = AttemptCounts()
        self._combining, self._roots = dict[TreeNode, list[object]](), dict[Range, object]()
        self._progress = ProgressWatch(run, backend, emit)

    @property
    def attempts(self) -> Attempts:
        """Return the counts of tasks that were begun more than once so far."""
        return self._counts.attempts

    def hear(self, event: Event) -> None:
        """Pass a worker's event on; whoever reports is alive."""
        self._progress.hear()
        if isinstance(event, BlockProgress):
            node = self._of_block[event.block]
            if event.attempt < self._numbers.get(node, 0):
                if event.done and node not in self._stragglers.copied:
                    self._counts.late(node, event.attempt)
                return
            if event.done:
                self._counts.done(node, event.attempt)
        self._emit(event)

    def execute(self) -> list[tuple[tuple[int, int], Folded]]:
        """Run everything; return the root of each run of tiles, in order.

        Raises
        ------
        ChunkfoldError
            Whatever ended the run.
        """
        gathered: dict[Range, Folded] = {}
        while len(gathered) < len(self._branches):
            self._make_roots()
            for tiles in [one for one in self._branches if one not in gathered]:
                try:
                    gathered[tiles] = self._backend.gather(self._roots[tiles])
                except PartialsLostError:
                    del self._roots[tiles]
                    self._make_again(TreeNode(tiles, self._branches[tiles].tree.height, 0))
        self._roots.clear()  # who asked for them may let them go one by one
        roots = [(tiles, gathered[tiles]) for tiles in self._branches]
        self._check([folded for _, folded in roots])
        return roots

    def _make_roots(self) -> None:
        while len(self._roots) < len(self._branches):
            if self._cancelled():
                self._keep_ended()
                raise CancelledError(f"run {self._run} was cancelled")
            self._watch()
            self._begin_blocks()
            try:
                node, number, outcome = self._outcomes.get(timeout=POLL_S)
            except queue.Empty:
                continue
            self._progress.hear()
            self._settle(node, number, outcome)

    def _begin_blocks(self) -> None:
        while self._waiting and self._folding + len(self._combining) < self._most_under_way:
            node, block = self._waiting.popleft()
            if self._kept is not None and (folded := self._kept.load(block)) is not None:
                self._place(node, folded)
                continue
            self._folding += 1
            self._begin(node, partial(self._backend.fold, self._plan.sent(block)))

    def _begin(self, node: TreeNode, start: Callable[[int, OnOutcome], object]) -> None:
        if not node.level:
            self._stragglers.began(node, self._progress.now())
        number = self._numbers.setdefault(node, 0)
        attempt = self._under_way[node] = Attempt(number)
        # Its outcome waits in the queue until the ticket is here.
        attempt.ticket = start(number, lambda outcome: self._outcomes.put((node, number, outcome)))

    def _watch(self) -> None:
        """Look after the workers; end the run if nothing will come of it any more."""
        watched = self._progress.look(len(self._under_way))
        if watched is None:
            return
        # Who joins gets blocks, too; a cluster that adapts grows by those that wait.
        under_way = 2 * watched.workers * self._plan.threads
        self._most_under_way = max(self._most_under_way, under_way)
        for worker, reason in watched.removed.items():
            self._counts.stopped(worker)
            self._emit(WorkerRetired(self._run, worker, reason))
        self._copy_late_ones()

    def _copy_late_ones(self) -> None:
        """Run late blocks on idle workers too: the first result wins."""
        at_work = self._folding + len(self._stragglers.copied)
        idle = self._plan.terms.workers * self._plan.threads - at_work
        if self._waiting or self._plan.terms.workers < 2:
            return
        for node in self._stragglers.late(self._progress.now())[: max(0, idle)]:
            before = self._under_way[node]
            self._numbers[node] += 1
            self._counts.again()
            self._begin(node, partial(self._backend.fold, self._plan.sent(self._blocks[node])))
            self._stragglers.copy(node, before)

    def _settle(self, node: TreeNode, number: int, outcome: object) -> None:
        failed, attempt = isinstance(outcome, BaseException), self._under_way.get(node)
        if attempt is not None:
            attempt, given_up = self._stragglers.settled(node, attempt, number, failed=failed)
            self._under_way[node] = attempt
            self._backend.release(given_up)
        if attempt is None or attempt.number != number:
            if not failed:
                self._counts.late(node, number)
                self._backend.release([outcome])
            return
        del self._under_way[node]
        self._folding -= node.level == 0
        self._stragglers.ended(node, self._progress.now(), failed=failed)
        if isinstance(outcome, WorkerLostError):
            self._backend.release([attempt.ticket])
            self._try_elsewhere(node, outcome)
        elif isinstance(outcome, PartialsLostError):
            self._backend.release([attempt.ticket])
            self._combine_again(node, outcome.lost)
        elif isinstance(outcome, DeviceError) and outcome.worker:
            self._backend.release([attempt.ticket])
            others = self._backend.avoid(outcome.worker, self._cancelled)
            if self._counts.failed(node, self._called(node), outcome, others):
                self._emit(WorkerRetired(self._run, outcome.worker, str(outcome)))
            self._begin_again(node)
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            self._backend.release(self._combining.pop(node, []))
            self._keep(node, outcome)
            self._place(node, outcome)

    def _keep(self, node: TreeNode, outcome: object) -> None:
        if self._kept is not None and not node.level and not self._plan.request.staged:
            self._kept.keep(self._blocks[node], self._backend.fetcher(outcome))

    def _keep_ended(self) -> None:
        """Keep blocks that end just now, too: nobody else looks at their outcomes any more."""
        with contextlib.suppress(queue.Empty):
            while self._kept is not None:
                node, _, outcome = self._outcomes.get(timeout=POLL_S)
                if not isinstance(outcome, BaseException):
                    self._keep(node, outcome)

    def _try_elsewhere(self, node: TreeNode, error: WorkerLostError) -> None:
        if isinstance(error, WorkerStoppedError):
            self._counts.lost(node, self._called(node), error)
        else:
            self._tries[node] = self._tries.get(node, 0) + 1
            if self._tries[node] > _RETRIES or not self._backend.retire(error):
                message = f"no worker is left that has a device: {error}"
                raise WorkerLostError(message, error.worker) from error
            self._emit(WorkerRetired(self._run, error.worker, str(error)))
        self._begin_again(node)

    def _begin_again(self, node: TreeNode) -> None:
        self._numbers[node] += 1
        self._counts.again()
        if node.level:
            self._combine(node)
        else:
            self._waiting.appendleft((node, self._blocks[node]))

    def _called(self, node: TreeNode) -> str:
        what = "a combine" if node.level else f"block {self._blocks[node].number}"
        return f"{what} of {self._plan.name}"

    def _combine_again(self, node: TreeNode, lost: Sequence[object]) -> None:
        """Keep what is there of a combine's parts, and make the others again."""
        branch, parts = self._branches[node.tiles], self._combining.pop(node)
        self._numbers[node] += 1
        for number, part in zip(branch.tree.children(node.level, node.number), parts, strict=True):
            if any(part is one for one in lost):
                self._backend.release([part])
                self._make_again(TreeNode(node.tiles, node.level - 1, number))
            else:
                branch.ready[node.level - 1, number] = part

    def _make_again(self, node: TreeNode) -> None:
        """Begin what a partial was made of: that was let go of."""
        self._counts.again()
        if not node.level:
            self._numbers[node] += 1
            self._waiting.appendleft((node, self._blocks[node]))
            return
        below = self._branches[node.tiles].tree.children(node.level, node.number)
        if len(below) > 1:
            self._numbers[node] += 1
        for number in below:
            self._make_again(TreeNode(node.tiles, node.level - 1, number))

    def _combine(self, node: TreeNode) -> None:
        self._begin(node, partial(self._backend.combine, self._combining[node]))

    def _place(self, node: TreeNode, handle: object) -> None:
        """Keep a partial; combine it with its siblings once all are there."""
        branch = self._branches[node.tiles]
        if node.level == branch.tree.height:
            if self._take is not None:
                try:
                    handle = self._take(node.tiles, self._backend.gather(handle))
                except PartialsLostError:
                    self._make_again(node)
                    return
            self._roots[node.tiles] = handle
            return
        branch.ready[node.level, node.number] = handle
        parent = TreeNode(node.tiles, node.level + 1, node.number // branch.tree.fan_in)
        siblings = branch.tree.children(parent.level, parent.number)
        if not all((node.level, n) in branch.ready for n in siblings):
            return
        parts = [branch.ready.pop((node.level, n)) for n in siblings]
        if len(parts) == 1:
            self._place(parent, parts[0])
            return
        self._emit(BlocksCombined(self._run, parent.level, parent.number, len(parts)))
        self._combining[parent] = parts
        self._combine(parent)

    def _check(self, roots: Sequence[Folded]) -> None:
        reports = [root.report for root in roots]
        seen = sum(report.elements + sum(report.skipped.values()) for report in reports)
        wanted = self._plan.layout.elements - self._plan.scan.unneeded
        if seen != wanted:
            raise IncompleteError(
                f"the result of {self._plan.name} saw {seen:,} elements of {wanted:,}; this is a "
                "bug in chunkfold: please report it"
            )

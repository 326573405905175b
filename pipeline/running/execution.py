"""Carry a plan out, read by read, until there is an answer to every question."""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from chunkfold.errors import ChunkError
from chunkfold.events import Event, OnEvent, RunFinished, RunStarted
from chunkfold.kernels.accumulator.partial import Partial
from chunkfold.ledger.upkeep import join_segments
from chunkfold.planning.leaf_extremes import LeafExtremes
from chunkfold.planning.next_pass import Pending, next_plan
from chunkfold.planning.plan import Plan
from chunkfold.planning.work import Work
from chunkfold.plural import counted
from chunkfold.running.answers import (
    Answer,
    Roots,
    answer_of,
    outputs_of_nothing,
    whole_of_first,
    whole_of_tiles,
)
from chunkfold.running.backend import Backend
from chunkfold.running.block_scheduler import BlockScheduler
from chunkfold.running.kept_blocks import KeptBlocks
from chunkfold.running.ready import Ready
from chunkfold.running.remarks import warn_of_laws
from chunkfold.running.streaming import Arrays, Sink, Streaming
from chunkfold.settings import wait_seconds
from chunkfold.sources.missing_objects import NOTHING, refuse_gone
from chunkfold.worker.block_report import LedgerReport, Report, distinct_names, merge, read_again
from chunkfold.worker.fold_block import Folded

INTERRUPTED_S = 1.0
"""Seconds for which a run that was cancelled writes to its ledger."""
AT_ONCE = 64
"""Roots that are combined at a time."""


class Execution:
    """A plan that is carried out, and what came of it so far.

    It has a thread of its own; others look at its attributes meanwhile.
    """

    def __init__(
        self,
        made: Ready,
        on_event: OnEvent | None,
        sink: Sink | None = None,
    ) -> None:
        self.id, self.plan = made.run, made.plan
        self.events: list[Event] = []
        self.cancelled, self.ended = threading.Event(), threading.Event()
        self.error: BaseException | None = None
        self.answers: Mapping[str, Answer] = {}
        """By question; empty until all are there."""
        self.report = Report(0, {})
        self.ledger = LedgerReport()
        """The blocks that its ledger had, and those that were kept there."""
        self.schedulers: list[BlockScheduler] = []
        """One for each read."""
        self.seconds = 0.0
        self._backend, self._devices, self._on_event = made.backend, made.devices, on_event
        self._found: dict[str, Answer] = {}
        """By question, what reads have found so far."""
        self._extremes: LeafExtremes | None = None
        """Of leaves that were read."""
        self._summing = itertools.count()
        self._sink, self._streaming = sink, cast("Streaming | None", None)

    def begin(self) -> None:
        """Start the thread that carries the plan out."""
        threading.Thread(target=self._carry_out, name=f"chunkfold-{self.id}", daemon=True).start()

    def _carry_out(self) -> None:
        """Read the data, once or several times, until there is an answer, or an error."""
        began = time.monotonic()
        try:
            waiting = self._read(self.plan, self.id)
            while waiting:
                plan = next_plan(waiting, self._extremes)
                run = f"{self.id}-{len(self.schedulers)}"
                self._backend.listen(run)
                waiting = self._read(plan, run)
            names = self.plan.request.questions or [""]
            self.answers = {name: self._found[name] for name in names}
            if self.plan.ledger is not None:
                with contextlib.suppress(OSError):  # its files stay apart
                    join_segments(self.plan.ledger)
        except BaseException as error:  # noqa: BLE001 # handed to whoever asks for the result
            self.error = error
            _let_go(error)
        finally:
            self.seconds = time.monotonic() - began
            try:
                self._backend.stop()
                if self._streaming is not None:
                    self._streaming.stop()
                failure = str(self.error) if self.error else None
                self._emit(RunFinished(self.id, self.seconds, failure, self.report.skipped))
            finally:
                self.ended.set()

    def _read(self, plan: Plan, run: str) -> list[tuple[Plan, Pending]]:
        """Read the data once; keep results, and return what needs another read."""
        devices, to_read = distinct_names(self._devices), sum(not one.known for one in plan.blocks)
        nbytes = plan.scan.nbytes
        self._emit(RunStarted(run, plan.name, plan.result_names, to_read, nbytes, devices))
        work = Work.of(run, plan)
        sink = self._sink if plan.request.streamed else Arrays() if work.first.finishing else None
        kept = None if plan.ledger is None else KeptBlocks(plan, plan.ledger)
        streaming = None if sink is None else Streaming(plan, work, sink, kept)
        self._streaming = streaming or self._streaming
        take = None if streaming is None else streaming.take
        scheduler = BlockScheduler(
            plan, self._backend, run, self._emit, self.cancelled.is_set, take, kept
        )
        self.schedulers.append(scheduler)
        self._backend.start(work, scheduler.hear, self.cancelled.is_set)
        roots = self._executed(scheduler, kept)
        for source in plan.sources:
            source.check_unchanged()
        if work.scan.finds_extremes:
            found = (folded.extremes for _, folded in roots)
            self._extremes = LeafExtremes.merged((self._extremes, *found))
        report = merge(folded.report for _, folded in roots)
        if len(self.schedulers) > 1:
            for source in plan.sources:
                before, now = (
                    one.missed.get(source.name, NOTHING) for one in (self.report, report)
                )
                refuse_gone(source, before, now)
            report = read_again(self.report, report)
        self.report = report
        if plan is self.plan:
            warn_of_laws(self.report.laws)
        others = plan.all_plans[1:]
        wholes = [*self._combined_beside(others, roots)]
        if streaming is None:
            wholes.insert(0, (plan, whole_of_first(plan, roots)))
        else:
            self._found[plan.request.question] = self._streamed(streaming)
        return self._answered(plan, wholes)

    def _executed(self, scheduler: BlockScheduler, kept: KeptBlocks | None) -> Roots:
        """Run a read's blocks; however that ends, write partials of those that ended."""
        if kept is None:
            return scheduler.execute()
        try:
            roots = scheduler.execute()
        except BaseException as error:
            self._close(kept)
            if kept.resumes:
                error.add_note(
                    f"finished blocks are kept in {kept.name}: the same reduction with this ledger "
                    "goes on from there"
                )
            raise
        self._close(kept)
        return roots

    def _close(self, kept: KeptBlocks) -> None:
        interrupted = self.cancelled.is_set()
        kept.close(INTERRUPTED_S if interrupted else wait_seconds("chunkfold.close"))
        self.ledger += kept.report

    def _combined_beside(
        self, others: Sequence[Plan], roots: Roots
    ) -> Iterator[tuple[Plan, Partial]]:
        """Combine what blocks left for the other questions; yield each with all its outputs."""
        left = [Folded((), Report(0, {}), secondary=folded.secondary) for _, folded in roots]
        together: Sequence[Mapping[int, Partial]] = [{} for _ in others]
        if others and left:
            together = combined(self._backend, left, self._summing).secondary
        each = zip(others, together, strict=True)
        return ((one, whole_of_tiles(one, tiles)) for one, tiles in each if not one.request.unasked)

    def _answered(
        self, plan: Plan, wholes: Sequence[tuple[Plan, Partial]]
    ) -> list[tuple[Plan, Pending]]:
        """Keep the results of each question that was read for; return what needs another read."""
        waiting = []
        for one, whole in wholes:
            if plan is self.plan:
                self._refuse_outputs_of_nothing(one, outputs_of_nothing(whole))
            name = one.request.question
            before = self._found.get(name)
            answer, pending = answer_of(before.plan if before else one, one, whole)
            self._found[name] = before.with_more(answer) if before else answer
            if pending:
                waiting.append((one, pending))
        return waiting

    def _streamed(self, streaming: Streaming) -> Answer:
        """Wait until all results have left; return what stands for them."""
        values = streaming.end()
        self._refuse_outputs_of_nothing(self.plan, streaming.nothing)
        return Answer(self.plan, dict(values), streaming.nan)

    def _refuse_outputs_of_nothing(self, plan: Plan, nothing: int) -> None:
        """Refuse results that have no value since all of their chunks were left out."""
        if plan.grouping is not None:  # accumulators of groups count their own
            return
        nothing = nothing if self.report.skipped else 0
        names = [s.name for s in plan.bound.statistics if s.needs_elements]
        if nothing and names:
            asked = f"{plan.request.question}: " if plan.request.question else ""
            raise ChunkError(
                f"{asked}{', '.join(names)} of {plan.name} have no value in "
                f"{counted(nothing, 'output')}: all their chunks were skipped "
                f"({next(iter(self.report.skipped))})"
            )

    def _emit(self, event: Event) -> None:
        self.events.append(event)
        if self._on_event is None:
            return
        try:
            self._on_event(event)
        except Exception as error:  # noqa: BLE001 # a reduction is worth more than its audience
            self._on_event = None
            message = f"on_event is not called any more: it raised {error!r} for {event!r}"
            warnings.warn(message, RuntimeWarning, stacklevel=1)


def _let_go(error: BaseException | None) -> None:
    """Clear the frames of an error and its causes: whoever keeps it kept buffers and open files."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def combined(backend: Backend, parts: Sequence[Folded], numbers: Iterator[int]) -> Folded:
    """Combine roots where combines run, and wait for what comes of it.

    Each combine takes one of the `numbers`, which no other of the run has.
    """
    while len(parts) > 1:
        parts = [
            _one(backend, parts[n : n + AT_ONCE], numbers) for n in range(0, len(parts), AT_ONCE)
        ]
    return parts[0]


def _one(backend: Backend, parts: Sequence[Folded], numbers: Iterator[int]) -> Folded:
    if len(parts) == 1:
        return parts[0]
    outcomes: queue.SimpleQueue[object] = queue.SimpleQueue()
    backend.combine(parts, next(numbers), outcomes.put)
    outcome = outcomes.get(timeout=wait_seconds("chunkfold.run.stall"))
    if isinstance(outcome, BaseException):
        raise outcome
    return backend.gather(outcome)

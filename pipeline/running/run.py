"""A run: a plan being carried out in a thread of its own."""

from __future__ import annotations

import itertools
import queue
import threading
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np

from chunkfold.bad_chunks import Skipped
from chunkfold.errors import ChunkError, LawsWarning, MissingWarning
from chunkfold.events import Event, OnEvent, RunFinished, RunStarted
from chunkfold.kernels import Device
from chunkfold.kernels.accumulator.partial import Partial, zero_partial
from chunkfold.planning.further import Pending, further_plan
from chunkfold.planning.nans import since_elements_are
from chunkfold.planning.plan import Plan
from chunkfold.planning.work import Work
from chunkfold.results.of_xarray import OfXarray
from chunkfold.results.result import Result
from chunkfold.results.results import Results, in_order
from chunkfold.running.backend import Backend
from chunkfold.running.engine import Engine
from chunkfold.running.streaming import Sink, Streaming
from chunkfold.settings import wait_seconds
from chunkfold.stores.requests import Requests
from chunkfold.worker.finishing import Finishing
from chunkfold.worker.fold_block import Folded
from chunkfold.worker.report import (
    Attempts,
    DeviceReport,
    Report,
    merge,
    read_again,
    told_apart,
)

_TOGETHER = 64
"""Partials of all outputs that are combined at a time."""


class Run:
    """A reduction under way; made by `submit`."""

    def __init__(
        self,
        run: str,
        plan: Plan,
        backend: Backend,
        devices: Sequence[Device],
        on_event: OnEvent | None,
        sink: Sink | None = None,
    ) -> None:
        self.id = run
        self.plan = plan
        self.events: list[Event] = []
        """What happened so far; grows until the run has ended."""
        self._backend, self._devices, self._on_event = backend, devices, on_event
        self._report = Report(0, {})
        self._engines: list[Engine] = []
        """One for each read."""
        self._cancelled = threading.Event()
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._values: Mapping[str, Any] = {}
        self._summary: Mapping[str, Any] = {}
        self._summing = itertools.count()
        self._nan: dict[str, bool | None] = {}
        self._seconds = 0.0
        self._sink, self._streaming = sink, cast("Streaming | None", None)
        threading.Thread(target=self._carry_out, name=f"chunkfold-{self.id}", daemon=True).start()

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result, as `chunkfold.reduce` returns it without `labels`.

        Interrupted (Ctrl-C), the run is cancelled.

        Raises
        ------
        TimeoutError
            If it is not there after `timeout` seconds; the run goes on.
        ChunkfoldError
            Whatever ended the run.
        """
        self._wait(timeout)
        found = self._results
        if isinstance(found.labels, OfXarray):
            return self._only({op: found.labels.as_held(one) for op, one in found.items()})
        return self._only(self._values if self.plan.grouping is None else found)

    def labelled(self, timeout: float | None = None) -> Result | Results:
        """Wait for the result, and return it with its labels; several by op; otherwise as `result`.

        Raises
        ------
        TimeoutError
            If it is not there after `timeout` seconds; the run goes on.
        ChunkfoldError
            Whatever ended the run.
        """
        self._wait(timeout)
        return cast("Result | Results", self._only(self._results))

    def _only(self, results: Mapping[str, Any]) -> Any:
        return next(iter(results.values())) if self.plan.options.single else results

    def _wait(self, timeout: float | None) -> None:
        try:
            if not self._ended.wait(timeout):
                raise TimeoutError(f"run {self.id} has not ended after {timeout} s")
        except KeyboardInterrupt:
            self.cancel()
            self._ended.wait(30)
            raise
        if self._error is not None:
            raise self._error

    def cancel(self) -> None:
        """End the run: queued blocks are dropped, running ones end at their next leaf."""
        self._cancelled.set()

    def done(self) -> bool:
        """Whether the run has ended."""
        return self._ended.is_set()

    @property
    def values(self) -> Mapping[str, Any]:
        """Results by name; empty until they are there."""
        return self._values

    @property
    def results(self) -> Results:
        """Results by name, with their labels; waits for them as `result` does."""
        self._wait(None)
        return self._results

    @cached_property
    def _results(self) -> Results:
        return Results(self.plan, self._values)

    @property
    def summary(self) -> Mapping[str, Any]:
        """Results of all elements, of what was asked of them beside; empty until they are there."""
        return self._summary

    @property
    def groups(self) -> np.ndarray | Mapping[str, np.ndarray] | None:
        """Labels of the groups, in the order of the results; None if there are no groups.

        Of several labels those of each, by the name of its axis.
        """
        return None if self.plan.grouping is None else self.plan.grouping.groups

    @property
    def seconds(self) -> float:
        """How long the run took; 0 until it has ended."""
        return self._seconds

    @property
    def profile(self) -> Mapping[str, DeviceReport]:
        """What each device did, by its identity; empty until the run has a result."""
        return self._report.devices

    @property
    def skipped(self) -> Skipped:
        """Elements left out for each bad chunk (`on_bad_chunk="skip"`)."""
        return self._report.skipped

    @property
    def missing(self) -> Mapping[str, tuple[int, int]]:
        """Of each input how many of its selected chunks, or shards, are not stored, of how many.

        Where the store can be listed as planned; else those that were asked for and not there.
        """
        return self.plan.found_missing(self._report.missed)

    @property
    def requests(self) -> Requests:
        """What workers asked servers for, and how often anew."""
        return self._report.requests

    @property
    def attempts(self) -> Attempts:
        """What was begun more than once, since workers were lost or stopped."""
        return sum((engine.attempts for engine in self._engines), Attempts())

    def remarks(self, flag: str = "skipna=True") -> Iterator[str]:
        """Say what results do not show: see `Plan.remarks`, and where NaN comes of NaN."""
        yield from self.plan.remarks(self.missing)
        if asked := self.requests.waits:
            yield (
                f"a server asked to be left alone {asked} time(s), for "
                f"{self.requests.longest_wait_s:.0f} s at most (Retry-After), and was"
            )
        for why, since in ((True, "since elements are"), (None, "perhaps since elements are")):
            names = ", ".join(name for name, of_nan in self._nan.items() if of_nan is why)
            if names:
                yield f"there is NaN in {names}, {since}: {flag} takes those for absent"

    def __repr__(self) -> str:
        state = "running" if not self.done() else "failed" if self._error else "done"
        return f"<Run {self.id} of {', '.join(self.plan.ops)}: {state}>"

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

    def _carry_out(self) -> None:
        began = time.monotonic()
        try:
            plan, run = self.plan, self.id
            found, pending = self._read(plan, run)
            while pending:
                plan, run = further_plan(plan, pending), f"{self.id}-{len(self._engines)}"
                self._backend.listen(run)
                more, pending = self._read(plan, run)
                found |= more
            self._values = {name: found[name] for name in self.plan.ops if name in found}
        except BaseException as error:  # noqa: BLE001 # handed to whoever asks for the result
            self._error = error
            _let_go(error)
        finally:
            self._seconds = time.monotonic() - began
            try:
                self._backend.stop()
                if self._streaming is not None:
                    self._streaming.stop()
                failure = str(self._error) if self._error else None
                self._emit(RunFinished(self.id, self._seconds, failure, self.skipped))
            finally:
                self._ended.set()

    def _read(self, plan: Plan, run: str) -> tuple[dict[str, Any], Pending]:
        """Read the data once; return results, and what needs another read."""
        devices = told_apart(self._devices)
        self._emit(RunStarted(run, plan.name, plan.ops, len(plan.blocks), plan.nbytes, devices))
        work = Work.of(run, plan)
        streaming = None if self._sink is None else Streaming(plan, work, self._sink)
        self._streaming = streaming
        take = None if streaming is None else streaming.take
        engine = Engine(plan, self._backend, run, self._emit, self._cancelled.is_set, take)
        self._engines.append(engine)
        self._backend.start(work, engine.hear, self._cancelled.is_set)
        roots = engine.execute()
        for source in plan.sources:
            source.check_unchanged()
        report = merge(folded.report for _, folded in roots)
        self._report = report if len(self._engines) == 1 else read_again(self._report, report)
        if plan is self.plan:
            self._warn()
        if streaming is None:
            return self._results_of(plan, _whole(plan, roots))
        self._summary = self._summarised([folded for _, folded in roots])
        return self._streamed(streaming), []

    def _warn(self) -> None:
        """Say what was found out about laws, and about chunks."""
        self._warn_of_laws()
        if self._report.missed:
            unlisted = {name: self.missing[name] for name in self._report.missed}
            for told in self.plan.remarks(unlisted):
                warnings.warn(told, MissingWarning, stacklevel=1)

    def _warn_of_laws(self) -> None:
        """Say which monoids' laws were tried in vain: what changes nothing proves nothing."""
        for name, moved in self._report.laws.items():
            if not moved:
                message = (
                    f"monoid {name!r}: it is not shown that its op commutes and associates: no "
                    "element that was tried, of the data or near the numbers that it names, "
                    "changes its accumulator"
                )
                warnings.warn(message, LawsWarning, stacklevel=1)

    def _streamed(self, streaming: Streaming) -> dict[str, Any]:
        """Wait until all results have left; return what stands for them."""
        values = streaming.end()
        self._nan = streaming.nan
        self._refuse_outputs_of_nothing(streaming.nothing)
        return dict(values)

    def _summarised(self, roots: Sequence[Folded]) -> Mapping[str, Any]:
        """Finish what was folded of all elements."""
        asked = self.plan.request.of_all
        parts = [Folded(root.partials, Report(0, {})) for root in roots if root.partials]
        if asked is None:
            return {}
        bound = asked.bound(fp64=self.plan.terms.fp64)
        if not parts:
            nothing = zero_partial(bound.accumulator, 1)
            parts = [Folded((nothing,), Report(0, {}))]
        while len(parts) > 1:
            parts = [
                self._combined(parts[n : n + _TOGETHER]) for n in range(0, len(parts), _TOGETHER)
            ]
        layout, (partial,) = self.plan.layout, parts[0].partials
        axes = tuple(range(len(layout.shape)))
        return {one.name: one.finish(partial, layout.shape, axes)[0] for one in bound.statistics}

    def _combined(self, parts: Sequence[Folded]) -> Folded:
        """Combine partials where combines run, and wait for what comes of it."""
        if len(parts) == 1:
            return parts[0]
        outcomes: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._backend.combine(parts, next(self._summing), outcomes.put)
        outcome = outcomes.get(timeout=wait_seconds("chunkfold.run.stall"))
        if isinstance(outcome, BaseException):
            raise outcome
        return self._backend.gather(outcome)

    def _results_of(self, plan: Plan, whole: Partial) -> tuple[dict[str, Any], Pending]:
        """Finish all outputs at once, but for what needs another read."""
        finishing = Finishing.of(plan)
        everything, layout = finishing.all_outputs, plan.layout
        self._refuse_outputs_of_nothing(int(np.sum(whole.count == 0)))
        results, pending = {}, []
        for statistic in plan.bound.statistics:
            more = statistic.further(whole, layout.by_window, layout.reduced_by_window)
            if more is not None:
                pending.append((statistic.monoid, more))
                continue
            done = finishing.finished(statistic, whole)
            grouped = plan.grouping is not None
            self._nan[statistic.name] = since_elements_are(statistic, whole, done, grouped=grouped)
            result = in_order(self.plan, finishing.shaped(done, everything))
            results[statistic.name] = result[()] if result.ndim == 0 else result
        return results, pending

    def _refuse_outputs_of_nothing(self, nothing: int) -> None:
        """Refuse results that have no value since all of their chunks were left out."""
        if self.plan.grouping is not None:  # accumulators of groups count their own
            return
        nothing = nothing if self.skipped else 0
        names = [s.name for s in self.plan.bound.statistics if s.needs_elements]
        if nothing and names:
            raise ChunkError(
                f"{', '.join(names)} of {nothing:,} output(s) of {self.plan.name} have no value: "
                f"every chunk of theirs was skipped ({next(iter(self.skipped))})"
            )


def _whole(plan: Plan, roots: list[tuple[tuple[int, int], Folded]]) -> Partial:
    """Put every root where it belongs among the outputs."""
    finishing = Finishing.of(plan)
    tiles = (
        (first + offset, partial)
        for (first, _), folded in roots
        for offset, partial in enumerate(folded.partials)
    )
    return finishing.whole(finishing.all_outputs, tiles)


def _let_go(error: BaseException | None) -> None:
    """Clear the frames of an error and its causes: whoever keeps it kept buffers and open files."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__

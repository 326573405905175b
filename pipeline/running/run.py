"""A run: a plan being carried out in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from html import escape
from typing import Any

import numpy as np

from chunkfold.bad_chunks import Skipped
from chunkfold.errors import PlanError
from chunkfold.plural import counted
from chunkfold.printable import printable
from chunkfold.results.results import Results
from chunkfold.running.answers import Answer
from chunkfold.running.execution import Execution
from chunkfold.running.remarks import (
    memory_warnings,
    nan_warnings,
    skipped_warnings,
    wait_warnings,
    warn_user,
)
from chunkfold.running.tally import Tally
from chunkfold.stores.requests import Requests
from chunkfold.tracebacks import traceback_cut
from chunkfold.units import size_text
from chunkfold.worker.block_report import Attempts, DeviceReport, LedgerReport


class Run:
    """A reduction under way; made by `submit`."""

    def __init__(self, execution: Execution) -> None:
        self.id = execution.id
        self.plan = execution.plan
        self.events = execution.events
        """What happened so far; grows until the run has ended."""
        self._execution, self._warned = execution, False

    @traceback_cut
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
        return self._each(lambda answer: answer.given)

    @traceback_cut
    def labelled(self, timeout: float | None = None) -> Any:
        """Wait for the result, and return it with its labels; several by op; otherwise as `result`.

        Of several questions a mapping of that by their names.

        Raises
        ------
        TimeoutError
            If it is not there after `timeout` seconds; the run goes on.
        ChunkfoldError
            Whatever ended the run.
        """
        self._wait(timeout)
        return self._each(lambda answer: answer.labelled)

    def _each(self, of: Callable[[Answer], Any]) -> Any:
        """Return something of the one answer; or of each, by the name of its question."""
        if not self.plan.request.questions:
            return of(self._execution.answers[""])
        return {name: of(answer) for name, answer in self._execution.answers.items()}

    def _wait(self, timeout: float | None) -> None:
        try:
            if not self._execution.ended.wait(timeout):
                raise TimeoutError(f"run {self.id} has not ended after {timeout} s")
        except KeyboardInterrupt as interrupt:
            self.cancel()
            self._execution.ended.wait(30)
            for note in getattr(self._execution.error, "__notes__", ()):
                interrupt.add_note(note)
            raise
        if self._execution.error is not None:
            raise self._execution.error
        self._warn()

    def cancel(self) -> None:
        """End the run: queued blocks are dropped, running ones end at their next leaf."""
        self._execution.cancelled.set()

    def done(self) -> bool:
        """Return True if the run has ended."""
        return self._execution.ended.is_set()

    @property
    def values(self) -> Mapping[str, Any]:
        """Results by name, of several questions as "question/op"; empty until all are there."""
        return {
            f"{name}/{op}" if name else op: value
            for name, answer in self._execution.answers.items()
            for op, value in answer.values.items()
        }

    @property
    @traceback_cut
    def answers(self) -> Mapping[str, Answer]:
        """Results of each question, by its name; "" if it is one. Waits as `result` does."""
        self._wait(None)
        return self._execution.answers

    @property
    @traceback_cut
    def results(self) -> Results:
        """Results by name, with their labels; waits as `result` does.

        Raises
        ------
        PlanError
            If there are several questions: `answers` has the results of each.
        """
        if self.plan.request.questions:
            raise PlanError(
                "Run.results has one question's results, and the run has several questions: "
                f"{', '.join(self.plan.request.questions)}; Run.answers has each"
            )
        return self.answers[""].results

    @property
    def groups(self) -> np.ndarray | Mapping[str, np.ndarray] | None:
        """Labels of the groups, in the order of the results; None if there are no groups.

        Of several labels those of each, by the name of its axis.
        """
        return None if self.plan.grouping is None else self.plan.grouping.groups

    @property
    def seconds(self) -> float:
        """Return the duration of the run in seconds; 0 until it has ended."""
        return self._execution.seconds

    @property
    def reads(self) -> int:
        """Return the number of reads of the data so far: quantiles may take several."""
        return len(self._execution.schedulers)

    @property
    def profile(self) -> Mapping[str, DeviceReport]:
        """Return the work of each device, by its identity; empty until the run has a result."""
        return self._execution.report.devices

    @property
    def skipped(self) -> Skipped:
        """Elements left out for each bad chunk (`on_bad_chunk="skip"`)."""
        return self._execution.report.skipped

    @property
    def missing(self) -> Mapping[str, tuple[int, int]]:
        """Return for each input the counts of missing and of all selected chunks, or shards.

        A listing gives the counts if the store has one; else requests that found nothing do.
        """
        return self.plan.found_missing(self._execution.report.missed)

    @property
    def requests(self) -> Requests:
        """Return the counts of requests that workers made, and of repeated ones."""
        return self._execution.report.requests

    @property
    def attempts(self) -> Attempts:
        """Return the counts of tasks begun more than once, because workers were lost or stopped."""
        return sum((scheduler.attempts for scheduler in self._execution.schedulers), Attempts())

    @property
    def ledger(self) -> LedgerReport:
        """Return the counts of blocks that the ledger had, and of those that were kept there."""
        return self._execution.ledger

    def remarks(self, flag: str = "skipna=True") -> Iterator[str]:
        """Say what results do not show: see `Plan.remarks`, and where NaN comes of NaN.

        `flag` is how the option is written that leaves NaN out.
        """
        return map(str, self._remarks(flag))

    def _remarks(self, flag: str) -> Iterator[Warning]:
        yield from self.plan.unshown(self.missing, self._execution.report.missed)
        yield from wait_warnings(self.requests)
        yield from memory_warnings(self._execution.report.devices.values())
        yield from nan_warnings(self._execution.answers, flag)

    def _warn(self) -> None:
        """Warn of what results do not show, once."""
        if not self._warned:
            self._warned = True
            skipped = skipped_warnings(self.skipped, self.plan.layout.elements)
            warn_user([*self._remarks("skipna=True"), *skipped])

    @property
    def _state(self) -> str:
        return "running" if not self.done() else "failed" if self._execution.error else "done"

    def __repr__(self) -> str:
        return f"<Run {self.id} of {', '.join(self.plan.result_names)}: {self._state}>"

    def _repr_html_(self) -> str:
        """Show how far it is, and what devices did, as a notebook does."""
        tally = Tally()
        for event in list(self.events):
            tally.hear(event)
        whole = 1 if tally.run is None else tally.run.nbytes
        error = self._execution.error
        lines = [f"{size_text(tally.nbytes)} of {size_text(whole)}"] if not self.done() else []
        lines += [] if error is None else [f"{type(error).__name__}: {error}"]
        lines += [f"{self.seconds:.2f} s"] if self.done() else []
        lines += [
            f"{one.device.spec}: {counted(one.blocks, 'block')}, {size_text(one.nbytes)}"
            for one in self.profile.values()
        ]
        far = 1.0 if self.done() and error is None else tally.nbytes / max(1, whole)
        names = ", ".join(self.plan.result_names)
        told = f"of {names} of {self.plan.name}: {self._state}"
        return (
            f"<div><b>chunkfold.Run</b> {escape(printable(told))}<br>"
            f'<progress value="{far:.3f}"></progress><br>'
            f"{'<br>'.join(escape(printable(line)) for line in lines)}</div>"
        )

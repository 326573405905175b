"""Carry a job out: what can be known to be wrong comes first, then the work, then its output."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import dask
from distributed import Client

from chunkfold.api import plan, submit
from chunkfold.bad_chunks import Skipped, total_skipped
from chunkfold.errors import JobError, LedgerError, LedgerWarning, PlanError, TimeLimitError
from chunkfold.events import OnEvent
from chunkfold.ledger.ledger import Ledger
from chunkfold.ledger.upkeep import prune
from chunkfold.outputs.output_places import refuse_origins, refuse_overlaps
from chunkfold.outputs.outputs import check_output, check_writable
from chunkfold.planning.options import Options
from chunkfold.planning.plan import Plan
from chunkfold.planning.request import Request
from chunkfold.planning.resolve import resolve
from chunkfold.printable import printable
from chunkfold.results.results import Results
from chunkfold.running.run import Run
from chunkfold.settings import WORKER_LOSSES, with_targets, worker_losses
from chunkfold.sources.source import Source
from chunkfold.workflows.files.manifest import Record, recorded
from chunkfold.workflows.files.names import refuse_taken_names
from chunkfold.workflows.files.writing import check_writing, write_results
from chunkfold.workflows.job.clusters import check_cluster, job_client, planned_workers
from chunkfold.workflows.job.lock import locked
from chunkfold.workflows.job.schema import Job
from chunkfold.workflows.job.sources import job_sources
from chunkfold.workflows.report.page import check_report, reported


@dataclass(frozen=True)
class Outcome:
    """The results of a job, and the record of its runs."""

    reduced: Mapping[str, Results]
    """Results by the names that the output gives their sources."""
    record: Record
    """The record that the manifest was made from."""

    @property
    def skipped(self) -> Skipped:
        """Elements left out for each bad chunk."""
        return total_skipped(run.skipped for run in self.record.runs.values())

    @property
    def elements(self) -> int:
        """Number of elements of all sources."""
        return sum(run.plan.layout.elements for run in self.record.runs.values())


def manifest_path(job: Job) -> str:
    """Return where a job's manifest goes."""
    return job.output.manifest or f"{job.output.path.rstrip('/')}.manifest.json"


def check_job(job: Job, left_out: dict[str, str] | None = None) -> dict[str, Request]:
    """Find out everything that can be known to be wrong; return what is asked, by arrays' names.

    Why arrays are left out goes to `left_out`, by their names.

    Raises
    ------
    ChunkfoldError
        If anything is.
    """
    stores = with_targets(None, job.allow_targets)
    sources = job_sources(job.sources, job.exclude or (), job.output.path, left_out, stores)
    options, wrong, requests = job.options, [], {}
    for key, source in sources.items():
        try:
            requests[key] = resolve(source, options)
        except PlanError as error:
            name = "" if source.name in str(error) else f"{source.name}: "
            wrong.append(f"{name}{error}; or omit it: exclude = [{key!r}]")
    if wrong:
        refused = PlanError("\n".join(map(printable, wrong)))
        refused.several = True  # type: ignore[attr-defined] # who prints it keeps its lines
        raise refused
    beside = (job.output.path, manifest_path(job), job.output.report)
    for out in beside:
        for request in requests.values():
            refuse_origins(out, request.origins)
    refuse_overlaps(*beside, job.limits.ledger)
    check_cluster(job.cluster)
    for name, one in ({"": options} if isinstance(options, Options) else options).items():
        _refuse_clashes([name] if name else one.names, sources)
        check_writing(job.output.path, one, overwrite=job.output.overwrite)
    for request in requests.values():
        for each in request.all_requests:
            refuse_taken_names(job.output.path, each)
    check_output(manifest_path(job), (".json",), overwrite=True)
    if job.output.report is not None:
        check_report(job.output.report)
    return requests


def _refuse_clashes(ops: Sequence[str], sources: Mapping[str, Source]) -> None:
    """Refuse results that would have the same path in a Zarr as those of another source."""
    below: dict[str, str] = {}
    for key in sources:
        parts = key.split("/")
        for depth in range(1, len(parts) + 1):
            below.setdefault("/".join(parts[:depth]), key)
    for key in sources:
        for op in ops:
            other = below.get(f"{key}/{op}")
            if other is not None:
                raise JobError(
                    f"the {op} of {key!r} and results of {other!r} would have the same path; "
                    "name the folder above them with a pattern, or run two jobs"
                )


def plan_job(job: Job) -> dict[str, Plan]:
    """Return what would run, array by array; without a cluster, or reading data.

    Raises
    ------
    ChunkfoldError
        If anything is wrong.
    """
    terms = planned_workers(job.cluster)
    return {key: plan(request, **terms) for key, request in check_job(job).items()}


def run_job(
    job: Job,
    *,
    on_event: OnEvent | None = None,
    on_client: Callable[[Client], None] | None = None,
) -> Outcome:
    """Carry a job out, write its output, and its manifest however it ends.

    Parameters
    ----------
    on_event
        Called with each event of its runs, one run after another.
    on_client
        Called with the cluster's client before they start.

    Raises
    ------
    ChunkfoldError
        If anything is wrong or fails; BusyError if the job is under way already. No output is then
        written.
    """
    # Before the lock too: its folder may not be there.
    check_writable(job.output.path, overwrite=True)
    with locked(job.output.path):
        record = Record(job.name, job.model_dump(mode="json", by_alias=True))
        requests = check_job(job, record.left_out)
        with reported(record, job.output.report), recorded(record, manifest_path(job)):
            reduced = {}
            losses = job.limits.worker_losses or worker_losses()
            with (
                dask.config.set({WORKER_LOSSES: losses}),
                job_client(job.cluster) as client,
            ):
                if on_client is not None:
                    on_client(client)
                limit = job.limits.time
                deadline = None if limit is None else time.monotonic() + limit
                for key, request in requests.items():
                    run = submit(request, client=client, on_event=on_event)
                    record.runs[key] = run
                    _wait(run, job, deadline)
                    for name, answer in run.answers.items():
                        reduced[f"{key}/{name}" if name else key] = answer.results
                # Before the cluster is closed, which takes longer than a small job.
                write_results(job.output.path, reduced, overwrite=job.output.overwrite)
                _prune(job)
    return Outcome(reduced, record)


def _prune(job: Job) -> None:
    """Remove old files of the job's ledger; results are there, so that a failure is a warning."""
    if job.limits.ledger is None or job.limits.ledger_keep is None:
        return
    try:
        ledger = Ledger.at(job.limits.ledger, trusted=job.limits.trust_ledger)
        prune(ledger, older_than=timedelta(seconds=job.limits.ledger_keep))
    except (LedgerError, OSError) as error:
        message = f"old files of the ledger {job.limits.ledger} are not removed: {error}"
        warnings.warn(message, LedgerWarning, stacklevel=1)


def _wait(run: Run, job: Job, deadline: float | None) -> None:
    left = None if deadline is None else max(0.0, deadline - time.monotonic())
    try:
        run.result(left)
    except TimeoutError:
        run.cancel()
        raise TimeLimitError(
            f"job {job.name} took longer than limits.time, {job.limits.time:g} s; "
            f"it was at {run.plan.name}"
        ) from None

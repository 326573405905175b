"""`chunkfold run`: carry a job file out."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from distributed import Client

from chunkfold.errors import RemarkWarning
from chunkfold.results.density import step_of
from chunkfold.sources.source import Source
from chunkfold.workflows.as_json import json_text
from chunkfold.workflows.cli import EXIT_SKIPPED, common_options
from chunkfold.workflows.job.loading import load_job
from chunkfold.workflows.job.running import Outcome, manifest_path, plan_job, run_job
from chunkfold.workflows.job.schema import Job
from chunkfold.workflows.terminal.consoles import err, lines, out
from chunkfold.workflows.terminal.progress import run_progress
from chunkfold.workflows.terminal.style import (
    is_bins,
    ledger_text,
    print_results,
    read_text,
    tell_skipped,
)

_SHOWN = 4
"""Sources whose groups are named."""


def _print_schema(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(json_text(Job.model_json_schema(), indent=2))
        ctx.exit()


@click.command()
@click.argument("job_file", metavar="JOB.toml")
@common_options.stores
@common_options.worker_losses
@click.option("--check", is_flag=True, help="Print the plan and run nothing.")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a key, in place of the file's value: limits.time='2 h'. May be repeated.",
)
@common_options.report
@common_options.overwrite
@common_options.as_json
@common_options.quiet
@common_options.json_lines
@click.option(
    "--schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_schema,
    help="Print the JSON Schema of job files, for editors.",
)
def run_command(
    job_file: str,
    overrides: tuple[str, ...],
    report: str | None,
    *,
    check: bool,
    overwrite: bool,
    as_json: bool,
    quiet: bool,
    json_lines: bool,
) -> None:
    """Carry out the job file JOB.toml.

    It names sources, reductions, workers, limits and outputs (docs/jobs.md). A manifest next to the
    output describes the run. Only one run of a job works at a time.

    \b
    Examples:
      chunkfold run nightly.toml --check
      chunkfold run nightly.toml --set output.path=/results/today.zarr --overwrite
      DATE=2026-11-20 chunkfold run nightly.toml --quiet
      chunkfold run --schema > job.schema.json
    """
    silent, quiet = quiet, quiet or json_lines
    job = load_job(job_file, _overrides(overrides, report, overwrite=overwrite))
    if check:
        for key, plan in plan_job(job).items():
            out.print(key, markup=False)
            out.print(lines(f"{plan}\n"))
        return

    warnings.simplefilter("ignore", RemarkWarning)  # remarks are printed for each source

    def tell(client: Client) -> None:
        common_options.tell_dashboard(client, quiet=quiet)

    with run_progress(err, quiet=quiet, json_lines=json_lines) as watch:
        outcome = run_job(job, on_event=watch, on_client=tell)
    if as_json:
        click.echo(json_text(outcome.record.manifest))
    elif not silent:
        _print(outcome)
    _tell_packed(job, (one.source for one in outcome.reduced.values()), quiet=quiet)
    if not quiet:
        _tell_written(job, outcome)
    if outcome.skipped and not json_lines:
        tell_skipped(outcome.skipped, outcome.elements)
    if outcome.skipped or outcome.record.left_out:
        click.get_current_context().exit(EXIT_SKIPPED)


def _tell_packed(job: Job, sources: Iterable[Source], *, quiet: bool) -> None:
    unpacks = all(one.mask_and_scale for one in job.asked.values())
    common_options.tell_packed(
        sources, "mask_and_scale = true", mask_and_scale=unpacks, quiet=quiet
    )


def _tell_written(job: Job, outcome: Outcome) -> None:
    for name, run in outcome.record.runs.items():
        ledger = [] if run.plan.ledger is None else [ledger_text(run)]
        for told in (*run.remarks("reduce.skipna = true"), *ledger, read_text(run)):
            err.print(f"{name}: {told}", markup=False, soft_wrap=True)
    err.print(
        f"wrote {job.output.path}{_groups(job, outcome)} and {manifest_path(job)}", markup=False
    )


def _groups(job: Job, outcome: Outcome) -> str:
    """Name the groups of a Zarr or a NetCDF file, one for each source."""
    if not job.output.path.endswith((".zarr", ".nc")):
        return ""
    names = [*outcome.record.runs]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f" ({'group' if len(names) == 1 else 'groups'} {', '.join(names[:_SHOWN])}{more})"


def _print(outcome: Outcome) -> None:
    for key, one in outcome.reduced.items():
        out.print(key, markup=False, style="bold")
        short = {name: value for name, value in one.found.items() if _is_short(value)}
        print_results(short, one.plan.layout.elements, step_of(one.plan))
        for name in [name for name in one.found if name not in short]:
            value = one.found[name]
            out.print(f"{name} {value.dtype} {value.shape}: in the output", markup=False)


def _is_short(value: Any) -> bool:
    return np.ndim(value) == 0 or is_bins(value)


def _overrides(given: Sequence[str], report: str | None, *, overwrite: bool) -> list[str]:
    """Return what comes before the file's own words; options come before --set."""
    more = ["output.overwrite=true"] if overwrite else []
    if report is not None:
        more.append(f"output.report={json.dumps(str(Path(report).resolve()))}")
    return [*given, *more]

"""`chunkfold reduce`: one or several statistics of an array, in one read."""

from __future__ import annotations

import warnings
from typing import Any

import click
import numpy as np

from chunkfold.api import submit
from chunkfold.errors import MissingWarning, RemarkWarning
from chunkfold.outputs.output_places import refuse_origins, refuse_overlaps
from chunkfold.outputs.outputs import check_output
from chunkfold.planning.option_values import Section
from chunkfold.planning.request import Request
from chunkfold.planning.resolve import resolve
from chunkfold.results.density import step_of
from chunkfold.running.run import Run
from chunkfold.workflows.as_json import json_text, jsonable
from chunkfold.workflows.cli import EXIT_SKIPPED, common_options, reduction_options
from chunkfold.workflows.files.manifest import Record, recorded
from chunkfold.workflows.files.names import refuse_taken_names
from chunkfold.workflows.files.results_json import run_json
from chunkfold.workflows.files.writing import check_writing, write_results
from chunkfold.workflows.job.clients import check_performance_report, performance_reported
from chunkfold.workflows.report.page import check_report, reported
from chunkfold.workflows.terminal.consoles import err
from chunkfold.workflows.terminal.plots import check_plot, drawable, save_plot
from chunkfold.workflows.terminal.progress import run_progress
from chunkfold.workflows.terminal.style import (
    device_table,
    ledger_text,
    pass_table,
    print_results,
    read_text,
    show,
    tell_skipped,
)


@common_options.command()
@reduction_options.sources
@reduction_options.reduction
@reduction_options.ask
@common_options.cluster
@common_options.option(
    "--out",
    "output",
    section=Section.OUTPUT,
    help="Write the results to this path or URL: JSON if it ends in .json, a table if in .csv "
    "or .parquet, NetCDF if in .nc, else a Zarr group.",
)
@common_options.plot
@common_options.overwrite
@common_options.as_json
@common_options.json_lines
@common_options.quiet
@common_options.option(
    "--profile",
    is_flag=True,
    section=Section.OUTPUT,
    help="Print the times of each kernel pass and device on standard error.",
)
@common_options.option(
    "--manifest",
    metavar="FILE",
    section=Section.OUTPUT,
    help="Write a manifest of the run to this file, as JSON: sources, devices, times, results.",
)
@common_options.report
@common_options.performance_report
def reduce_command(
    sources: tuple[str, ...],
    joined: str | None,
    specs: tuple[str, ...],
    scheduler: str | None,
    output: str | None,
    plot: str | None,
    manifest: str | None,
    report: str | None,
    performance: str | None,
    *,
    asks: tuple[str, ...],
    overwrite: bool,
    as_json: bool,
    profile: bool,
    quiet: bool,
    json_lines: bool,
    **reduction: Any,
) -> None:
    """Reduce the Zarr array SOURCE and print the results.

    SOURCE is a path or URL, also into a zip archive (store.zip/temperature), an HDF5 or NetCDF-4
    file (air.nc/temperature), references (refs.json/temperature) or a repository of Icechunk
    (icechunk:///data/repo/temperature?tag=v1), or a chained URL of fsspec.
    A second SOURCE of equal shape is for reductions of two: bias, mae, rmse, cov, corr, dot,
    sum_sq_diff, max_abs_diff, first_mismatch. With --concatenate, all SOURCEs are joined into one
    array.

    Without --scheduler a local Dask cluster is started, with workers for each OpenCL device.

    With --ask one read answers several questions, each with its own axes, groups and weights.

    \b
    Examples:
      chunkfold reduce store.zarr/temperature --op sum --op min --op max
      chunkfold reduce store.zarr/temperature --op mean --axis 0 --out climatology.zarr
      chunkfold reduce store.zarr/temperature --op mean --axis time --out climatology.nc
      chunkfold reduce store.zarr/temperature --op p5,median,p95 --axis lat,lon --plot bands.png
      chunkfold reduce store.zarr/temperature --select '0:30, ..., 100' --json
      chunkfold reduce store.zarr/temperature --axis time --out climate.nc \\
          --ask 'mean: --op mean,std' --ask 'hot: --op p95' \\
          --ask 'months: --op mean --by time.month'
      chunkfold reduce store.zarr/temperature --op mean --sel time=2001-01:2010-12 --sel lat=30:60
      chunkfold reduce store.zarr/temperature --op std --ddof 1 --skipna
      chunkfold reduce store.zarr/temperature --op mean --axis time --by time.month --out clim.zarr
      chunkfold reduce store.zarr/temperature --op mean --axis time --resample time=1MS --out m.nc
      chunkfold reduce store.zarr/temperature --op mean --coarsen time=7 --boundary trim
      chunkfold reduce store.zarr/temperature --op mean --axis 1,2 --by masks.zarr/zones
      chunkfold reduce store.zarr/temperature --op std --by time.season --by zones --out zones.csv
      chunkfold reduce store.zarr/temperature --op mean --by lat --bins=-90,-60,0,60,90
      chunkfold reduce store.zarr/temperature --op mean --where '273.15 < x < 303.15'
      chunkfold reduce era5.zarr/t2m --op mean --mask-and-scale --skipna
      chunkfold reduce store.zarr/temperature --op mean --mode fast
      chunkfold reduce store.zarr/temperature --op histogram --edges 200:320:60
      chunkfold reduce original.zarr copy.zarr --op first_mismatch --op max_abs_diff
      chunkfold reduce era5.nc/t2m --op mean --mask-and-scale --skipna --axis time
      chunkfold reduce 'years/*.nc/t2m' --concatenate time --op mean --axis time
      chunkfold reduce 'icechunk:///data/repo/t2m?tag=v1' --op max
      chunkfold reduce s3://bucket/store.zarr/temperature --memory 2GiB --on-bad-chunk skip
      chunkfold reduce store.zarr/temperature --scheduler tcp://10.0.0.1:8786
    """
    # Bad input is found before a cluster is started for it.
    request = resolve(
        reduction_options.opened(sources, joined), reduction_options.questions_from(asks, reduction)
    )
    opened, on_bad_chunk = request.sources, request.options.on_bad_chunk
    if output is not None:
        _check_results(output, request, overwrite=overwrite)
    common_options.hold(output)
    check_plot(plot, "xarray", overwrite=overwrite)
    _check_beside(manifest, report, performance)
    refuse_overlaps(output, plot, manifest, report, performance, request.options.ledger)
    for file in (output, plot, manifest, report, performance):
        refuse_origins(file, request.origins)
    quiet = quiet or json_lines
    # Remarks are printed next to the results.
    warnings.simplefilter("default" if quiet else "ignore", MissingWarning)
    warnings.simplefilter("ignore", RemarkWarning)
    common_options.tell_packed(
        request.sources, mask_and_scale=request.options.mask_and_scale, quiet=quiet
    )
    record = Record(request.name, _settings())
    with (
        reported(record, report),
        recorded(record, manifest),
        common_options.client_for(scheduler, specs, quiet=quiet) as client,
    ):
        with (
            performance_reported(client, performance),
            run_progress(err, quiet=quiet, json_lines=json_lines) as watch,
        ):
            run = submit(request, client=client, on_event=watch)
            record.runs[opened[0].name] = run
            with common_options.or_skipped(on_bad_chunk):
                run.result()
        # Before the cluster is closed, which takes longer than a small reduction; to the output
        # first, since standard output may fail.
        if output is not None:
            found = {name: answer.results for name, answer in run.answers.items()}
            write_results(output, found, overwrite=overwrite)
            if not quiet:
                err.print(f"wrote {output}", markup=False)
        if as_json:
            click.echo(json_text(run_json(run)))
        else:
            step = step_of(run.plan)
            print_results({**_groups(run), **run.values}, run.plan.layout.elements, step)
        if not quiet:
            _tell(run)
        save_plot(plot, lambda: drawable(run.answers), overwrite=overwrite)
        if profile:
            show(err, pass_table(run.profile))
    if run.skipped:
        if not json_lines:
            tell_skipped(run.skipped, run.plan.layout.elements)
        click.get_current_context().exit(EXIT_SKIPPED)


def _tell(run: Run) -> None:
    """Say what was read, where and how fast."""
    for told in run.remarks("--skipna"):
        err.print(told, markup=False, soft_wrap=True)
    if run.plan.ledger is not None:
        err.print(ledger_text(run), markup=False, soft_wrap=True)
    err.print(read_text(run))
    show(err, device_table(run.profile, run.seconds))


def _groups(run: Run) -> dict[str, Any]:
    """Return the labels of groups as they are printed: of several each by its name."""
    found: dict[str, Any] = {}
    for plan in run.plan.asked_plans:
        name = plan.request.question
        called = f"groups of {name}" if name else "groups"
        groups = None if plan.grouping is None else plan.grouping.groups
        if isinstance(groups, np.ndarray):
            found[called] = groups
        elif groups is not None:
            found |= {f"{called} {axis}": one for axis, one in groups.items()}
    return found


def _check_results(output: str, request: Request, *, overwrite: bool) -> None:
    """Find out before the work starts whether all results can be written."""
    for one in request.all_requests:
        check_writing(output, one.options, overwrite=overwrite)
        refuse_taken_names(output, one)


def _check_beside(manifest: str | None, report: str | None, performance: str | None) -> None:
    """Find out before the work starts whether what tells of the run can be written."""
    if manifest is not None:
        check_output(manifest, (".json",), overwrite=True)
    if report is not None:
        check_report(report)
    if performance is not None:
        check_performance_report(performance)


def _settings() -> dict[str, Any]:
    """Return what the command was given, as manifests have it."""
    params = click.get_current_context().params
    return {name: jsonable(value) for name, value in params.items() if value not in (None, ())}

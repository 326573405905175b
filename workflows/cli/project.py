"""`chunkfold project`: an array reduced along axes, as a new Zarr."""

from __future__ import annotations

from typing import Any

import click

from chunkfold.api import check
from chunkfold.errors import PlanError
from chunkfold.sources.opening import open_source
from chunkfold.workflows.cli import options
from chunkfold.workflows.consoles import err
from chunkfold.workflows.names import refuse_taken_names
from chunkfold.workflows.progress import run_progress
from chunkfold.workflows.project import check_projection, project


@click.command()
@click.argument("source")
@click.argument("out")
@options.absent_status
@options.reduction
@options.keepdims
@options.cluster
@options.overwrite
@options.quiet
def command(
    source: str,
    out: str,
    specs: tuple[str, ...],
    scheduler: str | None,
    *,
    keepdims: bool,
    overwrite: bool,
    quiet: bool,
    **reduction: Any,
) -> None:
    """Write reductions of SOURCE along axes to a new Zarr OUT.

    SOURCE is the path or URL of a Zarr array. OUT is a path or URL of a group, of an array for
    each reduction. Names of axes, coordinates and attributes are the source's, where they hold.

    \b
    Examples:
      chunkfold project scan.zarr/brain projection.zarr --op max --axis 0
      chunkfold project store.zarr/air climatology.zarr --op mean,std --axis 0 --skipna
    """
    opened = open_source(source)
    given = options.arguments(**reduction)
    if given["axis"] is None:
        raise PlanError("name the axes to reduce: --axis 0; over all of them, reduce prints it")
    check(opened, **given)
    check_projection(opened, out, given["op"], given["dtype"], overwrite=overwrite)
    names = {"axis": given["axis"], "selection": given["selection"], "keepdims": keepdims}
    names["by"] = given["by"]
    refuse_taken_names(out, opened, given["op"], **names)
    options.hold(out)
    options.tell_packed([opened], mask_and_scale=given["mask_and_scale"], quiet=quiet)
    if len(given["op"]) == 1:
        (given["op"],) = given["op"]
    with (
        options.client_for(scheduler, specs, quiet=quiet) as client,
        run_progress(err, quiet=quiet) as watch,
    ):
        given |= {"keepdims": keepdims, "overwrite": overwrite, "client": client}
        project(opened, out, on_event=watch, **given)
    if not quiet:
        err.print(f"wrote {out}", markup=False)

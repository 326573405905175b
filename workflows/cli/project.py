"""`chunkfold project`: an array reduced along axes, as a new Zarr."""

from __future__ import annotations

from typing import Any

import click

from chunkfold.workflows.cli import options, reduction_options, sections
from chunkfold.workflows.consoles import err
from chunkfold.workflows.progress import run_progress
from chunkfold.workflows.project import projection, write_projection


@sections.command()
@click.argument("source")
@click.argument("out")
@options.stores
@reduction_options.whole_reduction
@options.cluster
@options.overwrite
@options.quiet
def command(
    source: str,
    out: str,
    specs: tuple[str, ...],
    scheduler: str | None,
    *,
    overwrite: bool,
    quiet: bool,
    **reduction: Any,
) -> None:
    """Write reductions of SOURCE along axes to a new Zarr OUT.

    SOURCE is the path or URL of a Zarr array. OUT is the path or URL of a group, which has an array
    for each reduction. Names of axes, coordinates and attributes are the source's, where they hold.

    \b
    Examples:
      chunkfold project scan.zarr/brain projection.zarr --op max --axis 0
      chunkfold project store.zarr/air climatology.zarr --op mean,std --axis 0 --skipna
      chunkfold project slide.zarr/0 small.zarr --op mean --coarsen y=4,x=4 --boundary pad
    """
    request = projection(source, out, reduction_options.asked_for(**reduction), overwrite=overwrite)
    options.hold(out)
    options.tell_packed(request.sources, mask_and_scale=request.options.mask_and_scale, quiet=quiet)
    with (
        options.client_for(scheduler, specs, quiet=quiet) as client,
        run_progress(err, quiet=quiet) as watch,
    ):
        write_projection(request, out, overwrite=overwrite, client=client, on_event=watch)
    if not quiet:
        err.print(f"wrote {out}", markup=False)

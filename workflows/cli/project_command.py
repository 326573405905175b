"""`chunkfold project`: an array reduced along axes, as a new Zarr."""

from __future__ import annotations

from typing import Any

import click

from chunkfold.workflows.cli import common_options, reduction_options
from chunkfold.workflows.terminal.consoles import err
from chunkfold.workflows.terminal.progress import run_progress
from chunkfold.workflows.transforms.project import projection, write_projection


@common_options.command()
@click.argument("source")
@click.argument("out")
@common_options.stores
@reduction_options.whole_reduction
@common_options.cluster
@common_options.overwrite
@common_options.quiet
def project_command(
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
    request = projection(
        source, out, reduction_options.options_from(**reduction), overwrite=overwrite
    )
    common_options.hold(out)
    common_options.tell_packed(
        request.sources, mask_and_scale=request.options.mask_and_scale, quiet=quiet
    )
    with (
        common_options.client_for(scheduler, specs, quiet=quiet) as client,
        run_progress(err, quiet=quiet) as watch,
    ):
        write_projection(request, out, overwrite=overwrite, client=client, on_event=watch)
    if not quiet:
        err.print(f"wrote {out}", markup=False)

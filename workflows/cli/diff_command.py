"""`chunkfold diff`: whether two arrays are equal, and how far they are apart."""

from __future__ import annotations

import click

from chunkfold.workflows.as_json import json_text
from chunkfold.workflows.cli import EXIT_FAULT, common_options
from chunkfold.workflows.consoles import err, out
from chunkfold.workflows.diff import compared, comparison
from chunkfold.workflows.progress import run_progress
from chunkfold.workflows.results import difference_json
from chunkfold.workflows.selecting import parse_selection


@common_options.command()
@click.argument("first")
@click.argument("second")
@common_options.stores
@common_options.written("selection", "mask_and_scale", "memory")
@common_options.cluster
@common_options.as_json
@common_options.quiet
def diff_command(
    first: str,
    second: str,
    specs: tuple[str, ...],
    scheduler: str | None,
    memory: str | None,
    selection: str | None,
    *,
    mask_and_scale: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Compare two Zarr arrays of equal shape, in any chunks.

    FIRST and SECOND are paths or URLs. NaN equals NaN. Exit codes: 0 they are equal, 1 they differ,
    others as `chunkfold --help` says.

    \b
    Examples:
      chunkfold diff original.zarr/temperature copy.zarr/temperature
      chunkfold diff packed.zarr/air floats.zarr/air --mask-and-scale
      chunkfold diff old.zarr/air s3://bucket/new.zarr/air --select '0:100' --json
    """
    request = comparison(
        first,
        second,
        mask_and_scale=mask_and_scale,
        selection=parse_selection(selection),
        memory=memory,
    )
    common_options.tell_packed(request.sources, mask_and_scale=mask_and_scale, quiet=quiet)
    with common_options.client_for(scheduler, specs, quiet=quiet) as client:
        with run_progress(err, quiet=quiet) as watch:
            found = compared(request, client=client, on_event=watch)
        if as_json:
            click.echo(json_text(difference_json(found)))
        else:
            for line in found.lines():
                out.print(line, markup=False)
    if not found.equal:
        click.get_current_context().exit(EXIT_FAULT)

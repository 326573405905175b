"""`chunkfold normalize`: what makes the channels of training data comparable."""

from __future__ import annotations

import click

from chunkfold.planning.option_values import Section
from chunkfold.workflows.as_json import json_text
from chunkfold.workflows.channels import MEASURES
from chunkfold.workflows.cli import common_options
from chunkfold.workflows.consoles import err
from chunkfold.workflows.normalize import apply, check_applied, measured, measuring
from chunkfold.workflows.parsing import axis as parse_axis
from chunkfold.workflows.progress import run_progress
from chunkfold.workflows.results import normalization_json


@common_options.command()
@click.argument("source")
@common_options.stores
@click.option(
    "--channels",
    metavar="AXIS",
    help="Axis of the channels, by number or name; without it the whole array is one channel.",
)
@click.option(
    "--by",
    type=click.Choice(list(MEASURES)),
    default="mean-std",
    show_default=True,
    help="Values that become 0 and 1: mean and mean + std, or minimum and maximum.",
)
@common_options.written("ddof", "skipna", "mask_and_scale", "memory", "ledger", "trust_ledger")
@common_options.option(
    "--apply",
    "out",
    section=Section.OUTPUT,
    help="Write the normalized array there, too, as a new Zarr array.",
)
@common_options.option(
    "--dtype",
    default="float32",
    show_default=True,
    section=Section.OUTPUT,
    help="Dtype of the array that --apply writes.",
)
@common_options.cluster
@common_options.overwrite
@common_options.quiet
def normalize_command(
    source: str,
    channels: str | None,
    by: str,
    ddof: float,
    out: str | None,
    dtype: str,
    specs: tuple[str, ...],
    scheduler: str | None,
    memory: str | None,
    ledger: str | None,
    *,
    trust_ledger: bool,
    skipna: bool,
    mask_and_scale: bool,
    overwrite: bool,
    quiet: bool,
) -> None:
    """Print offset and scale of the channels of SOURCE as JSON.

    SOURCE is the path or URL of a Zarr array, which is read once. A value becomes
    (value - offset) / scale. Statistics are exact, whatever the chunks.

    \b
    Examples:
      chunkfold normalize train.zarr/images --channels 1 > normalization.json
      chunkfold normalize era5.zarr/t2m --mask-and-scale --skipna
      chunkfold normalize train.zarr/images --channels -1 --by min-max --apply scaled.zarr
    """
    request = measuring(
        source,
        None if channels is None else parse_axis(channels),
        by,
        ddof=ddof,
        skipna=skipna,
        mask_and_scale=mask_and_scale,
        memory=memory,
        ledger=ledger,
        trust_ledger=trust_ledger,
    )
    (opened,) = request.sources
    if out is not None:
        check_applied(opened, out, dtype, overwrite=overwrite)
    common_options.hold(out)
    common_options.tell_packed(request.sources, mask_and_scale=mask_and_scale, quiet=quiet)
    with common_options.client_for(scheduler, specs, quiet=quiet) as client:
        with run_progress(err, quiet=quiet) as watch:
            found = measured(request, by, client=client, on_event=watch)
        click.echo(json_text(normalization_json(found)))
        if not quiet and out is None and found.why_not:
            err.print(found.why_not, markup=False)
        if out is not None:
            with client.as_current(), err.status(f"writing {out}"):
                apply(opened, found, out, dtype, overwrite=overwrite, ledger=ledger,
                      trust_ledger=trust_ledger)  # fmt: skip

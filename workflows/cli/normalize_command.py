"""`chunkfold normalize`: what makes the channels of training data comparable."""

from __future__ import annotations

import click

from chunkfold.errors import PlanError
from chunkfold.planning.option_values import Section
from chunkfold.workflows.as_json import json_text
from chunkfold.workflows.cli import common_options
from chunkfold.workflows.cli.numbers import NumberOption
from chunkfold.workflows.files.results_json import normalization_json
from chunkfold.workflows.images.channels import MEASURES
from chunkfold.workflows.images.ome import image_of
from chunkfold.workflows.images.ome_channels import omero_of
from chunkfold.workflows.options.parsing import axis as parse_axis
from chunkfold.workflows.options.parsing import words
from chunkfold.workflows.terminal.consoles import err
from chunkfold.workflows.terminal.progress import run_progress
from chunkfold.workflows.transforms.normalize import apply, check_applied, measured, measuring


@common_options.command()
@click.argument("source")
@common_options.stores
@click.option(
    "--channels",
    metavar="AXES",
    help="Axis of the channels, by number or name, or several: 't,c'. Without it the whole array "
    "is one channel.",
)
@click.option(
    "--by",
    type=click.Choice(list(MEASURES)),
    default="mean-std",
    show_default=True,
    help="Values that become 0 and 1: mean and mean + std, minimum and maximum, or percentiles.",
)
@click.option("--low", type=NumberOption(), help="Percentile that becomes 0.  [default: 1]")
@click.option("--high", type=NumberOption(), help="Percentile that becomes 1.  [default: 99.8]")
@common_options.written("ddof", "skipna", "mask_and_scale", "memory", "ledger", "trust_ledger")
@common_options.option(
    "--apply",
    "out",
    section=Section.OUTPUT,
    help="Also write the normalized array, as a new Zarr array at this path or URL.",
)
@common_options.option(
    "--dtype",
    default="float32",
    show_default=True,
    section=Section.OUTPUT,
    help="Dtype of the array that --apply writes.",
)
@common_options.option(
    "--omero",
    is_flag=True,
    section=Section.OUTPUT,
    help="Also print omero metadata, whose windows show each channel from 0 to 1; --apply then "
    "writes an OME-Zarr image with these.",
)
@common_options.cluster
@common_options.overwrite
@common_options.quiet
def normalize_command(
    source: str,
    channels: str | None,
    by: str,
    low: float | None,
    high: float | None,
    ddof: float,
    out: str | None,
    dtype: str,
    specs: tuple[str, ...],
    scheduler: str | None,
    memory: str | None,
    ledger: str | None,
    *,
    omero: bool,
    trust_ledger: bool,
    skipna: bool,
    mask_and_scale: bool,
    overwrite: bool,
    quiet: bool,
) -> None:
    """Print offset and scale of the channels of SOURCE as JSON.

    SOURCE is the path or URL of a Zarr array, which is read once. A value becomes
    (value - offset) / scale. Statistics are exact, for any chunks.

    \b
    Examples:
      chunkfold normalize train.zarr/images --channels 1 > normalization.json
      chunkfold normalize era5.zarr/t2m --mask-and-scale --skipna
      chunkfold normalize train.zarr/images --channels -1 --by min-max --apply scaled.zarr
      chunkfold normalize image.zarr --channels t,c --by percentiles --omero --apply shown.zarr
    """
    request = measuring(
        source,
        None if channels is None else [parse_axis(one) for one in words((channels,))],
        by,
        low,
        high,
        extremes=omero,
        ddof=ddof,
        skipna=skipna,
        mask_and_scale=mask_and_scale,
        memory=memory,
        ledger=ledger,
        trust_ledger=trust_ledger,
    )
    (opened,) = request.sources
    if omero:
        image_of(opened)
        if by == "mean-std":
            raise PlanError(
                "--omero writes windows from a least to a greatest value: give --by percentiles, "
                "or min-max"
            )
    if out is not None:
        check_applied(opened, out, dtype, overwrite=overwrite)
    common_options.hold(out)
    common_options.tell_packed(request.sources, mask_and_scale=mask_and_scale, quiet=quiet)
    with common_options.client_for(scheduler, specs, quiet=quiet) as client:
        with run_progress(err, quiet=quiet) as watch:
            found = measured(request, by, client=client, on_event=watch)
        told = normalization_json(found)
        if omero and not found.why_not:
            told["omero"] = omero_of(opened, found)
        click.echo(json_text(told))
        if not quiet and out is None and found.why_not:
            err.print(found.why_not, markup=False)
        if out is not None:
            with client.as_current(), err.status(f"writing {out}"):
                apply(opened, found, out, dtype, omero=omero, overwrite=overwrite,
                      ledger=ledger, trust_ledger=trust_ledger)  # fmt: skip

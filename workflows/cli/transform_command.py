"""`chunkfold transform`: anomalies, and other comparisons with groups, as a new Zarr."""

from __future__ import annotations

from typing import Any

import click

from chunkfold.planning.option_values import Section
from chunkfold.workflows.cli import common_options
from chunkfold.workflows.options.written_options import WRITTEN, library_options
from chunkfold.workflows.terminal.consoles import err
from chunkfold.workflows.terminal.progress import run_progress
from chunkfold.workflows.transforms.comparing import TRANSFORMS
from chunkfold.workflows.transforms.transform import transformation, write_transformation

_NAMES = tuple(
    name
    for name in WRITTEN
    if name
    not in (
        "op", "edges", "sketch", "keepdims", "coarsen", "boundary", "initial", "dtype",
        "on_bad_chunk", "variant", "tendency",
    )
)  # fmt: skip


@common_options.command()
@click.argument("source")
@click.argument("out")
@common_options.option(
    "--apply",
    "how",
    type=click.Choice(list(TRANSFORMS)),
    default="anomaly",
    show_default=True,
    section=Section.OPERATION,
    help="Write x - mean (anomaly), (x - mean) / std (standardize), or x / mean (divide), with the "
    "mean and the deviation of each element's group.",
)
@common_options.stores
@common_options.written(*_NAMES)
@common_options.option(
    "--dtype",
    section=Section.OUTPUT,
    help="Dtype of the array that is written.  [default: float32, or float64 if the source's "
    "numbers are longer]",
)
@common_options.cluster
@common_options.overwrite
@common_options.quiet
def transform_command(
    source: str,
    out: str,
    how: str,
    dtype: str | None,
    specs: tuple[str, ...],
    scheduler: str | None,
    *,
    overwrite: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Compare elements of SOURCE with a statistic of their group; write the results to a new Zarr.

    SOURCE is the path or URL of a Zarr array. OUT is the folder of a new group, which has the array
    in the source's chunks, and its coordinates. Without --by all elements along the axes are one
    group. With --sel or --select the statistics come from this part (a base period), and all
    elements are written.

    \b
    Examples:
      chunkfold transform era5.zarr/t2m anomaly.zarr --axis time --by time.month
      chunkfold transform era5.zarr/t2m anomaly.zarr --axis time --by time.dayofyear \\
          --sel time=1991:2020
      chunkfold transform era5.zarr/t2m standard.zarr --apply standardize --axis time --skipna
      chunkfold transform rain.zarr/pr share.zarr --apply divide --axis time --by time.year
    """
    read = {name: WRITTEN[name].read(value) for name, value in given.items()}
    unused = {"op": ["mean"], "edges": None, "sketch": None}
    options = library_options({**unused, **read})
    del options["op"]
    options["dtype"] = dtype
    made = transformation(source, out, how, overwrite=overwrite, **options)
    common_options.hold(out)
    common_options.tell_packed(
        made.request.sources, mask_and_scale=made.request.options.mask_and_scale, quiet=quiet
    )
    with (
        common_options.client_for(scheduler, specs, quiet=quiet) as client,
        client.as_current(),
        run_progress(err, quiet=quiet) as watch,
    ):
        write_transformation(made, out, overwrite=overwrite, client=client, on_event=watch)
    if not quiet:
        err.print(f"wrote {out}", markup=False)

"""`chunkfold regions`: the regions of a segmentation, and what an image has in each."""

from __future__ import annotations

import sys

import click

from chunkfold.outputs.output_places import refuse_origins
from chunkfold.outputs.outputs import check_output, staged
from chunkfold.planning.option_values import Section
from chunkfold.workflows.as_json import json_text
from chunkfold.workflows.cli import common_options
from chunkfold.workflows.files.results_json import regions_json
from chunkfold.workflows.files.tables import check_table, csv_file, csv_table, parquet_table
from chunkfold.workflows.images.regions import measured_regions, measuring_regions
from chunkfold.workflows.terminal.consoles import err
from chunkfold.workflows.terminal.progress import run_progress

_FORMATS = (".csv", ".parquet", ".json")


@common_options.command()
@click.argument("image")
@click.argument("labels")
@common_options.stores
@common_options.written("skipna", "memory")
@common_options.option(
    "--out",
    section=Section.OUTPUT,
    help="Write the table to this file: .csv, .parquet or .json. Without --out, CSV is printed.",
)
@common_options.cluster
@common_options.overwrite
@common_options.quiet
def regions_command(
    image: str,
    labels: str,
    out: str | None,
    specs: tuple[str, ...],
    scheduler: str | None,
    memory: str | None,
    *,
    skipna: bool,
    overwrite: bool,
    quiet: bool,
) -> None:
    """Measure the regions of IMAGE that LABELS number: a table with a row for each.

    Both are paths or URLs of arrays, or of OME-Zarr images, and labels are integers: each number
    above 0 is a region. A row has the label, area, centroid and bounding box, in elements, and
    minimum, maximum, sum, mean and standard deviation of the image, all of them exact. Each array
    is read once.

    \b
    Examples:
      chunkfold regions image.zarr image.zarr/labels/cells --out cells.parquet
      chunkfold regions image.zarr image.zarr/labels/cells --level 1 > coarse.csv
      chunkfold regions scan.zarr/0 organs.zarr --skipna > organs.csv
    """
    made = measuring_regions(image, labels, skipna=skipna, memory=memory)
    if out is not None:
        refuse_origins(out, [*made.image.addresses, *made.labels.addresses])
        check_output(out, _FORMATS, overwrite=overwrite)
        check_table(out)
    common_options.hold(out)
    with (
        common_options.client_for(scheduler, specs, quiet=quiet) as client,
        run_progress(err, quiet=quiet) as watch,
    ):
        found = measured_regions(made, client=client, on_event=watch)
    if out is None:
        csv_table(sys.stdout, found.columns)
        return
    with staged(out, overwrite=overwrite) as path:
        if out.endswith(".parquet"):
            parquet_table(path, found.columns)
        elif out.endswith(".csv"):
            csv_file(path, found.columns)
        else:
            path.write_text(json_text(regions_json(found)) + "\n")
    if not quiet:
        err.print(f"wrote {out}", markup=False)

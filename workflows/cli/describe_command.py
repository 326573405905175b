"""`chunkfold describe`: what is in a store."""

from __future__ import annotations

from typing import Any

import click

from chunkfold.bad_chunks import total_skipped
from chunkfold.sources.opening import open_each
from chunkfold.sources.source import Source
from chunkfold.workflows.as_json import json_text
from chunkfold.workflows.cli import EXIT_SKIPPED, common_options
from chunkfold.workflows.describe import Description, described
from chunkfold.workflows.files.results_json import description_json
from chunkfold.workflows.terminal.consoles import err, out
from chunkfold.workflows.terminal.plots import check_plot, histograms, save_plot
from chunkfold.workflows.terminal.progress import run_progress
from chunkfold.workflows.terminal.style import description_table, show, tell_skipped


@common_options.command()
@click.argument("source")
@common_options.stores
@common_options.written(
    "mask_and_scale", "memory", "on_bad_chunk", "on_missing_chunk", "ledger", "trust_ledger"
)
@common_options.cluster
@common_options.plot
@common_options.overwrite
@common_options.as_json
@common_options.quiet
def describe_command(
    source: str,
    specs: tuple[str, ...],
    scheduler: str | None,
    memory: str | None,
    on_bad_chunk: str,
    on_missing_chunk: str,
    ledger: str | None,
    plot: str | None,
    *,
    overwrite: bool,
    trust_ledger: bool,
    mask_and_scale: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Say what is in SOURCE, a Zarr array or group.

    SOURCE is a path or URL. Every array has a row: dtype, shape, stored chunks, missing elements
    (NaN or NaT), and minimum, maximum, mean, standard deviation and a histogram of the others, in
    one read. Numbers are shown as they are stored: a time as int64. The row of an array that cannot
    be opened or read says why; the others are described, and the exit code is 3.

    \b
    Examples:
      chunkfold describe store.zarr
      chunkfold describe store.zarr --plot histograms.png
      chunkfold describe era5.zarr --mask-and-scale
      chunkfold describe store.zarr/temperature --json
      chunkfold describe s3://bucket/store.zarr --on-bad-chunk skip
      chunkfold describe era5.zarr --ledger era5.ledger
    """
    check_plot(plot, "xarray", overwrite=overwrite)
    members = open_each(source)
    arrays = [one for one in members if isinstance(one, Source)]
    common_options.tell_packed(arrays, mask_and_scale=mask_and_scale, quiet=quiet)
    made: list[Description] = []
    given: Any = {
        "mask_and_scale": mask_and_scale, "memory": memory, "on_bad_chunk": on_bad_chunk,
        "on_missing_chunk": on_missing_chunk, "ledger": ledger, "trust_ledger": trust_ledger,
    }  # fmt: skip
    with common_options.client_for(scheduler, specs, quiet=quiet) as client:
        try:
            for one in members:
                with (
                    run_progress(err, quiet=quiet) as watch,
                    common_options.or_skipped(on_bad_chunk),
                ):
                    alone = len(members) == 1
                    made.append(described(one, alone=alone, client=client, on_event=watch, **given))
        finally:
            # Before the cluster is closed, which takes longer than a small array; and where one
            # cannot be read, those before it.
            if as_json:
                click.echo(json_text([description_json(one) for one in made]))
            elif made:
                show(out, description_table(made))
        save_plot(plot, lambda: histograms(made), overwrite=overwrite)
    skipped = total_skipped(one.skipped for one in made)
    if skipped:
        tell_skipped(skipped, sum(one.elements or 0 for one in made))
    bad = [one for one in made if one.bad]
    for unread in bad:
        if not unread.skipped:
            err.print(f"{unread.name}: {unread.reason}", markup=False)
    if skipped or bad:
        click.get_current_context().exit(EXIT_SKIPPED)

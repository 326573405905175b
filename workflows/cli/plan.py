"""`chunkfold plan`: what would run."""

from __future__ import annotations

from typing import Any

import click

from chunkfold.api import plan
from chunkfold.cluster import chosen_devices
from chunkfold.joining import connect
from chunkfold.opening import open_source
from chunkfold.planning import THREADS
from chunkfold.staffing import posts
from chunkfold.workflows.as_json import json_text
from chunkfold.workflows.cli import options
from chunkfold.workflows.consoles import lines, out
from chunkfold.workflows.results import plan_json


@click.command()
@options.sources
@options.reduction
@options.cluster
@options.as_json
def command(
    sources: tuple[str, ...],
    specs: tuple[str, ...],
    scheduler: str | None,
    *,
    as_json: bool,
    **reduction: Any,
) -> None:
    """Say what `reduce` would do with SOURCE, and how much memory it would take.

    A leaf is a box of chunks that is read and folded at once, a block is what one Dask task folds;
    what becomes of them, partials, is combined to one root for each tile of the outputs.

    \b
    Examples:
      chunkfold plan store.zarr/temperature --op mean --axis 0
      chunkfold plan store.zarr/temperature --device cpu/2
      chunkfold plan store.zarr/temperature --memory 500MB --json
    """
    opened = [open_source(source) for source in sources]
    given = options.arguments(**reduction)
    if scheduler is None:
        workers = len(posts(chosen_devices(list(specs) or None)))
        made = plan(opened, workers=workers, threads=THREADS, **given)
    else:
        with connect(scheduler) as client:
            made = plan(opened, client=client, **given)
    if as_json:
        click.echo(json_text(plan_json(made)))
    else:
        out.print(lines(str(made)))

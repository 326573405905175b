"""`chunkfold plan`: what would run."""

from __future__ import annotations

from typing import Any

import click

from chunkfold.api import plan
from chunkfold.cluster.joining import connect
from chunkfold.cluster.local_cluster import chosen_devices
from chunkfold.planning.option_values import Section
from chunkfold.planning.resolve import resolve
from chunkfold.planning.workers import THREADS, posts
from chunkfold.workflows.as_json import json_text
from chunkfold.workflows.cli import common_options, reduction_options
from chunkfold.workflows.files.results_json import plan_json
from chunkfold.workflows.terminal.consoles import lines, out
from chunkfold.workflows.terminal.style import reason_table, show


@common_options.command()
@reduction_options.sources
@reduction_options.reduction
@reduction_options.ask
@common_options.cluster
@common_options.option(
    "--source",
    "lists",
    is_flag=True,
    section=Section.OUTPUT,
    help="Print the programs of the kernels, not the plan.",
)
@common_options.option(
    "--explain",
    is_flag=True,
    section=Section.OUTPUT,
    help="Print which kernels would reduce it, and why, not the plan.",
)
@common_options.as_json
def plan_command(
    sources: tuple[str, ...],
    joined: str | None,
    specs: tuple[str, ...],
    scheduler: str | None,
    *,
    asks: tuple[str, ...],
    lists: bool,
    explain: bool,
    as_json: bool,
    **reduction: Any,
) -> None:
    """Say what `reduce` would do with SOURCE, and how much memory it would take.

    A leaf is a box of chunks that is read and folded at once, a block is the leaves of one Dask
    task. Results of blocks, called partials, are combined to one root for each tile of the outputs.

    --source and --explain are for the first device: they try kernels that were not tried there
    before, as `reduce` would do. Programs are shown after the preprocessor, without unused
    functions.

    \b
    Examples:
      chunkfold plan store.zarr/temperature --op mean --axis 0
      chunkfold plan store.zarr/temperature --device cpu/2
      chunkfold plan store.zarr/temperature --memory 500MB --json
      chunkfold plan store.zarr/temperature --op std --explain
      chunkfold plan store.zarr/temperature --axis time --ask 'all: --op mean' --ask 'low: --op p5'
      chunkfold plan 'years/*.zarr/t2m' --concatenate time --op mean --axis time
      chunkfold plan store.zarr/temperature --op std --source --device pocl > std.cl
    """
    request = resolve(
        reduction_options.opened(sources, joined), reduction_options.questions_from(asks, reduction)
    )
    if scheduler is None:
        hands = posts(chosen_devices(list(specs) or None))
        made = plan(request, workers=len(hands), threads=THREADS, device=hands[0].device)
    else:
        with connect(scheduler) as client:
            made = plan(request, client=client)
    reasons = made.explain() if explain else []
    source = made.source() if lists else ""
    if as_json:
        told = {"explained": [reason._asdict() for reason in reasons]} if explain else {}
        listed = {"source": source} if lists else {}
        click.echo(json_text(plan_json(made) | told | listed))
        return
    if explain:
        show(out, reason_table(reasons))
    if lists:
        out.print(lines(source), soft_wrap=True)
    if not explain and not lists:
        out.print(lines(str(made)))

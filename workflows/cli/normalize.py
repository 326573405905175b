"""`chunkfold normalize`: what makes the channels of training data comparable."""

from __future__ import annotations

import json
from pathlib import Path

import click

from chunkfold.api import check
from chunkfold.workflows.cli import options
from chunkfold.workflows.normalize import WAYS, apply, check_applied, normalization, other_axes
from chunkfold.workflows.progress import run_progress
from chunkfold.workflows.results import normalization_json
from chunkfold.workflows.style import err


@click.command()
@click.argument("source")
@click.option("--channels", "axis", type=int, metavar="AXIS", help="Axis along which they stand.")
@click.option(
    "--by",
    "way",
    type=click.Choice(list(WAYS)),
    default="mean-std",
    show_default=True,
    help="What becomes 0 and 1: mean and mean + std, or minimum and maximum.",
)
@click.option("--ddof", type=float, default=0, help="Variances divide by count - ddof.")
@click.option("--skipna", is_flag=True, help="Take elements that are NaN for absent.")
@click.option(
    "--apply",
    "out",
    type=click.Path(path_type=Path),
    help="Also write the normalized array there: a new Zarr array.",
)
@click.option("--dtype", default="float32", show_default=True, help="Of the array written.")
@options.cluster
@options.memory
@click.option("--quiet", "-q", is_flag=True, help="Results and errors only.")
def command(
    source: str,
    axis: int | None,
    way: str,
    ddof: float,
    out: Path | None,
    dtype: str,
    specs: tuple[str, ...],
    scheduler: str | None,
    memory: str | None,
    *,
    skipna: bool,
    quiet: bool,
) -> None:
    """Print what normalizes the Zarr array SOURCE, channel by channel, as JSON, after one read.

    A value becomes (value - offset) / scale. Statistics are exact, whatever the chunks.

    \b
    Examples:
      chunkfold normalize train.zarr/images --channels 1 > normalization.json
      chunkfold normalize train.zarr/images --channels -1 --by min-max --apply scaled.zarr
    """
    others = other_axes(source, axis)
    check(source, list(WAYS[way]), axis=others, ddof=ddof, skipna=skipna, memory=memory)
    if out is not None:
        check_applied(out, dtype)
    with options.client_for(scheduler, specs) as client:
        with run_progress(err, quiet=quiet) as watch:
            found = normalization(
                source,
                axis=axis,
                way=way,
                ddof=ddof,
                skipna=skipna,
                memory=memory,
                client=client,
                on_event=watch,
            )
        click.echo(json.dumps(normalization_json(found)))
        if out is not None:
            with client.as_current(), err.status(f"writing {out}"):
                apply(source, found, out, dtype)

"""`chunkfold plan`: what would run."""

from __future__ import annotations

import click

from chunkfold.api import plan
from chunkfold.cluster import THREADS, chosen_devices, connect
from chunkfold.workflows.cli import options
from chunkfold.workflows.style import out


@click.command()
@options.reduction
@options.cluster
def command(
    source: str,
    ops: tuple[str, ...],
    axes: tuple[int, ...],
    dtype: str | None,
    selection: str | None,
    specs: tuple[str, ...],
    scheduler: str | None,
) -> None:
    """Say what `reduce` would do with SOURCE, and how much memory it would take.

    \b
    Examples:
      chunkfold plan store.zarr/temperature --op mean --axis 0
      chunkfold plan store.zarr/temperature --device cpu/2
    """
    given = options.arguments(ops, axes, dtype, selection)
    if scheduler is None:
        made = plan(source, workers=len(chosen_devices(list(specs) or None)), threads=THREADS,
                    **given)  # fmt: skip
    else:
        with connect(scheduler) as client:
            made = plan(source, client=client, **given)
    out.print(str(made), markup=False)

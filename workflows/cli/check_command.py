"""`chunkfold check`: whether an archive is sound."""

from __future__ import annotations

from pathlib import Path

import click

from chunkfold.planning.option_values import Section
from chunkfold.workflows.as_json import json_text
from chunkfold.workflows.checks.check import archive_at
from chunkfold.workflows.checks.chunk_grid import draw_grids, grid_lines
from chunkfold.workflows.checks.finding_kinds import ALL, MEANINGS
from chunkfold.workflows.checks.findings import CheckedArray
from chunkfold.workflows.checks.value_limits import parsed_limits
from chunkfold.workflows.cli import EXIT_FAULT, EXIT_SKIPPED, common_options
from chunkfold.workflows.terminal.consoles import err, out
from chunkfold.workflows.terminal.plots import check_plot
from chunkfold.workflows.terminal.progress import run_progress
from chunkfold.workflows.terminal.style import finding_table, show

_WIDEST = 96
"""Characters of a picture, at most."""
_kind = click.Choice([*map(str, MEANINGS), ALL])


@common_options.command()
@click.argument("source")
@common_options.stores
@common_options.option(
    "--array",
    "arrays",
    section=Section.SOURCE,
    multiple=True,
    metavar="PATTERN",
    help="Check only arrays whose names match, and their coordinates: 'air*'; may be repeated.",
)
@common_options.option(
    "--limits",
    section=Section.OPERATION,
    multiple=True,
    metavar="NAME=LOW:HIGH",
    help="Limits of values, in addition to attributes, for arrays whose names match: "
    "'air=180:330', 'rain*=0:'. They limit unpacked values. May be repeated; the first match "
    "counts.",
)
@common_options.option(
    "--fail-on",
    section=Section.OPERATION,
    multiple=True,
    type=_kind,
    help="Count a kind of remark as an error; may be repeated.",
)
@common_options.option(
    "--ignore",
    section=Section.OPERATION,
    multiple=True,
    type=_kind,
    help="Ignore a kind of finding; may be repeated.",
)
@common_options.written("memory", "ledger", "trust_ledger")
@common_options.cluster
@common_options.option(
    "--plot",
    section=Section.OUTPUT,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Draw the chunks of each array in this file, .png or .svg. It needs matplotlib.",
)
@common_options.overwrite
@common_options.as_json
@common_options.quiet
def check_command(
    source: str,
    arrays: tuple[str, ...],
    limits: tuple[str, ...],
    fail_on: tuple[str, ...],
    ignore: tuple[str, ...],
    specs: tuple[str, ...],
    scheduler: str | None,
    memory: str | None,
    ledger: str | None,
    plot: Path | None,
    *,
    trust_ledger: bool,
    overwrite: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Say whether SOURCE, a Zarr array or group, is sound, in one read.

    SOURCE is a path or URL. Every finding has a row: the array, the kind, the number of chunks, and
    the first of them. A picture shows the chunks of each array with findings.

    \b
    Errors:
      unreadable    a chunk cannot be read or decoded
      unopened      an array cannot be opened
      gone          an array is gone, but consolidated metadata name it
      consolidated  consolidated metadata differ from an array's own
      attributes    an attribute that says what numbers mean cannot be understood
      outside       values are outside valid_range, or --limits
      shape         an axis is not as long as its coordinate, or as others of its name
      coordinate    a coordinate has no value somewhere
      order         times are not in order
      double        a coordinate has a value twice
      gap           times are missing between others that follow each other evenly
      damaged       a block has other values than in --ledger, but no later time

    \b
    Remarks, which sound archives may have (--fail-on makes errors of them):
      missing       a chunk is not stored
      nan           all elements of a chunk are NaN
      fill          all elements of a chunk are the fill value, or marked as missing
      constant      all elements of a chunk are the same
      infinite      a chunk has infinite values
      changed       a chunk was written since --ledger had its block
      unchecked     something cannot be checked: texts, missing chunks, or by a ledger

    Exit codes: 0 it is sound, 1 there are errors, 3 some of it cannot be read, others as
    `chunkfold --help` says.

    \b
    Examples:
      chunkfold check era5.zarr
      chunkfold check era5.zarr --array t2m --limits t2m=180:340 --fail-on missing
      chunkfold check s3://bucket/era5.zarr --ignore gap --json
      chunkfold check era5.zarr --plot chunks.png
      chunkfold check era5.zarr --ledger era5.ledger
    """
    check_plot(plot, overwrite=overwrite)
    archive = archive_at(
        source, arrays=arrays, limits=parsed_limits(limits), fail_on=fail_on, ignore=ignore,
        ledger=ledger, trust_ledger=trust_ledger,
    )  # fmt: skip
    looked_at: list[CheckedArray] = []
    with common_options.client_for(scheduler, specs, quiet=quiet) as client:
        for one in archive.members:
            with run_progress(err, quiet=quiet) as watch:
                looked_at.append(archive.look_at(one, memory=memory, client=client, on_event=watch))
        found = archive.soundness(looked_at)
        if as_json:
            click.echo(json_text(found.to_dict()))
        else:
            if found.findings:
                show(out, finding_table(found))
            width = min(out.width, _WIDEST)
            for array in () if quiet else found.arrays:
                for line in grid_lines(array, width):
                    out.print(line, markup=False)
            out.print(found.summary, markup=False)
        if plot is not None:
            draw_grids(plot, found.arrays)
    if not found.ok:
        click.get_current_context().exit(EXIT_SKIPPED if found.unread else EXIT_FAULT)

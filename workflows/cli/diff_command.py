"""`chunkfold diff`: whether two arrays, or groups, are equal, and how far they are apart."""

from __future__ import annotations

from typing import Any

import click

from chunkfold.errors import PlanError
from chunkfold.planning.option_values import Section
from chunkfold.sources.source import Source
from chunkfold.workflows.as_json import json_text
from chunkfold.workflows.cli import EXIT_FAULT, EXIT_SKIPPED, common_options
from chunkfold.workflows.cli.numbers import NumberOption, Whole
from chunkfold.workflows.comparisons.diff import Difference, compared, comparison
from chunkfold.workflows.comparisons.diff_groups import GroupDifference, paired_groups
from chunkfold.workflows.comparisons.tolerances import Tolerance
from chunkfold.workflows.files.results_json import difference_json, group_difference_json
from chunkfold.workflows.options.selecting import parse_selection
from chunkfold.workflows.terminal.consoles import err, out
from chunkfold.workflows.terminal.progress import run_progress


@common_options.command()
@click.argument("first")
@click.argument("second")
@common_options.stores
@common_options.written("selection", "mask_and_scale", "memory")
@common_options.option(
    "--rtol",
    type=NumberOption(),
    default=0.0,
    section=Section.OPERATION,
    help="Allow differences up to this, relative to the element of SECOND: |x - y| <= atol + "
    "rtol * |y|, computed in float64.",
)
@common_options.option(
    "--atol",
    type=NumberOption(),
    default=0.0,
    section=Section.OPERATION,
    help="Allow differences up to this; added to the relative one.",
)
@common_options.option(
    "--ulp",
    type=Whole(min=0),
    default=0,
    section=Section.OPERATION,
    help="Allow differences of this many steps, each to the next value of the common dtype: 1 for "
    "neighbours. A pair is equal if it meets --ulp, or --rtol and --atol.",
)
@common_options.cluster
@common_options.as_json
@common_options.quiet
def diff_command(
    first: str,
    second: str,
    specs: tuple[str, ...],
    scheduler: str | None,
    memory: str | None,
    selection: str | None,
    rtol: float,
    atol: float,
    ulp: int,
    *,
    mask_and_scale: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Compare two Zarr arrays of equal shape, in any chunks, or all arrays of two groups.

    FIRST and SECOND are paths or URLs. Arrays of groups are paired by their paths; an array on one
    side only, or of another shape, is a difference. NaN equals NaN. Times and bools have no
    tolerance; an infinity equals only itself. Exit codes: 0 they are equal, or within the
    tolerance; 1 they differ; 3 an array of a group cannot be read; others as `chunkfold --help`
    says.

    \b
    Examples:
      chunkfold diff original.zarr copy.zarr
      chunkfold diff original.zarr/temperature copy.zarr/temperature --rtol 1e-6 --atol 1e-9
      chunkfold diff packed.zarr/air floats.zarr/air --mask-and-scale --ulp 1
      chunkfold diff old.zarr/air s3://bucket/new.zarr/air --select '0:100' --json
    """
    within = Tolerance(rtol, atol, ulp)
    options: Any = {"mask_and_scale": mask_and_scale, "memory": memory}
    groups = paired_groups(first, second, within, **options)
    if groups is None:
        request = comparison(first, second, within, selection=parse_selection(selection), **options)
        sources = list(request.sources)
    elif selection is not None:
        raise PlanError(f"selection is {selection!r}, but {first} is a group: select of two arrays")
    else:
        sources = [one for pair in groups.pairs.values() for one in pair if isinstance(one, Source)]
    common_options.tell_packed(sources, mask_and_scale=mask_and_scale, quiet=quiet)
    with common_options.client_for(scheduler, specs, quiet=quiet) as client:
        found: Difference | GroupDifference
        if groups is None:
            with run_progress(err, quiet=quiet) as watch:
                found = compared(request, within, client=client, on_event=watch)
        else:
            arrays = []
            for path in groups.pairs:
                with run_progress(err, quiet=quiet) as watch:
                    arrays.append(groups.compared(path, client=client, on_event=watch))
            found = groups.difference(arrays)
        if as_json:
            if isinstance(found, Difference):
                click.echo(json_text(difference_json(found)))
            else:
                click.echo(json_text(group_difference_json(found)))
        else:
            for line in found.lines():
                out.print(line, markup=False)
    if not found.equal:
        unread = isinstance(found, GroupDifference) and found.unread
        click.get_current_context().exit(EXIT_SKIPPED if unread else EXIT_FAULT)

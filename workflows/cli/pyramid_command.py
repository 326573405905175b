"""`chunkfold pyramid`: an image at coarser resolutions, from one read, as OME-Zarr."""

from __future__ import annotations

from typing import Any

import click

from chunkfold.errors import PlanError
from chunkfold.planning.option_values import OnBadChunk
from chunkfold.units import integer
from chunkfold.workflows.cli import common_options
from chunkfold.workflows.images.pyramid import write_pyramid
from chunkfold.workflows.images.pyramid_checks import LevelFactor
from chunkfold.workflows.images.pyramid_plan import plan_pyramid
from chunkfold.workflows.options.parsing import parse_edges, windows, words
from chunkfold.workflows.terminal.consoles import err
from chunkfold.workflows.terminal.progress import run_progress


@common_options.command()
@click.argument("source")
@click.argument("out")
@common_options.stores
@click.option(
    "--levels", type=click.IntRange(1), default=5, show_default=True,
    help="Number of coarser resolutions, not counting the image itself.",
)  # fmt: skip
@click.option(
    "--op", default="mean", show_default=True,
    help="Reduction that makes one element of several: mean, min, max, mode (labels) or another.",
)  # fmt: skip
@click.option(
    "--factor", metavar="N|AXIS=N", multiple=True,
    help="Factor from one level to the next, along y and x, or along named axes: 'z=2,y=2,x=2'.  "
    "[default: 2]",
)  # fmt: skip
@click.option(
    "--statistics/--no-statistics", default=True, show_default=True,
    help="Find minimum, maximum, mean and deviation of the whole image in the same read.",
)  # fmt: skip
@click.option(
    "--histogram", is_flag=True,
    help="Count the elements of the whole image in bins, too: sixteen to a power of two.",
)  # fmt: skip
@click.option(
    "--edges", metavar="EDGES",
    help="Count them in bins with these edges instead: '0,10,100', or LOW:HIGH:BINS of equal "
    "width.",
)  # fmt: skip
@common_options.written(
    "skipna", "mask_and_scale", "memory", "on_bad_chunk", "ledger", "trust_ledger"
)
@common_options.cluster
@common_options.overwrite
@common_options.quiet
def pyramid_command(
    source: str,
    out: str,
    levels: int,
    op: str,
    factor: tuple[str, ...],
    specs: tuple[str, ...],
    scheduler: str | None,
    on_bad_chunk: OnBadChunk,
    *,
    statistics: bool,
    histogram: bool,
    edges: str | None,
    overwrite: bool,
    quiet: bool,
    **others: Any,
) -> None:
    """Write the image SOURCE at coarser resolutions to OUT, all from one read.

    SOURCE is the path or URL of an array whose last axes are y and x. OUT is a new Zarr, which has
    an array for each level and OME-Zarr metadata (0.5). If OUT is the group that SOURCE is in, the
    levels are written next to it, and the metadata name it as the finest. Each element is exact:
    computed from all elements of the image that it covers, and rounded once.

    \b
    Examples:
      chunkfold pyramid image.zarr/0 image.zarr
      chunkfold pyramid image.zarr/0 image.zarr --histogram --edges 0:65536:256
      chunkfold pyramid cells.zarr/labels/cells/0 cells.zarr/labels/cells --op mode
      chunkfold pyramid image.zarr/0 small.zarr --levels 3 --op max --factor z=2,y=2,x=2
    """
    made = plan_pyramid(source, out, levels, op, _factor(factor), statistics=statistics,
                        histogram=histogram if edges is None else parse_edges(edges),
                        overwrite=overwrite, on_bad_chunk=on_bad_chunk,
                        **{name: value for name, value in others.items() if value})  # fmt: skip
    common_options.hold(out)
    request = made.request
    common_options.tell_packed(
        request.sources, mask_and_scale=request.options.mask_and_scale, quiet=quiet
    )
    with (
        common_options.client_for(scheduler, specs, quiet=quiet) as client,
        run_progress(err, quiet=quiet) as watch,
        common_options.or_skipped(on_bad_chunk),
    ):
        write_pyramid(made, out, overwrite=overwrite, client=client, on_event=watch)
    if not quiet:
        err.print(f"wrote {out}", markup=False)


def _factor(given: tuple[str, ...]) -> LevelFactor:
    if not given:
        return 2
    each = words(given)
    if len(each) == 1 and "=" not in each[0]:
        try:
            return integer(each[0])
        except ValueError:
            raise PlanError(
                f"factor {each[0]!r} is not a number, such as 2, or factors by axis, such as "
                "'y=2,x=2'"
            ) from None
    return windows(each)

"""`chunkfold plot`: results that were written, as a picture."""

from __future__ import annotations

import click

from chunkfold.errors import PlanError
from chunkfold.planning.option_values import Section
from chunkfold.workflows.cli import common_options
from chunkfold.workflows.files.read_results import read_results
from chunkfold.workflows.terminal.plots import TERMINAL, check_plot, save_plot


@common_options.command()
@click.argument("result")
@click.argument("picture", required=False, default=TERMINAL)
@common_options.option(
    "--name",
    "names",
    multiple=True,
    section=Section.SOURCE,
    help="Draw this result of the file; may be repeated.  [default: all that have axes]",
)
@common_options.overwrite
def plot_command(result: str, picture: str, names: tuple[str, ...], *, overwrite: bool) -> None:
    """Draw RESULT, which --out wrote (.nc, .zarr or .json), to PICTURE: PNG, SVG, PDF and others.

    Results with two axes are drawn as a map, with one axis as a line, groups as bars, lines or
    small multiples, histograms along the axis of their values, and quantiles as bands. Without
    PICTURE the terminal shows it, if it can (kitty, iTerm2, WezTerm, Ghostty).

    \b
    Examples:
      chunkfold plot climatology.nc climatology.png
      chunkfold plot climatology.zarr
      chunkfold plot statistics.json mean.svg --name mean
    """
    check_plot(picture, "xarray", overwrite=overwrite)
    found = read_results(result)
    lacking = [name for name in names if name not in found]
    if lacking:
        raise PlanError(f"{result} has no result {lacking[0]!r}; it has {', '.join(found)}")
    chosen = {name: found[name] for name in names or found}
    save_plot(picture, lambda: chosen, overwrite=overwrite)

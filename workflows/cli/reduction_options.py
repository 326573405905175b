"""Options that say what is reduced and how, and what they come to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from chunkfold.kernels.catalogue.named import NAMES
from chunkfold.planning.coarsening import BOUNDARIES
from chunkfold.planning.option_values import MODES
from chunkfold.planning.options import Options
from chunkfold.sources.concatenating import concatenate
from chunkfold.sources.opening import open_source
from chunkfold.sources.source import Source
from chunkfold.workflows.cli.label_options import LABELS
from chunkfold.workflows.cli.numbers import NumberOption, Whole
from chunkfold.workflows.cli.options import (
    absent_status,
    allow_targets,
    ddof,
    mask_and_scale,
    memory,
    on_missing_chunk,
    sel,
    select,
    stacked,
)
from chunkfold.workflows.job.sources import matching
from chunkfold.workflows.labels import labels_asked
from chunkfold.workflows.parsing import axis, named_reductions, wheres, windows, words
from chunkfold.workflows.selecting import parse_distance, parse_sel, parse_selection

sources = stacked(
    click.argument("sources", nargs=-1, required=True, metavar="SOURCE [SOURCE]"),
    click.option(
        "--concatenate",
        "joined",
        metavar="AXIS",
        help="All SOURCEs are one, along this axis, by number or name. They may be patterns: "
        "'data/*.zarr/air', 'data/*.nc/air'.",
    ),
    absent_status,
    allow_targets,
)


def opened(sources: Sequence[str], joined: str | None) -> list[Source]:
    """Open what the user named: each by itself, or all of them as one along an axis."""
    if joined is None:
        return [open_source(source) for source in sources]
    addresses = [address for source in sources for address in matching(source)]
    return [concatenate(addresses, axis(joined))]


reduction = stacked(
    click.option(
        "--op",
        "ops",
        multiple=True,
        help="Reduction; may be repeated, or several joined by commas. One of "
        f"{NAMES}.  [default: sum]",
    ),
    click.option(
        "--edges",
        metavar="EDGES",
        help="Bins of a histogram: their edges, '0,10,100', or LOW:HIGH:BINS of equal width.  "
        "[default: sixteen bins to a power of two]",
    ),
    click.option(
        "--sketch",
        type=NumberOption(),
        metavar="RTOL",
        help="Find quantiles within this relative tolerance, as 0.01, by one read.  [default: "
        "exactly]",
    ),
    click.option(
        "--axis",
        "axes",
        multiple=True,
        help="Axis to reduce, by number or name; may be repeated, or several joined by commas.",
    ),
    click.option(
        "--coarsen",
        metavar="AXIS=N",
        multiple=True,
        help="Reduce windows of so many elements along an axis, by number or name; may be "
        "repeated, or several joined by commas, as in 'y=2,x=2'. --axis names others that are "
        "reduced whole.",
    ),
    click.option(
        "--boundary",
        type=click.Choice(BOUNDARIES),
        default=Options.boundary,
        show_default=True,
        help="Where elements are no multiple of windows: refuse, leave the last ones out (trim), "
        "or make a shorter window of them (pad).",
    ),
    ddof,
    click.option("--skipna", is_flag=True, help="Take elements that are NaN or NaT for absent."),
    click.option(
        "--min-count",
        type=Whole(min=0),
        default=Options.min_count,
        help="Results of fewer elements that are there are NaN or NaT.",
    ),
    click.option(
        "--initial",
        type=NumberOption(),
        help="What sums, products, minima and maxima begin with; they are that of no elements.",
    ),
    click.option(
        "--where",
        metavar="CONDITION",
        help="Take elements for absent of which this does not hold, as 'x > 300' or "
        "'0 < x < 1 and not isnan(x)'.",
    ),
    click.option(
        "--mask",
        metavar="ZARR",
        help="Bools along some axes, by their names or the last ones: elements count where they "
        "are true.",
    ),
    click.option(
        "--weights",
        metavar="ZARR",
        help="Weights along some axes, as a mask's, in sums, means, variances, deviations, "
        "histograms and quantiles; or what they are of coordinates in degrees, as 'cos(lat)'.",
    ),
    *LABELS,
    mask_and_scale,
    click.option(
        "--mode",
        type=click.Choice(MODES),
        default=Options.mode,
        show_default=True,
        help="exact: float sums, means, variances and norms without rounding, rounded once, the "
        "same bits wherever they run; fast: with the error bound of docs/numerics.md.",
    ),
    click.option(
        "--dtype",
        help="Cast elements to this first, and the result to it; object: sums (of any size) and "
        "products (of 64 bits) of integers as Python's.",
    ),
    memory,
    select,
    sel,
    on_missing_chunk,
)
"""How it is reduced."""


def asked_for(
    *,
    ops: tuple[str, ...],
    edges: str | None,
    sketch: float | None,
    axes: tuple[str, ...],
    coarsen: tuple[str, ...],
    ddof: float,
    by: tuple[str, ...],
    by_axes: tuple[str, ...],
    bins: tuple[str, ...],
    groups: tuple[str, ...],
    resample: tuple[str, ...],
    selection: str | None,
    sel: tuple[str, ...],
    sel_tolerance: str | None,
    where: str | None,
    mask: str | None,
    initial: float | None,
    **others: Any,
) -> Options:
    """Turn what a command line says of a reduction into the library's options."""
    return Options(
        named_reductions(words(ops) or ["sum"], edges, sketch),
        axis=[axis(word) for word in words(axes)] if axes else None,
        coarsen=windows(words(coarsen)) if coarsen else None,
        ddof=_whole(ddof),
        selection=parse_selection(selection),
        sel=parse_sel(sel),
        sel_tolerance=parse_distance(sel_tolerance),
        where=wheres(where, mask),
        **labels_asked(by, bins, groups, resample, by_axes),
        initial=_whole(initial),
        **others,
    )


def _whole(number: Any) -> Any:
    """Return a number as Python's integer, if it is whole."""
    whole = number is not None and number.is_integer()
    return int(number) if whole else number

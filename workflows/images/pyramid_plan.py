"""Checks that an image can be written at several resolutions, and plans the levels."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

from chunkfold.errors import PlanError
from chunkfold.outputs.output_places import is_url, out_text, refuse_origins, refuse_overlaps
from chunkfold.outputs.outputs import check_output, check_writable
from chunkfold.outputs.staging_folder import question_of
from chunkfold.planning.ledger_span_keys import component_ids
from chunkfold.planning.option_table import Keywords, Op
from chunkfold.planning.options import options_of
from chunkfold.planning.request import Request, Streamed
from chunkfold.planning.resolve import resolve
from chunkfold.sources.opening import open_node, open_source
from chunkfold.sources.source import Source
from chunkfold.tracebacks import warn_caller
from chunkfold.workflows.images.ome import Image, image_of, refuse_other_version
from chunkfold.workflows.images.ome_channels import apart
from chunkfold.workflows.images.pyramid_checks import (
    Histogram,
    LevelFactor,
    histograms_of,
    refuse_format_2,
    refuse_levels,
    refuse_no_labels,
    refuse_op,
    refuse_unresumable,
    windows_of,
)

STATISTICS, CHANNELS = "statistics", "channels"
"""Names of the questions besides levels: statistics of the image, and of each channel."""
SUMMARY = ("min", "max", "mean", "std")
"""Statistics of the whole image."""
_NOT_HERE = (
    "axis",
    "keepdims",
    "coarsen",
    "boundary",
    "by",
    "by_axis",
    "groups",
    "selection",
    "sel",
    "dtype",
)
_ROUNDED = ("mean", "nanmean", "weighted_mean")


@dataclass(frozen=True)
class Pyramid:
    """A pyramid that can be made."""

    request: Request
    image: Image
    factors: tuple[int, ...]
    """The factors from each level to the next, along each axis."""
    beside: bool
    """True if levels go into the group that has the source."""
    op: str

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the names of the arrays of the levels."""
        first = 1
        if self.beside and self.own.isdecimal():
            first = int(self.own) + 1
        assert self.request.streamed is not None
        return tuple(str(first + n) for n in range(self.request.streamed.levels))

    @property
    def question(self) -> str:
        """Hash of all that the levels are made of, but for elements; empty without a ledger."""
        options, (source,) = self.request.options, self.request.sources
        if options.ledger is None:
            return ""
        return question_of(
            source,
            self.image.names,
            (self.op, self.factors, self.paths, self.request.streamed),
            component_ids(self.request.bound().accumulator),
            (options.ddof, options.min_count, options.initial, options.on_bad_chunk),
            [(one.axes, one.values) for one in self.request.broadcast],
        )

    @property
    def own(self) -> str:
        """Return the name of the source in its group."""
        return Path(self.request.sources[0].local_path or "").name


def plan_pyramid(
    source: Any,
    out: str | Path,
    levels: int = 5,
    op: Op = "mean",
    factor: LevelFactor = 2,
    *,
    statistics: bool = True,
    histogram: Histogram = False,
    overwrite: bool = False,
    **options: Unpack[Keywords],
) -> Pyramid:
    """Find out whether a pyramid can be made, and be written; parameters as `pyramid`.

    Raises
    ------
    ChunkfoldError
        If not.
    """
    for name in _NOT_HERE:
        if options.get(name) is not None:
            raise PlanError(f"pyramid takes no {name}: levels have the axes of the image")
    if isinstance(levels, bool) or not isinstance(levels, int) or levels < 1:
        raise PlanError(f"levels is {levels!r}; a pyramid has 1 or more")
    opened, modes = open_source(source), op == "mode"
    image, windows = image_of(opened), windows_of(opened, factor)
    if op == "mean" and opened.dtype.kind in "iu" and "labels" in opened.name.split("/"):
        told = f"{opened.name} seems to have labels: op='mode' keeps them, but means are not labels"
        warn_caller(UserWarning(told))
    # Of modes the elements are read as they are.
    read = "max" if modes else op
    given = options_of([read], {**options, "coarsen": windows, "boundary": "pad"})
    each = {"levels": given}
    if whole := [*(SUMMARY if statistics else ()), *histograms_of(histogram)]:
        each[STATISTICS] = options_of(whole, options)
    if statistics and not modes and (axes := apart(image, opened.shape)):
        each[CHANNELS] = options_of(
            ["min", "max"], {**_whatever_is_left(opened, options), "axis": axes}
        )
    request = resolve(opened, each if len(each) > 1 else given)
    (name,) = request.options.names
    if modes:
        refuse_no_labels(request)
    refuse_op(request, name)
    factors = tuple(axis.window or 1 for axis in request.chosen)
    refuse_levels(request, factors, levels)
    whole_windows = ((1, by**levels) if modes else (by, by ** (levels - 1)) for by in factors)
    chosen = tuple(
        replace(axis, window=window, together=together) if axis.window else axis
        for axis, (window, together) in zip(request.chosen, whole_windows, strict=True)
    )
    rounds = name in _ROUNDED and opened.dtype.kind in "iu" and not any(request.packings)
    request = replace(
        request,
        chosen=chosen,
        streamed=Streamed(
            levels,
            factors if modes else (),
            opened.dtype.newbyteorder("=") if rounds else None,
        ),
    )
    beside = opened.local_path is not None and _same(Path(opened.local_path).parent, out)
    made = Pyramid(request, image, factors, beside, "mode" if modes else name)
    if request.options.ledger is not None:
        refuse_unresumable(op)
    _check_out(made, out, overwrite=overwrite)
    return made


def _whatever_is_left(opened: Source, options: Keywords) -> Keywords:
    """Return options by which channels of bad chunks alone have NaN for extremes."""
    if options.get("on_bad_chunk") != "skip":
        return options
    left: Keywords = {**options, "min_count": options.get("min_count") or 1}
    return {**left, "dtype": "float64"} if opened.dtype.kind in "biu" else left


def _check_out(made: Pyramid, out: str | Path, *, overwrite: bool) -> None:
    if not made.beside:
        refuse_origins(out, made.request.origins)
        refuse_overlaps(out, made.request.options.ledger)
        check_output(out, (".zarr",), overwrite=overwrite)
        return
    group = open_node(out)
    refuse_format_2(group.metadata.zarr_format, out_text(out))
    refuse_other_version(group.attrs.asdict(), out_text(out))
    for path in made.paths:
        check_writable(Path(out) / path, overwrite=overwrite)


def _same(folder: Path, out: str | Path) -> bool:
    return not is_url(out) and os.path.realpath(folder) == os.path.realpath(out)

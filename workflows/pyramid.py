"""An image at several resolutions, all of them from one read: OME-Zarr."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import zarr
from distributed import Client

from chunkfold.api import stream
from chunkfold.errors import OutputError, PlanError
from chunkfold.events import OnEvent
from chunkfold.kernels.catalogue.named import is_known
from chunkfold.planning.asking import asked
from chunkfold.planning.keywords import Keywords, options_of
from chunkfold.planning.options import Op
from chunkfold.planning.request import Request
from chunkfold.running.run import Run
from chunkfold.sources.axis_names import axis_numbers
from chunkfold.sources.opening import open_node, open_source
from chunkfold.sources.source import Source
from chunkfold.workflows.as_json import jsonable
from chunkfold.workflows.ome import VERSION, Image, image_of, multiscales
from chunkfold.workflows.outputs import (
    check_output,
    check_writable,
    is_remote,
    refuse_sources,
    shown,
    staged,
)
from chunkfold.workflows.zarr_tiles import ZarrTiles

SUMMARY = ("min", "max", "mean", "std")
"""What is told of the whole image."""
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
Factor = int | Mapping[int | str, int]


@dataclass(frozen=True)
class Pyramid:
    """What is to be made, seen to be possible."""

    request: Request
    image: Image
    factors: tuple[int, ...]
    """Of each level to the one before, along each axis."""
    beside: bool
    """Whether levels go into the group that has the source."""
    dtype: np.dtype | None
    """Of the levels, if not of the results."""
    op: str

    @property
    def paths(self) -> tuple[str, ...]:
        """What the arrays of the levels are called."""
        first = 1
        if self.beside and self.own.isdecimal():
            first = int(self.own) + 1
        return tuple(str(first + n) for n in range(self.request.levels))

    @property
    def own(self) -> str:
        """What the source is called in its group."""
        return Path(self.request.sources[0].local_path or "").name


def pyramid(
    source: Any,
    out: str | Path,
    levels: int = 5,
    op: Op = "mean",
    factor: Factor = 2,
    *,
    statistics: bool = True,
    overwrite: bool = False,
    client: Client | None = None,
    on_event: OnEvent | None = None,
    **options: Unpack[Keywords],
) -> Any:
    """Write an image at coarser resolutions, each exact, from one read of it.

    An element of a level is the op of all elements of the image that it stands for: rounded once,
    not a mean of rounded means. Along the end of an axis it stands for fewer.

    Parameters
    ----------
    source
        As `chunkfold.reduce` has it: 2 to 5 axes, of which the last ones are y and x.
    out
        Path or URL of a new Zarr: a group, of an array for each level. Or that of the group which
        the source is in: the levels are then written beside it, and the group's OME-Zarr metadata
        name the source as the finest.
    levels
        How many there are, beside the image itself.
    op
        "mean", "min", "max", or any other reduction with one result. Means of integers are rounded
        to integers, halves to the even one.
    factor
        By how much each level is coarser along y and x (or the last two axes); or along the axes
        that it names.
    statistics
        Whether minimum, maximum, mean and standard deviation of the whole image are found by the
        way: `chunkfold` among the group's attributes has them.
    overwrite
        Whether what is there goes, once the new levels are made.
    client, on_event
        As `chunkfold.reduce` has them.
    options
        Fields of `chunkfold.planning.options.Options` that do not change the axes.

    Returns
    -------
    The group.

    Raises
    ------
    ChunkfoldError
        If anything is wrong with these, or the reduction fails; nothing is then written.
    """
    made = plan_pyramid(source, out, levels, op, factor, statistics=statistics,
                        overwrite=overwrite, **options)  # fmt: skip
    return write_pyramid(made, out, overwrite=overwrite, client=client, on_event=on_event)


def plan_pyramid(
    source: Any,
    out: str | Path,
    levels: int = 5,
    op: Op = "mean",
    factor: Factor = 2,
    *,
    statistics: bool = True,
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
    if op == "mode":
        raise PlanError(
            "op='mode' would need to count every label of every window; for labels use op='max' or "
            "'min', which keep labels as they are, or reduce with by="
        )
    opened = open_source(source)
    image, windows = image_of(opened), _windows(opened, factor)
    extra = [one for one in SUMMARY if one != op] if statistics else []
    asked_for = options_of([op, *extra], {**options, "coarsen": windows, "boundary": "pad"})
    request = asked(opened, asked_for)
    names = request.options.names
    _refuse_op(request, names[0])
    of_all = () if not statistics else names if op in SUMMARY else names[1:]
    factors = tuple(axis.window or 1 for axis in request.chosen)
    _refuse_levels(request, factors, levels)
    chosen = tuple(
        replace(axis, together=axis.window ** (levels - 1)) if axis.window else axis
        for axis in request.chosen
    )
    request = replace(
        request,
        chosen=chosen,
        streams=True,
        levels=levels,
        of_all=of_all,
        of_all_alone=tuple(names[1:]),
    )
    beside = opened.local_path is not None and _same(Path(opened.local_path).parent, out)
    rounds = names[0] in _ROUNDED and opened.dtype.kind in "iu" and not any(request.packings)
    dtype = opened.dtype.newbyteorder("=") if rounds else None
    made = Pyramid(request, image, factors, beside, dtype, names[0])
    _check_out(made, out, overwrite=overwrite)
    return made


def write_pyramid(
    made: Pyramid,
    out: str | Path,
    *,
    overwrite: bool = False,
    client: Client | None = None,
    on_event: OnEvent | None = None,
) -> Any:
    """Carry out what `plan_pyramid` found to be sound; parameters and result as `pyramid`.

    Raises
    ------
    ChunkfoldError
        If the reduction fails; nothing is then written.
    """
    if not made.beside:
        with staged(out, overwrite=overwrite) as folder:
            run = _run(made, folder, out, client, on_event)
            _tell(zarr.open_group(str(folder), mode="a"), made, run)
        return open_node(out)
    # Within the group, so that levels take their places by being renamed.
    place = Path(out) / f"pyramid-{made.paths[0]}-to-{made.paths[-1]}"
    with staged(place, overwrite=True) as folder:
        run = _run(made, folder, out, client, on_event)
        for path in made.paths:
            _move(folder / path, Path(out) / path)
        _tell(zarr.open_group(str(out), mode="a"), made, run)
        shutil.rmtree(folder)
        folder.mkdir()  # what takes the place is empty, and goes
    place.rmdir()
    return open_node(out)


def _run(
    made: Pyramid, folder: Path, out: str | Path, client: Client | None, on_event: OnEvent | None
) -> Run:
    chunks = made.request.sources[0].chunks
    tiles = ZarrTiles(
        folder,
        out,
        lambda level, _: made.paths[level],
        lambda shape: tuple(min(a, b) for a, b in zip(chunks, shape, strict=True)),
        made.dtype,
        made.image.names,
    )
    run = stream(made.request, tiles, client=client, on_event=on_event)
    run.result()
    return run


def _tell(group: zarr.Group, made: Pyramid, run: Run) -> None:
    """Write what the levels are: last, so that nobody finds levels that are not whole."""
    levels: list[tuple[str, Sequence[int]]] = []
    if made.beside:
        levels.append((made.own, (1,) * len(made.factors)))
    levels += [
        (path, [factor ** (n + 1) for factor in made.factors]) for n, path in enumerate(made.paths)
    ]
    told = {
        "method": "chunkfold.workflows.pyramid",
        "version": metadata.version("chunkfold"),
        "kwargs": {"op": made.op, "factor": list(made.factors)},
    }
    ome = multiscales(made.image, levels, made.op, told)
    statistics = {name: jsonable(value) for name, value in run.summary.items()}
    source = made.request.sources[0].name
    before = group.attrs.get("ome")  # which may tell of channels and labels, too
    ome = {**before, **ome} if made.beside and isinstance(before, Mapping) else ome
    group.attrs.update({"ome": ome, "chunkfold": {"source": source, "statistics": statistics}})


def _windows(source: Source, factor: Factor) -> dict[int | str, int]:
    """Return by how much axes are to be coarser."""
    if isinstance(factor, Mapping):
        axis_numbers(source, list(factor))  # which says what is wrong with them
        windows = dict(factor)
    elif isinstance(factor, int) and not isinstance(factor, bool):
        ndim, names = len(source.shape), source.dims or ()
        named = [names.index(name) for name in ("y", "x") if list(names).count(name) == 1]
        windows = dict.fromkeys(named if len(named) == 2 else range(max(0, ndim - 2), ndim), factor)
    else:
        raise PlanError(
            f"factor is {factor!r}; give 2, or one for each axis, as {{'y': 2, 'x': 2}}"
        )
    if all(by == 1 for by in windows.values()):
        raise PlanError(f"factor is {factor!r}, which makes nothing coarser: give 2 or more")
    return windows


def _refuse_op(request: Request, name: str) -> None:
    monoid = request.options.monoids[0]
    if monoid.last_axis:
        raise PlanError(f"{name} has axes of its own: levels of an image have none")
    if request.reads_again:
        raise PlanError(f"{name} may read the image several times; a pyramid reads it once")
    if request.bound().accumulator.uses_index:
        raise PlanError(f"{name} tells positions, or may depend on them: a level has none")
    if len(request.sources) > 1 or (monoid.inputs > 1 and is_known(monoid) and not monoid.weights):
        raise PlanError(f"{name} takes {monoid.inputs} arrays; a pyramid is of one image")


def _refuse_levels(request: Request, factors: Sequence[int], levels: int) -> None:
    """Refuse levels behind that which has one element along all axes."""
    shrinking = [
        (axis.outputs, by) for axis, by in zip(request.chosen, factors, strict=True) if by > 1
    ]
    useful = 1
    while any(outputs > by ** (useful - 1) for outputs, by in shrinking):
        useful += 1
    if levels > useful:
        raise PlanError(
            f"levels is {levels}; of {request.name}, shape {request.sources[0].shape}, level "
            f"{useful} has one element along the axes that get coarser: give {useful} at most"
        )


def _check_out(made: Pyramid, out: str | Path, *, overwrite: bool) -> None:
    if not made.beside:
        refuse_sources(out, made.request.sources)
        check_output(out, (".zarr",), overwrite=overwrite)
        return
    group = open_node(out)
    if group.metadata.zarr_format == 2:
        raise PlanError(
            f"{shown(out)} is of Zarr's format 2, in which OME-Zarr {VERSION} has no metadata: "
            "write the levels to a new Zarr"
        )
    for path in made.paths:
        check_writable(Path(out) / path, overwrite=overwrite)


def _same(folder: Path, out: str | Path) -> bool:
    return not is_remote(out) and os.path.realpath(folder) == os.path.realpath(out)


def _move(made: Path, path: Path) -> None:
    """Put a level in its place; what was there goes the moment before."""
    try:
        if path.exists():
            shutil.rmtree(path)
        made.replace(path)
    except OSError as error:
        raise OutputError(f"level {path} cannot be written: {error}") from error

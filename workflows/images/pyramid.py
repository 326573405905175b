"""An image at several resolutions, all of them from one read: OME-Zarr."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any, Unpack

import zarr
from distributed import Client

from chunkfold.api import stream
from chunkfold.events import OnEvent
from chunkfold.outputs.outputs import moved, resumable, staged
from chunkfold.outputs.staged_objects import StagedObjects
from chunkfold.outputs.staging_folder import StagedOutput, leave_staged
from chunkfold.planning.option_table import Keywords, Op
from chunkfold.running.run import Run
from chunkfold.sources.neighbours import compressors_of
from chunkfold.sources.ome_zarr import images, levels_of
from chunkfold.sources.opening import open_node
from chunkfold.stores.addresses import node_type
from chunkfold.tracebacks import traceback_cut
from chunkfold.workflows.as_json import jsonable
from chunkfold.workflows.images.ome import (
    VERSION,
    beside_images,
    coarser_levels,
    multiscale,
    without,
    without_levels,
)
from chunkfold.workflows.images.ome_channels import shown
from chunkfold.workflows.images.pyramid_checks import Histogram, LevelFactor
from chunkfold.workflows.images.pyramid_plan import CHANNELS, STATISTICS, Pyramid, plan_pyramid
from chunkfold.workflows.regionwise.zarr_tiles import ZarrTiles

_METHOD = "chunkfold.workflows.images.pyramid"
"""The method in the metadata of levels that this module wrote."""
_STAGING = ".chunkfold-levels"
"""The folder of levels until they are complete: no array has this name."""


@traceback_cut
def pyramid(
    source: Any,
    out: str | Path,
    levels: int = 5,
    op: Op = "mean",
    factor: LevelFactor = 2,
    *,
    statistics: bool = True,
    histogram: Histogram = False,
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
        name the source as the finest. What these say of the image stays, in a new Zarr too.
    levels
        How many there are, beside the image itself.
    op
        "mean", "min", "max", "mode" (of labels: the least of those that are as frequent), or any
        other reduction with one result. Means of integers are rounded to float64 and then to
        integers, halves to the even one; of no elements, as of skipped chunks, they are 0.
    factor
        By how much each level is coarser along y and x (or the last two axes); or along the axes
        that it names.
    statistics
        Whether minimum, maximum, mean and standard deviation of the whole image are found by the
        way: `chunkfold` among the group's attributes has them. Viewers are then told to show each
        channel from its minimum to its maximum, unless the group says already how it is shown.
    histogram
        Whether its elements are counted by bins, too: by these edges, if they are given.
    overwrite
        Whether what is there goes, once the new levels are made: also coarser levels than these
        that an earlier pyramid has.
    client, on_event
        As `chunkfold.reduce` has them.
    options
        Rows of `chunkfold.planning.option_table.OptionTable` that do not change the axes.

    Returns
    -------
    The group.

    Raises
    ------
    ChunkfoldError
        If anything is wrong with these, or the reduction fails; nothing is then written.
    """
    made = plan_pyramid(source, out, levels, op, factor, statistics=statistics,
                        histogram=histogram, overwrite=overwrite, **options)  # fmt: skip
    return write_pyramid(made, out, overwrite=overwrite, client=client, on_event=on_event)


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
        with resumable(out, overwrite=overwrite, question=made.question) as output:
            run = _run(made, output, out, client, on_event)
            _tell(zarr.open_group(output.made, mode="a"), made, run)
        return open_node(out)
    place = Path(out) / _STAGING  # within the group, so that levels are renamed into place
    with staged(place, overwrite=True, question=made.question) as folder:
        output = StagedOutput.at(folder, made.question)
        run = _run(made, output, out, client, on_event)
        leave_staged(folder)
        group = zarr.open_group(str(out), mode="a")
        gone = coarser_levels(group.attrs, _METHOD, int(made.paths[-1])) if overwrite else []
        before = images(group.attrs)
        # Until they are in their places.
        if told := without_levels(group.attrs, [*made.paths, *gone]):
            group.attrs.update(told)
        for path in made.paths:
            moved(folder / path, Path(out) / path)
        _tell(group, made, run, before, gone)
        for path in gone:  # there were more before
            _remove_array(Path(out) / path)
        if group.metadata.consolidated_metadata is not None:
            zarr.consolidate_metadata(str(out))
        shutil.rmtree(folder)
        folder.mkdir()  # what takes the place is empty, and goes
    place.rmdir()
    return open_node(out)


def _run(
    made: Pyramid,
    output: StagedOutput | StagedObjects,
    out: str | Path,
    client: Client | None,
    on_event: OnEvent | None,
) -> Run:
    request, chunks = made.request, made.request.sources[0].chunks
    assert request.streamed is not None
    if made.question:
        request = replace(request, streamed=replace(request.streamed, staged=output.name))
    tiles = ZarrTiles(
        output.made,
        out,
        lambda level, _: made.paths[level],
        lambda shape: tuple(min(a, b) for a, b in zip(chunks, shape, strict=True)),
        made.image.names,
        compressors_of(made.request.sources[0]),
        output.keep,
    )
    run = stream(request, tiles, client=client, on_event=on_event)
    run.result()
    return run


def _tell(
    group: zarr.Group,
    made: Pyramid,
    run: Run,
    before: Sequence[Mapping[str, Any]] = (),
    gone: Sequence[str] = (),
) -> None:
    """Write what the levels are: last, so that nobody finds levels that are not whole.

    `before` are the images that the group had: others than this one stay, in their places. `gone`
    are levels that are there no more.
    """
    levels: list[tuple[str, Sequence[int]]] = [
        (path, [factor ** (n + 1) for factor in made.factors]) for n, path in enumerate(made.paths)
    ]
    told = {
        "method": _METHOD,
        "version": metadata.version("chunkfold"),
        "kwargs": {"op": made.op, "factor": list(made.factors)},
        "levels": list(made.paths),
    }
    own = made.own if made.beside else None
    one = multiscale(made.image, own, levels, made.op, told, gone)
    place = next((n for n, other in enumerate(before) if own in levels_of(other)), -1)
    each = [
        one if n == place else without(other, [*made.paths, *gone])
        for n, other in enumerate(before)
    ]
    every = [*([one] if place < 0 else []), *(other for other in each if other is not None)]
    statistics = {name: jsonable(value) for name, value in _answer(run, STATISTICS).items()}
    kept = beside_images(group.attrs) if made.beside else {}
    shown_as = shown(made.image, made.request, statistics, _answer(run, CHANNELS))
    ome = {"version": VERSION, **shown_as, **kept, "multiscales": every}
    source = made.request.sources[0].name
    group.attrs.update({"ome": ome, "chunkfold": {"source": source, "statistics": statistics}})


def _answer(run: Run, question: str) -> Mapping[str, Any]:
    """Return what was found beside the levels; nothing if it was not asked for."""
    return run.answers[question].values if question in run.answers else {}


def _remove_array(place: Path) -> None:
    """Remove an array that was made here, unless something else has taken its place."""
    if not place.is_symlink() and node_type(place) == "array":
        shutil.rmtree(place)

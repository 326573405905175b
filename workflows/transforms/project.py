"""Reduce an array along axes into a new Zarr: projections, climatologies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Unpack

from distributed import Client

from chunkfold.api import stream, submit
from chunkfold.errors import PlanError
from chunkfold.events import OnEvent
from chunkfold.outputs.output_places import refuse_origins, refuse_overlaps
from chunkfold.outputs.outputs import check_output, staged
from chunkfold.planning.option_table import Keywords, Op
from chunkfold.planning.options import DEFAULT, Options, options_of, with_options
from chunkfold.planning.request import Request
from chunkfold.planning.resolve import resolve
from chunkfold.sources.opening import open_node
from chunkfold.tracebacks import traceback_cut
from chunkfold.workflows.files.as_zarr import (
    check_results,
    refuse_own_axes,
    write_zarr,
)
from chunkfold.workflows.files.names import refuse_taken_names
from chunkfold.workflows.regionwise.zarr_tiles import ZarrTiles


@traceback_cut
@with_options
def project(
    source: Any,
    out: str | Path,
    op: Op | Sequence[Op] = DEFAULT,
    *,
    overwrite: bool = False,
    client: Client | None = None,
    on_event: OnEvent | None = None,
    **options: Unpack[Keywords],
) -> Any:
    """Reduce an array along some axes, which must be named, and write what comes of it.

    Parameters
    ----------
    source, client, on_event
        As `chunkfold.reduce` has them.
    out
        Path or URL of the new Zarr: a group, of an array for each op. They keep the names of the
        axes that are left, whose coordinates come along, and those of the source's attributes that
        are true of them; `chunkfold` among them says what was done. An op that has axes of its own
        (histogram, minmax) is refused, and so is one that is called as an axis that is left, or as
        an array that comes along. A projection of an OME-Zarr image is an image too, if the axes
        that are left allow it.
    op, options
        The rows of `chunkfold.planning.option_table.OptionTable`.
    overwrite
        Whether what is there goes, once the new Zarr is made.

    Returns
    -------
    The new group.

    Raises
    ------
    ChunkfoldError
        If anything is wrong with these, or the reduction fails; nothing is then written.
    """
    request = projection(source, out, options_of(op, options), overwrite=overwrite)
    return write_projection(request, out, overwrite=overwrite, client=client, on_event=on_event)


def projection(
    source: Any, out: str | Path, options: Options, *, overwrite: bool = False
) -> Request:
    """Open what is to be projected, and find out whether it can be, and be written.

    Raises
    ------
    ChunkfoldError
        If not, or an op has axes of its own.
    """
    if options.axis is None and options.coarsen is None:
        raise PlanError(
            "name the axes to reduce: axis=0 (--axis 0), or windows, coarsen={0: 2}; to reduce "
            "all axes, use reduce"
        )
    request = resolve(source, options)
    refuse_origins(out, request.origins)
    refuse_overlaps(out, options.ledger)
    check_output(out, (".zarr",), overwrite=overwrite)
    check_results(out, options)
    refuse_own_axes(options, "use reduce --out for it")
    refuse_taken_names(out, request)
    return request


def write_projection(
    request: Request,
    out: str | Path,
    *,
    overwrite: bool = False,
    chunks: Callable[[tuple[int, ...]], tuple[int, ...]] | None = None,
    client: Client | None = None,
    on_event: OnEvent | None = None,
) -> Any:
    """Carry out what `projection` found to be sound; parameters and result as `project`.

    Results are written tile by tile: not all of them are in memory. `chunks` gives those of
    an array of a shape; None: so that few tiles share one.

    Raises
    ------
    ChunkfoldError
        If the reduction fails; nothing is then written.
    """
    turned = any(axis.order is not None for axis in request.chosen)
    if turned or request.reads_again():  # results are not there, or in order, tile by tile
        found = submit(request, client=client, on_event=on_event)
        found.result()
        with staged(out, overwrite=overwrite) as made:
            write_zarr(made, {"": found.results})
        return open_node(out)
    with staged(out, overwrite=overwrite) as made:
        run = stream(request, ZarrTiles(made, out, chunks=chunks), client=client, on_event=on_event)
        run.result()
        write_zarr(made, {"": run.results})
    return open_node(out)

"""Reduce an array along axes into a new Zarr: projections, climatologies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chunkfold.api import submit
from chunkfold.planning.request import Op
from chunkfold.sources.labels import read_labels
from chunkfold.sources.opening import open_node, open_source
from chunkfold.sources.source import Source
from chunkfold.workflows.as_zarr import (
    check_results,
    refuse_own_axes,
    write_zarr,
)
from chunkfold.workflows.names import refuse_taken_names
from chunkfold.workflows.outputs import check_output, refuse_sources, staged


def project(
    source: Any,
    out: str | Path,
    op: Op | Sequence[Op] = "sum",
    *,
    axis: int | str | Sequence[int | str],
    overwrite: bool = False,
    **given: Any,
) -> Any:
    """Reduce an array along some axes, and write what comes of it.

    Parameters
    ----------
    source, given
        As `chunkfold.reduce` has them.
    out
        Path or URL of the new Zarr: a group, of an array for each op. They keep the names of the
        axes that are left, whose coordinates come along, and those of the source's attributes that
        are true of them; `chunkfold` among them says what was done.
    op
        One reduction or several; not those that have axes of their own (histogram, minmax), nor one
        that is called as an axis that is left, or as an array that comes along.
    axis
        Axes to reduce, by number or by name.
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
    found = open_source(source)
    check_projection(found, out, op, given.get("dtype"), overwrite=overwrite)
    names: dict[str, Any] = {
        name: given[name] for name in ("selection", "keepdims") if name in given
    }
    if given.get("by") is not None:
        terms = {"mask_and_scale": bool(given.get("mask_and_scale"))}
        given["by"] = read_labels(given["by"], given.get("storage_options"), **terms)
        names["by"] = given["by"]
    refuse_taken_names(out, found, op, axis=axis, **names)
    run = submit(found, op, axis=axis, **given)
    run.result()
    with staged(out, overwrite=overwrite) as made:
        write_zarr(made, {"": run.results})
    return open_node(out)


def check_projection(
    source: Source,
    out: str | Path,
    op: Op | Sequence[Op],
    dtype: Any = None,
    *,
    overwrite: bool = False,
) -> None:
    """Find out before the work starts whether a projection can be written.

    Raises
    ------
    PlanError
        If not, or an op has axes of its own.
    """
    refuse_sources(out, [source])
    check_output(out, (".zarr",), overwrite=overwrite)
    check_results(out, op, dtype)
    refuse_own_axes(op, "use reduce --out for it")

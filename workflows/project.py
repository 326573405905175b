"""Reduce an array along axes into a new Zarr: projections, climatologies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from chunkfold.api import submit
from chunkfold.errors import PlanError
from chunkfold.request import Op
from chunkfold.source import Source, open_source
from chunkfold.workflows.results import check_zarr, staged


def project(
    source: Any,
    out: str | Path,
    op: Op | Sequence[Op] = "max",
    *,
    axis: int | Sequence[int],
    **given: Any,
) -> Any:
    """Reduce an array along some axes, and write what comes of it.

    Parameters
    ----------
    source, axis, given
        As `chunkfold.reduce` has them.
    out
        Folder of the new Zarr, which must not exist: an array; or with several ops a group, of an
        array for each. They keep the names of the axes that are left, and the source's attributes;
        `chunkfold` among these says what they were made of.
    op
        One reduction or several; not histograms, which have axes of their own.

    Returns
    -------
    The new array, or group.

    Raises
    ------
    ChunkfoldError
        If anything is wrong with these, or the reduction fails; nothing is then written.
    """
    path, found = Path(out), open_source(source)
    check_zarr(path, given.get("dtype"))
    run = submit(found, op, axis=axis, **given)
    results, layout = run.result(), run.plan.layout
    several = isinstance(results, Mapping)
    alive = [n for n, entry in enumerate(layout.axes) if not entry.dropped]
    kept = [n for n in alive if given.get("keepdims") or n not in layout.reduced]
    reduced = [n for n in alive if n in layout.reduced]
    with staged(path) as made:
        if several:
            group = zarr.open_group(str(made), mode="w", zarr_format=3)
        for name, value in results.items() if several else [(run.plan.ops[0], results)]:
            array = np.asarray(value)
            if array.ndim != len(kept):
                raise PlanError(f"{name} has axes of its own: use reduce --out for it")
            described = _attributes(found, name, reduced)
            names = _names(found, kept)
            if several:
                group.create_array(name, data=array, attributes=described, dimension_names=names)
            else:
                zarr.create_array(
                    str(made), data=array, attributes=described, dimension_names=names
                )
    return zarr.open(str(path), mode="r")


def _names(source: Source, kept: Sequence[int]) -> list[str | None] | None:
    """Return the names of the axes that are kept, if axes have names: zarr's, or xarray's."""
    names: Any = getattr(source.array.metadata, "dimension_names", None)
    names = names or source.array.attrs.asdict().get("_ARRAY_DIMENSIONS")
    return [names[n] for n in kept] if names and len(names) == len(source.shape) else None


def _attributes(source: Source, op: str, reduced: Sequence[int]) -> dict[str, Any]:
    attributes = dict(source.array.attrs)
    attributes.pop("_ARRAY_DIMENSIONS", None)
    names = _names(source, reduced) or reduced
    made_of = {"source": source.name, "op": op, "axes": list(names)}
    return attributes | {"chunkfold": made_of}

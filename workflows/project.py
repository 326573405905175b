"""Reduce an array along axes into a new Zarr: projections, climatologies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from chunkfold.api import submit
from chunkfold.errors import PlanError
from chunkfold.kernels import Monoid
from chunkfold.opening import open_source
from chunkfold.request import Op
from chunkfold.source import Source
from chunkfold.workflows.results import check_zarr, staged

_SAME_UNITS = ("sum", "min", "max", "mean", "std", "norm1", "norm2", "norminf")
_TOLD = ("selection", "ddof", "skipna", "dtype", "mode")
"""Arguments that change the result."""


def project(
    source: Any,
    out: str | Path,
    op: Op | Sequence[Op],
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
        array for each. They keep the names of the axes that are left, and the source's attributes,
        but for `units` where these are others; `chunkfold` among them says what was done.
    op
        One reduction or several; not those that have axes of their own (histogram, minmax).

    Returns
    -------
    The new array, or group.

    Raises
    ------
    ChunkfoldError
        If anything is wrong with these, or the reduction fails; nothing is then written.
    """
    path, found = Path(out), open_source(source)
    check_projection(path, op, given.get("dtype"))
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
                raise _of_its_own(name)
            described = _attributes(found, name, reduced, given)
            names = axis_names(found, kept)
            if several:
                group.create_array(name, data=array, attributes=described, dimension_names=names)
            else:
                zarr.create_array(
                    str(made), data=array, attributes=described, dimension_names=names
                )
    return zarr.open(str(path), mode="r")


def check_projection(path: Path, op: Op | Sequence[Op], dtype: Any = None) -> None:
    """Find out before the work starts whether a projection can be written.

    Raises
    ------
    PlanError
        If not, or an op has axes of its own.
    """
    check_zarr(path, dtype)
    ops = [op] if isinstance(op, (str, Monoid)) else op
    for name in (one.name if isinstance(one, Monoid) else one for one in ops):
        if name in ("histogram", "minmax"):
            raise _of_its_own(name)


def _of_its_own(name: str) -> PlanError:
    return PlanError(f"{name} has axes of its own: use reduce --out for it")


def axis_names(source: Source, axes: Sequence[int]) -> list[str | None] | None:
    """Return the names of some axes, if axes have names: zarr's, or xarray's."""
    names: Any = getattr(source.array.metadata, "dimension_names", None)
    names = names or source.array.attrs.asdict().get("_ARRAY_DIMENSIONS")
    fits = isinstance(names, (list, tuple)) and len(names) == len(source.shape)
    if not fits or not all(name is None or isinstance(name, str) for name in names):
        return None
    return [names[n] for n in axes]


def _attributes(
    source: Source, op: str, reduced: Sequence[int], given: Mapping[str, Any]
) -> dict[str, Any]:
    attributes = dict(source.array.attrs)
    attributes.pop("_ARRAY_DIMENSIONS", None)
    if op.removeprefix("nan") not in _SAME_UNITS:
        attributes.pop("units", None)
    names = axis_names(source, reduced) or reduced
    made_of = {"source": source.name, "op": op, "axes": list(names)}
    made_of |= {name: str(given[name]) for name in _TOLD if given.get(name)}
    return attributes | {"chunkfold": made_of}

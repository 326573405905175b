"""Weights, masks and the like must be of the same positions as data: coordinates are compared."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from chunkfold.errors import PlanError, SourceError
from chunkfold.sources.data_arrays import DataArrays, is_of_xarray
from chunkfold.sources.neighbours import axis_coordinate
from chunkfold.sources.source import Source

_NEAR = 1e-5
"""Coordinates of a Zarr may be stored as float32."""
Same = Callable[[Any, Any], Any]
"""Tells of places of the data, and those of what goes along, which are the same: bools."""


def refuse_other_coordinates(what: str, given: Any, data: Source | DataArrays) -> None:
    """See that weights, a mask or labels that xarray holds are of the data's places, in order.

    Of what is no DataArray only a Zarr array's numeric coordinates can be compared.

    Raises
    ------
    PlanError
        If an axis that both have is called differently along it.
    """
    if not is_of_xarray(given):
        return
    for dim in (one for one in given.dims if one in given.indexes):
        there, (here, same) = given.indexes[dim], _along(data, dim, given.indexes[dim])
        if here is None or len(here) != len(there) or there.equals(here):
            continue  # extents are seen to elsewhere
        unlike = np.flatnonzero(~np.asarray(same(here, there), bool))
        if unlike.size:
            place = int(unlike[0])
            raise PlanError(
                f"{what}: {dim!r} is {there[place]} at {place}, where that of {data.name} is "
                f"{here[place]}: give the same places in the same order, as {what}.sel({dim}="
                f"data.{dim}) has them"
            )


def _along(data: Source | DataArrays, dim: Hashable, there: Any) -> tuple[Any, Same]:
    """Return the data's places along an axis, None if it has none, and how they are compared."""
    if isinstance(data, DataArrays):
        return data.arrays[0].indexes.get(dim), operator.eq
    numbers = dim in (data.dims or ()) and there.dtype.kind in "iuf"
    return (_coordinate(data, str(dim)) if numbers else None), _near


def _near(here: np.ndarray, there: Any) -> Any:
    scale = _NEAR * np.abs(here).max(initial=0)
    return np.isclose(here, np.asarray(there), rtol=_NEAR, atol=scale)


def _coordinate(source: Source, dim: str) -> np.ndarray | None:
    """Return the numbers along an axis; None if there are none that can be read."""
    try:
        found = axis_coordinate(source, dim)
        if found is None or found.dtype.kind not in "iuf":
            return None
        return found.values(found.whole())
    except (SourceError, PlanError, ValueError, OSError):  # results are worth more
        return None

"""Whether what goes along a source is of the same places: by coordinates, where both have some."""

from __future__ import annotations

from typing import Any

import numpy as np

from chunkfold.errors import PlanError, SourceError
from chunkfold.sources.cf_packing import packing_of
from chunkfold.sources.data_arrays import is_held
from chunkfold.sources.opening import open_beside
from chunkfold.sources.source import Source
from chunkfold.sources.zarr_source import ZarrSource

_NEAR = 1e-5
"""Coordinates may be stored as float32."""


def refuse_other_places(what: str, given: Any, source: Source) -> None:
    """See that weights, a mask or labels that xarray holds are of a source's places, in its order.

    Of a Zarr array's numeric coordinates; what else there is cannot be compared.

    Raises
    ------
    PlanError
        If an axis that both have is called differently along it.
    """
    if not is_held(given):
        return
    for dim in (one for one in given.dims if one in given.indexes and one in (source.dims or ())):
        there, here = np.asarray(given.indexes[dim]), _coordinate(source, str(dim))
        if here is None or there.dtype.kind not in "iuf" or here.shape != there.shape:
            continue  # extents are seen to elsewhere
        apart = ~np.isclose(here, there, rtol=_NEAR, atol=_NEAR * np.abs(here).max(initial=0))
        if apart.any():
            place = int(np.argmax(apart))
            raise PlanError(
                f"{what}: {dim!r} is {there[place]} at {place}, where that of {source.name} is "
                f"{here[place]}: give the same places in the same order, as {what}.sel or .reindex "
                "gives them"
            )


def _coordinate(source: Source, dim: str) -> np.ndarray | None:
    """Return the numbers along an axis; None if there are none that can be read."""
    try:
        found = open_beside(source, dim)
        if found is None or found.ndim != 1 or np.dtype(found.dtype).kind not in "iuf":
            return None
        values, packing = np.asarray(found[...]), packing_of(ZarrSource(found, dim))
    except (SourceError, PlanError, ValueError, OSError):  # results are worth more
        return None
    return values if packing is None else packing.values(values)

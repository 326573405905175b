"""Decodes stored values of a coordinate: to numbers, dates or texts, as xarray does."""

from __future__ import annotations

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.results.coordinates import Auxiliary
from chunkfold.sources.dates import dates


def decoded(one: Auxiliary) -> np.ndarray:
    """Return the values of an array that was read: of its shape; objects if they are texts.

    What is missing of them is NaN or NaT. They are as they are stored where attributes cannot be
    read, or no calendar is known that they tell of.
    """
    stored = np.asarray(one.values)
    if stored.dtype.kind not in "iuf":
        return stored if stored.dtype.kind in "bcmM" else stored.astype(object)
    try:
        packing = one.found.packing
    except PlanError:
        return stored
    values, missing = stored, np.zeros(stored.shape, bool)
    if packing is not None:
        held = stored.view(packing.stored_dtype(stored.dtype))
        missing = np.isin(held, np.array(packing.missing, held.dtype))
        # Of integers that are masked only none is rounded, if they are dates.
        values = packing.values(stored) if packing.scales else held
    units, calendar = (one.attributes.get(name) for name in ("units", "calendar"))
    if isinstance(units, str):
        found = dates(values, units, calendar if isinstance(calendar, str) else "standard")
        if found is not None:
            found[missing] = np.datetime64("NaT") if found.dtype.kind == "M" else None
            return found
    return one.found.values(stored) if missing.any() else values

"""A coordinate of results: what the places along their axes are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.results.averages import averaged
from chunkfold.results.coordinates import Auxiliary
from chunkfold.sources.bins import Intervals
from chunkfold.sources.cf_packing import MISSING, SCALING
from chunkfold.sources.dates import dates

_OF_STORAGE = (*SCALING, *MISSING, "_Unsigned", "coordinates")
"""Attributes that say how values are stored, which decoded ones are not."""


@dataclass(frozen=True, eq=False)
class Coordinate:
    """Values along some axes of results: numbers, dates or texts."""

    name: str
    dims: tuple[str, ...]
    values: np.ndarray
    attrs: Mapping[str, Any] = field(default_factory=dict)
    """The attributes that hold for the values."""
    intervals: Intervals | None = None
    """The intervals whose texts are the values, if they are intervals."""

    @classmethod
    def of(cls, one: Auxiliary) -> Coordinate:
        """Decode an array that was read; of windows it has the means of what is decoded."""
        values, left_out = decoded(one), set(_OF_STORAGE)
        if any(one.windows):
            values = _averaged(one, values)
        if np.asarray(one.values).dtype.kind in "iuf" and values.dtype.kind in "MO":
            left_out |= {"units", "calendar"}  # which dates say themselves
        attrs = {name: said for name, said in one.attributes.items() if name not in left_out}
        return cls(one.name, one.axes, values, attrs)


def _averaged(one: Auxiliary, values: np.ndarray) -> np.ndarray:
    """Return the means of decoded values; of dates that are texts those of the numbers of days."""
    if values.dtype.kind != "O":
        return averaged(values, one.windows)
    calendar = str(one.attributes.get("calendar", "standard"))
    found = dates(np.asarray(one.averaged().values), str(one.attributes.get("units")), calendar)
    assert found is not None  # as it was for what is averaged
    return found


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

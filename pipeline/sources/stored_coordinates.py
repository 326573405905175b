"""The coordinate of an axis, as it is stored beside an array, with dates decoded by xarray."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkfold.errors import PlanError, SourceError
from chunkfold.sources.neighbours import axis_coordinate
from chunkfold.sources.source import Source

if TYPE_CHECKING:
    import xarray

_KIND = ("units", "standard_name")
"""Attributes that tell what values are, such as longitudes."""


def stored_coordinate(source: Source, dim: str) -> xarray.DataArray | None:
    """Return the coordinate of an axis; None if none is stored.

    Raises
    ------
    SourceError
        If there is one that cannot be read.
    PlanError
        If xarray is not installed, or not what it reads dates of such a calendar by.
    """
    try:
        import xarray as xr
    except ImportError:
        raise PlanError(
            "sel needs xarray's indexes: pip install 'chunkfold[xarray]'; or select by positions"
        ) from None
    found = _read(source, dim)
    if found is None:
        return None
    values, attributes = found
    return xr.DataArray(values, {dim: (dim, values, attributes)}, [dim], attrs=attributes)


def _read(source: Source, dim: str) -> tuple[np.ndarray, Mapping[str, Any]] | None:
    """Return decoded values, and what attributes say of their kind."""
    try:
        found = axis_coordinate(source, dim)
        stored = None if found is None else found.whole()
    except SourceError as error:
        raise SourceError(
            f"{source.name}: its coordinate {dim!r} cannot be read: {error}"
        ) from error
    if found is None or stored is None:
        return None
    try:
        said = {name: found.attributes[name] for name in _KIND if name in found.attributes}
        return found.as_xarray_decodes(stored), said
    except Exception as error:  # noqa: BLE001 # whatever xarray has for what it cannot decode
        why = str(error).strip().partition("\n")[0]
        raise PlanError(
            f"{source.name}: xarray does not read its coordinate {dim!r} ({why}): dates of a "
            "calendar that is not today's need pip install cftime; or select by positions"
        ) from None

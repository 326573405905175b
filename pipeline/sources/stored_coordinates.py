"""The coordinate of an axis, as it is stored beside an array, with dates decoded by xarray."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkfold.errors import PlanError, SourceError
from chunkfold.sources.concatenation import ConcatenatedSource
from chunkfold.sources.opening import open_beside
from chunkfold.sources.source import Source
from chunkfold.sources.zarr_arrays import AnyArray
from chunkfold.sources.zarr_source import ZarrSource

if TYPE_CHECKING:
    import xarray


def stored_coordinate(source: Source, dim: str) -> xarray.DataArray | None:
    """Return the coordinate of an axis; None if none is stored.

    Of sources that follow each other along the axis it is those of all.

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
    values = _values(source, dim)
    return None if values is None else xr.DataArray(values, {dim: (dim, values)}, [dim])


def _values(source: Source, dim: str) -> np.ndarray | None:
    if isinstance(source, ConcatenatedSource):
        joins = (source.dims or ())[source.axis] == dim
        parts = list(source.parts.values()) if joins else [source.parts[0]]
        found = [_values(part, dim) for part in parts]
        there = [one for one in found if one is not None]
        return np.concatenate(there) if len(there) == len(found) else None
    try:
        array = open_beside(source, dim)
        stored = None if array is None else np.asarray(array[...])
    except SourceError as error:
        raise SourceError(
            f"{source.name}: its coordinate {dim!r} cannot be read: {error}"
        ) from error
    if array is None or stored is None:
        return None
    if stored.shape != (source.shape[(source.dims or ()).index(dim)],):
        return None
    return _decoded(source, array, stored, dim)


def _decoded(source: Source, array: AnyArray, stored: np.ndarray, dim: str) -> np.ndarray:
    """Return the values that stored ones stand for, as xarray reads them."""
    import xarray as xr

    attributes: dict[str, Any] = dict(array.attrs.asdict())
    missing = ZarrSource(array, dim).missing_fill
    if len(missing) and stored.dtype.kind in "iuf":
        attributes.setdefault("_FillValue", missing[0])
    try:
        held = xr.Variable((dim,), stored, _without_encoded_fill(attributes))
        values: np.ndarray = xr.conventions.decode_cf_variable(dim, held).values
    except Exception as error:  # noqa: BLE001 # whatever xarray has for what it cannot decode
        why = str(error).strip().partition("\n")[0]
        raise PlanError(
            f"{source.name}: xarray does not read its coordinate {dim!r} ({why}): dates of a "
            "calendar that is not today's need pip install cftime; or select by positions"
        ) from None
    return values


def _without_encoded_fill(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out a fill value that a Zarr's attributes have as a text: coordinates miss nothing."""
    fill = attributes.get("_FillValue")
    texts = isinstance(fill, str)
    return {key: said for key, said in attributes.items() if key != "_FillValue" or not texts}

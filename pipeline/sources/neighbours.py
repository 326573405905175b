"""Find the arrays in the group of a source, such as its coordinates, and what the group says.

The one place that decides which array is a coordinate of which axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

from chunkfold.errors import PlanError, SourceError
from chunkfold.sources.concatenation import ConcatenatedSource
from chunkfold.sources.dask_source import DaskSource
from chunkfold.sources.data_arrays import is_of_xarray
from chunkfold.sources.h5_opening import group_attributes_of
from chunkfold.sources.h5_source import H5Source
from chunkfold.sources.joined_neighbours import joined_neighbour
from chunkfold.sources.joined_values import common_attributes
from chunkfold.sources.neighbour_array import Neighbour, array_in_memory
from chunkfold.sources.opening import open_neighbour
from chunkfold.sources.reordered_source import ReorderedSource
from chunkfold.sources.source import Source
from chunkfold.sources.zarr_source import ZarrSource

if TYPE_CHECKING:
    import xarray

_COMPRESSORS = (BloscCodec, GzipCodec, ZstdCodec)
_KIND = ("units", "standard_name")
"""Attributes that tell what values are, such as longitudes."""


def neighbour(source: Source, name: str) -> Neighbour | None:
    """Find an array in the group of a source by its name; None if there is none.

    Sources that are one along an axis have those of all parts, as one.

    Raises
    ------
    SourceError
        If something else has the name, it cannot be opened, or those of parts do not go together.
    """
    if isinstance(source, ConcatenatedSource):
        return joined_neighbour(source, name, neighbour)
    if isinstance(source, ReorderedSource):
        return _reordered(source, name)
    given = source.labelled if isinstance(source, DaskSource) else getattr(source, "array", None)
    if is_of_xarray(given):
        return coordinate_of_xarray(given, name)
    found = open_neighbour(source, name)
    return None if found is None else Neighbour(name, found)


def axis_coordinate(
    source: Source, dim: str, names: Sequence[str | None] | None = None
) -> Neighbour | None:
    """Find the coordinate of an axis: the array of its name that lies along it alone.

    None if there is none. `names` are those of the axes, where the source has none. Raises as
    `neighbour`.
    """
    names = source.dims or names or ()
    found = neighbour(source, dim)
    if found is None or names.count(dim) != 1 or found.axes_among(names) != (dim,):
        return None
    return found if found.shape == (source.shape[names.index(dim)],) else None


def _reordered(source: ReorderedSource, name: str) -> Neighbour | None:
    found = neighbour(source.of, name)
    if found is None:
        return None
    names = source.dims or ()
    orders = {names[axis]: order for axis, order in source.orders.items()}
    axes = found.axes_among(names)
    values = found.whole()
    for n, axis in enumerate(axes):
        if axis in orders:
            values = np.take(values, orders[axis], n)
    dims = found.dims or None
    return Neighbour(name, array_in_memory(values, found.array.attrs.asdict(), dims))


def coordinate_of_xarray(array: Any, name: str) -> Neighbour | None:
    """Return a coordinate of a DataArray, as xarray stores it."""
    import xarray as xr

    if name not in array.coords:
        return None
    held = xr.conventions.encode_cf_variable(array.coords[name].variable, name=name)
    return Neighbour(
        name, array_in_memory(np.asarray(held.values), held.attrs, tuple(map(str, held.dims)))
    )


def compressors_of(source: Source) -> Any:
    """Return how chunks of a source are compressed, for others like it: as zarr is told it.

    Where that is by a codec which zarr has itself; else it is what zarr takes without being told.
    """
    if not isinstance(source, ZarrSource) or source.array.metadata.zarr_format == 2:
        return "auto"
    found = source.array.compressors
    return found if all(isinstance(one, _COMPRESSORS) for one in found) else "auto"


def group_attributes(source: Source) -> Mapping[str, Any]:
    """Return the attributes of the group that a source is in; none if it cannot be opened."""
    if isinstance(source, ConcatenatedSource):
        return common_attributes([group_attributes(part) for part in source.parts.values()])
    if isinstance(source, ReorderedSource):
        return group_attributes(source.of)
    try:
        if isinstance(source, H5Source):
            return group_attributes_of(source)
        if not isinstance(source, ZarrSource):
            return {}
        return next((said for _, said in source.groups_above()), {})
    except Exception:  # noqa: BLE001 # whatever keeps it from being opened: most often none is there
        return {}


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

"""Results as xarray's: DataArrays, and Datasets of several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chunkfold.results.result import as_array

if TYPE_CHECKING:
    import xarray

    from chunkfold.results.coordinate import Coordinate
    from chunkfold.results.result import Result
    from chunkfold.sources.bins import Intervals


def array_of(result: Result) -> xarray.DataArray | xarray.Dataset:
    """Return a result as a DataArray; one of records as a Dataset of their fields."""
    xr = needed()
    if result.parts:
        made = {name.rpartition("/")[2]: array_of(one) for name, one in result.parts.items()}
        fields: xarray.Dataset = xr.Dataset(made)
        return fields
    coords = {name: _variable(one) for name, one in result.coordinates.items()}
    values = as_array(result.values)
    array: xarray.DataArray = xr.DataArray(
        values, coords, result.dims, result.name, dict(result.attrs)
    )
    return array


def dataset_of(results: Mapping[str, Result], along: Mapping[str, Coordinate]) -> xarray.Dataset:
    """Return results as one Dataset, with everything that comes along.

    The fields of records are arrays of their own, as `histogram_count`.
    """
    xr = needed()
    made: dict[str, Any] = {}
    for one in results.values():
        for name, part in (one.parts or {one.name: one}).items():
            made[name.replace("/", "_")] = (part.dims, as_array(part.values), dict(part.attrs))
    coords = {name: _variable(one) for name, one in along.items() if name not in made}
    dataset: xarray.Dataset = xr.Dataset(made, coords)
    return dataset


def interval_index(intervals: Intervals) -> Any:
    """Return intervals as pandas has them, which comes with xarray."""
    import pandas as pd

    return pd.IntervalIndex.from_breaks(intervals.edges, closed=intervals.closed)


def needed() -> Any:
    """Import xarray.

    Raises
    ------
    ImportError
        If it is not installed.
    """
    try:
        import xarray as xr
    except ImportError:
        raise ImportError("xarray is not installed: pip install 'chunkfold[xarray]'") from None
    return xr


def _variable(one: Coordinate) -> Any:
    if one.intervals is not None:
        return (one.dims, interval_index(one.intervals), dict(one.attrs))
    values = one.values
    if values.dtype.kind == "O" and all(isinstance(value, str) for value in values.flat):
        values = values.astype(str)
    return (one.dims, values, dict(one.attrs))

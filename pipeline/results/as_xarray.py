"""Results as xarray's: DataArrays, and Datasets of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

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
        return with_edges(xr.Dataset(made), [""])
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
    prefixes = [f"{one.name.replace('/', '_')}_" for one in results.values() if one.parts]
    return with_edges(xr.Dataset(made, coords), prefixes)


def with_edges(dataset: xarray.Dataset, prefixes: Sequence[str]) -> xarray.Dataset:
    """Make the edges of histograms coordinates, and where they are bounded the middles of bins."""
    for prefix in prefixes:
        left, right = f"{prefix}left", f"{prefix}right"
        if not {left, right} <= {*dataset.data_vars}:
            continue
        dataset = dataset.set_coords([left, right])
        low, high = dataset[left], dataset[right]
        (dim, *more), middle = low.dims, low / 2 + high / 2
        if not more and dim not in dataset.coords and bool(np.isfinite(middle).all()):
            dataset = dataset.assign_coords({dim: (dim, middle.values, dict(low.attrs))})
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

"""A dataset on disk, for tests of what Dask's graphs have computed here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

SHAPE = (60, 6, 8)


def written(path: Path) -> Path:
    """Write floats with gaps, packed and whole numbers, truths, times and labels."""
    rng = np.random.default_rng(0)
    dims = ("time", "lat", "lon")
    x = rng.normal(size=SHAPE).astype("f4")
    x[rng.random(SHAPE) < 0.1] = np.nan
    gaps = x.copy()
    gaps[:, 1, 2] = np.nan
    time = np.array("2001-01-01", "M8[ns]") + np.arange(SHAPE[0]) * np.timedelta64(10, "D")
    values: dict[str, Any] = {
        "x": (dims, x),
        "gaps": (dims, gaps),
        "double": (dims, rng.normal(size=SHAPE)),
        "packed": (dims, np.round(x * 50) / 64 + 1),
        "whole": (dims, rng.integers(-90, 90, SHAPE).astype("i4")),
        "truth": (dims, rng.random(SHAPE) < 0.3),
        "half": (dims, x.astype("f2")),
        "when": (("time", "lat"), time[:, None] + np.arange(6).astype("m8[D]")),
    }
    coords = {
        "time": time,
        "lat": np.arange(6.0),
        "lon": np.arange(8.0),
        "zone": (("lat", "lon"), rng.integers(0, 4, SHAPE[1:])),
    }
    ds = xr.Dataset(values, coords)
    chunks = {"chunks": (11, 4, 8)}
    encoding: dict[str, Any] = {name: chunks for name in values if name != "when"}
    encoding["packed"] = chunks | {
        "dtype": "i2", "scale_factor": 1 / 64, "add_offset": 1.0, "_FillValue": -999
    }  # fmt: skip
    ds.to_zarr(path, encoding=encoding, zarr_format=2)
    return path


def opened(path: Path) -> xr.Dataset:
    """Open it as users do."""
    ds = xr.open_zarr(path)
    return ds.assign_coords(zone=ds.zone.compute())


def same(want: Any, got: Any, of: Any = "f4") -> None:
    """See that two results have the same labels and dtype, and values to the rounding of `of`."""
    assert type(want) is type(got)
    assert want.dtype == got.dtype
    assert want.shape == got.shape
    one, other = np.asarray(want), np.asarray(got)
    if one.dtype.kind == "f":
        rtol = 64 * max(np.finfo(one.dtype).eps, np.finfo(of).eps)
        scale = float(np.nanmax(np.abs(one), initial=1))
        np.testing.assert_allclose(other, one, rtol=rtol, atol=rtol * scale)
    else:
        np.testing.assert_array_equal(one, other)
    if isinstance(want, xr.DataArray):
        xr.testing.assert_identical(want, got.copy(data=want.data))

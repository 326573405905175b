"""Results in a Zarr, and in a NetCDF, have what stands along axes of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

import chunkfold as cf
from chunkfold.workflows.files.writing import write_results


@pytest.mark.parametrize(("name", "engine"), [("o.zarr", "zarr"), ("o.nc", "h5netcdf")])
def test_ranks_stand_along_the_axes_of_first_elements(tmp_path: Path, name: str, engine: str):
    source = zarr.create_array(store={}, data=np.arange(12.0).reshape(4, 3))
    write_results(tmp_path / name, {"": cf.submit(source, ["top2", "bottom3"]).results})
    with xr.open_dataset(tmp_path / name, engine=engine) as made:
        assert made["top2"].dims == ("top2_rank",)
        assert made["top2"].sel(top2_rank=1) == 11
        assert made["bottom3"].sel(bottom3_rank=3) == 2


def test_zarrs_of_netcdf_files_are_opened_by_xarray(command, tmp_path: Path):
    """xarray gives floats of NetCDF a missing NaN, which attributes of Zarr have in base 64."""
    source, out = tmp_path / "a.nc", tmp_path / "out.zarr"
    values = np.arange(12, dtype="f4").reshape(4, 3)
    held = xr.Dataset({"t": (("time", "lat"), values)}, {"lat": [10.0, 0.0, -10.0]})
    held.to_netcdf(source, engine="h5netcdf")
    command("reduce", f"{source}/t", "--op", "mean,min", "--axis", "time", "--out", out)
    with xr.open_zarr(out) as found:
        assert found.lat.values.tolist() == [10, 0, -10]
        assert found["min"].values.tolist() == values.min(0).tolist()

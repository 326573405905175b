"""NetCDF-4 files: dimensions are no coordinates, and unlimited ones are as long as in netCDF.

h5netcdf writes them as the netCDF library does; `xarray` reads what is expected.
"""

from __future__ import annotations

from pathlib import Path

import h5netcdf
import h5py
import numpy as np
import pytest
import xarray as xr

import chunkfold as cf
from chunkfold.errors import PlanError, SourceError
from chunkfold.sources.opening import open_each, open_source

VALUES = np.arange(72, dtype="f4").reshape(6, 4, 3)
FILL = np.float32(-9)


@pytest.fixture
def air(tmp_path: Path) -> str:
    """Return a file whose `lon` is a dimension only; `late` and `never` lag behind in time."""
    path = tmp_path / "air.nc"
    with h5netcdf.File(path, "w") as file:
        file.dimensions = {"time": None, "lat": 4, "lon": 3}
        file.resize_dimension("time", 6)
        file.create_variable("v", ("time", "lat", "lon"), "f4")[...] = VALUES
        file.create_variable("lat", ("lat",), "f4")[:] = [40, 30, 20, 10]
        for name in ("late", "never"):
            file.create_variable(name, ("time", "lat"), "f4", fillvalue=FILL)
        file.create_variable("stamp", ("time",), "i4", fillvalue=np.int32(-1))
        file.create_group("deep").create_variable("u", ("lat", "lon"), "i4")[...] = 1
    with h5py.File(path, "a") as file:  # as the netCDF library leaves variables that lag behind
        file["late"].resize((3, 4))
        file["late"][...] = 1
        file["never"].resize((0, 4))
        file["stamp"].resize((2,))
        file["stamp"][...] = [5, 6]
    return str(path)


def test_a_dimension_without_a_variable_is_no_coordinate(air: str):
    with pytest.raises(PlanError, match="axis 'lon' has no coordinate, but 'lat' have"):
        cf.reduce(f"{air}/v", sel={"lon": 0})
    for asked in ({"by": "lon"}, {"op": "mean", "weights": "lon"}):
        with pytest.raises(SourceError, match="found no array 'lon' next to"):
            cf.reduce(f"{air}/v", **asked)
    assert list(cf.reduce(f"{air}/v", axis="time", labels=True).coordinates) == ["lat"]
    with pytest.raises(SourceError, match=r"netCDF dimension without a variable.*/v"):
        cf.reduce(f"{air}/lon")
    assert not [one.name for one in open_each(air) if one.name.endswith("/lon")]


def test_a_variable_that_only_has_the_name_of_a_dimension_is_found(tmp_path: Path):
    """netCDF-4 stores it with a prefix, beside the dimension's zeros."""
    path = tmp_path / "names.nc"
    with h5netcdf.File(path, "w") as file:
        file.dimensions = {"x": 3, "lon": 3}
        file.create_variable("v", ("x", "lon"), "f4")[...] = VALUES[0, :3]
        file.create_variable("_nc4_non_coord_lon", ("x",), "f4")[:] = [7, 8, 9]
    assert cf.reduce(f"{path}/lon") == 24
    assert f"{path}/lon" in [one.name for one in open_each(str(path))]
    with pytest.raises(PlanError, match="axis 'lon' has no coordinate"):
        cf.reduce(f"{path}/v", sel={"lon": 7})
    sums = cf.reduce(f"{path}/v", axis=("x", "lon"), by="lon", labels=True)
    assert sums.coordinates["lon"].values.tolist() == [7, 8, 9]
    assert sums.values.tolist() == VALUES[0, :3].sum(1).tolist()


@pytest.mark.parametrize("name", ["v", "late", "never", "stamp"])
def test_extents_are_those_of_netcdf_and_the_rest_is_fill(air: str, name: str):
    with xr.open_dataset(air, engine="h5netcdf", mask_and_scale=False) as opened:
        wanted = opened[name].values
    source = open_source(f"{air}/{name}")
    assert source.shape == wanted.shape
    assert np.array_equal(source.whole(), wanted)
    assert cf.reduce(f"{air}/{name}", "max", selection=(slice(1, 6, 2),)) == wanted[1::2].max()
    with xr.open_dataset(air, engine="h5netcdf") as decoded:
        counted = cf.reduce(f"{air}/{name}", "count", mask_and_scale=True, skipna=True)
        assert counted == decoded[name].count()


def test_coordinates_have_the_extents_of_netcdf_too(air: str):
    found = cf.reduce(f"{air}/v", axis=("lat", "lon"), by=None, labels=True)
    assert found.shape == (6,)
    groups = cf.reduce(f"{air}/late", "count", axis=("time", "lat"), by="stamp", groups=[5, 6])
    assert groups.tolist() == [4, 4]


def test_a_name_is_looked_up_in_groups_above(air: str):
    assert cf.reduce(f"{air}/deep/u", sel={"lat": 30}) == 3


def test_extents_of_plain_hdf5_files_stay(tmp_path: Path):
    """Scales there say nothing of how long their datasets are."""
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        file.create_dataset("t", data=np.arange(5.0), maxshape=(None,))
        file["t"].make_scale("t")
        for name, length in (("v", 3), ("w", 5)):
            file.create_dataset(name, data=np.ones(length), maxshape=(None,))
            file[name].dims[0].attach_scale(file["t"])
    assert open_source(str(tmp_path / "plain.h5/v")).shape == (3,)

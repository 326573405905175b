"""Results in a NetCDF have the labels that they have in Python, and nothing is lost of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import chunkfold as cf
from chunkfold.errors import PlanError
from chunkfold.results.files import check_netcdf
from chunkfold.workflows.files.writing import write_results

pytestmark = pytest.mark.unoptimised
VALUES = np.random.default_rng(0).normal(280, 9, (6, 3)).astype("f4")


@pytest.fixture
def air(tmp_path: Path) -> Path:
    coords = {
        "time": np.array("2001-01-30", "M8[ns]") + np.arange(6).astype("m8[D]"),
        "lat": ("lat", [10.0, 20, 30], {"units": "degrees_north"}),
        "site": ("lat", ["a", "bc", "d"]),
        "height": ((), 2.0, {"units": "m"}),
    }
    array = xr.DataArray(VALUES, coords, ("time", "lat"), "air", {"units": "degC"})
    array.to_dataset().to_zarr(tmp_path / "s.zarr", zarr_format=3)
    return tmp_path / "s.zarr/air"


def written(out: Path, source: Any, ops: Any, key: str = "", **given: Any) -> tuple[Any, Any]:
    run = cf.submit(source, ops, **given)
    write_results(out, {key: run.results}, overwrite=True)
    made = xr.load_dataset(out, group=key or None, decode_coords="all", engine="h5netcdf")
    return run.results, made


@pytest.mark.parametrize("axis", ["time", "lat"])
def test_a_netcdf_is_what_xarray_has_of_the_results(air: Path, tmp_path: Path, axis: str):
    by = {"by": xr.DataArray([1, 1, 2, 2, 5, 5], dims=["time"], name="part")}
    for given in ({}, by if axis == "time" else {"keepdims": True}):
        got, made = written(tmp_path / "o.nc", air, ["std", "max", "count"], axis=axis, **given)
        xr.testing.assert_equal(made, got.to_xarray())
        assert {op: made[op].attrs.get("units") for op in made} == {
            "std": "K", "max": "degC", "count": None,
        }  # fmt: skip
        assert made["max"].attrs["cell_methods"] == f"{axis}: maximum"
        assert f'"axes": ["{axis}"]' in made["max"].attrs["chunkfold"]


@pytest.mark.parametrize(
    "dtype", ["?", "u1", "i8", "u8", "f2", ">f4", "c8", "M8[s]", "m8[ms]", "M8[ns]"]
)
def test_no_value_is_lost(tmp_path: Path, dtype: str):
    values = np.array([0, 1, 2, 200], dtype if dtype[0] in "?iuMm" else "i2").astype(dtype)
    op = "sum" if dtype == "c8" else "max"
    got, made = written(tmp_path / "o.nc", zarr.create_array({}, data=values), op, axis=())
    if dtype == "c8":
        made = {op: made[f"{op}_real"] + 1j * made[f"{op}_imag"]}
    np.testing.assert_array_equal(made[op], got[op])


def test_records_and_several_sources(air: Path, tmp_path: Path):
    bins = cf.histogram(edges=[250, 280, 310])
    got, made = written(tmp_path / "o.nc", air, [bins, "minmax"], key="a", axis="time")
    assert made["histogram_count"].dims == ("lat", "bin")
    np.testing.assert_array_equal(made["histogram_left"], [250, 280])
    np.testing.assert_array_equal(made["histogram_count"], got["histogram"]["count"])
    np.testing.assert_array_equal(made["minmax"], got["minmax"])
    both = {name: cf.submit(air, "mean").results for name in ("a", "b/c")}
    write_results(tmp_path / "two.nc", both)
    for name, one in both.items():
        read = xr.load_dataset(tmp_path / "two.nc", group=name, engine="h5netcdf")
        assert read["mean"] == one["mean"]


def test_what_a_netcdf_cannot_hold_is_refused(air: Path, tmp_path: Path, monkeypatch):
    named = cf.Monoid("lat", fields={"s": "float64"}, zero=0, lift=lambda x: x, op="add")
    found = cf.submit(air, named, axis="time").results
    with pytest.raises(PlanError, match="so replace its axis 'lat': rename that axis"):
        write_results(tmp_path / "o.nc", {"": found})
    assert not (tmp_path / "o.nc").exists()
    monkeypatch.setattr("chunkfold.results.files._NEEDED", ("xarray", "nothing_of_the_kind"))
    with pytest.raises(PlanError, match=r"needs nothing_of_the_kind: pip install 'chunkfold\[netc"):
        check_netcdf("o.nc")
    check_netcdf("o.zarr")
    with pytest.raises(PlanError, match=r"or write \.zarr"):
        cf.submit(air, "mean", axis="time").labelled().to_netcdf(tmp_path / "o.nc")

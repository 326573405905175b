"""A result is NumPy's values, and knows what they are called and measured by."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import chunkfold as cf
from chunkfold.workflows.files.writing import write_results

pytestmark = pytest.mark.unoptimised
VALUES = np.random.default_rng(0).normal(280, 9, (6, 3, 4)).astype("f4")
MONTHS = np.array([2, 1, 1, 2, 4, 4])


@pytest.fixture(scope="module")
def air(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An array as xarray writes one."""
    made = tmp_path_factory.mktemp("air") / "s.zarr"
    coords = {
        "time": np.array("2001-01-30", "M8[ns]") + np.arange(6).astype("m8[D]"),
        "lat": ("lat", [10.0, 20, 30], {"units": "degrees_north"}),
        "area": (("lat", "lon"), np.arange(12.0).reshape(3, 4)),
        "height": ((), 2.0, {"units": "m"}),
        "site": ("lon", ["a", "b", "c", "d"]),
    }
    said = {"units": "degC", "standard_name": "air_temperature", "actual_range": [1, 2]}
    array = xr.DataArray(VALUES, coords, ("time", "lat", "lon"), "air", said)
    array.to_dataset().to_zarr(made, encoding={"air": {"chunks": (2, 3, 4)}}, zarr_format=3)
    return made / "air"


def test_a_result_has_the_labels_that_survive(air: Path):
    got = cf.reduce(air, "std", axis="time", selection=(..., slice(1, None, 2)), labels=True)
    assert isinstance(got, cf.Result)
    assert (got.dims, got.shape, got.dtype, got.units) == (("lat", "lon"), (3, 2), "f4", "K")
    assert got.attrs == {"units": "K", "cell_methods": "time: standard_deviation"}
    assert set(got.coordinates) == {"lat", "area", "height", "site"}
    assert got.coordinates["site"].values.tolist() == ["b", "d"]
    assert got.coordinates["area"].values.tolist() == [[1, 3], [5, 7], [9, 11]]
    assert got.coordinates["lat"].attrs == {"units": "degrees_north"}
    over = cf.reduce(air, "max", axis=("lat", "lon"), selection=slice(2, 5), labels=True)
    np.testing.assert_array_equal(
        over.coordinates["time"].values, xr.open_zarr(air.parent).time[2:5]
    )
    assert "units" not in over.coordinates["time"].attrs
    assert set(over.coordinates) == {"time", "height"}


@pytest.mark.parametrize("by", [None, MONTHS])
def test_xarray_gets_what_it_would_read_from_a_file(air: Path, tmp_path: Path, by: Any):
    ops = ["mean", "minmax", "var", "count"]
    given = {} if by is None else {"by": xr.DataArray(by, dims=["time"], name="month")}
    run = cf.submit(air, ops, axis="time", **given)
    write_results(tmp_path / "o.zarr", {"": run.results})
    written = xr.open_zarr(tmp_path / "o.zarr", decode_coords="all").load()
    got = run.results.to_xarray()
    xr.testing.assert_equal(got.drop_encoding(), written)
    for op in ops:
        told = {name: said for name, said in written[op].attrs.items() if name != "chunkfold"}
        assert got[op].attrs == told
        xr.testing.assert_identical(run.results[op].to_xarray(), got[op])


def test_numpy_takes_a_result_for_its_values(air: Path):
    plain, got = (cf.reduce(air, "mean", axis=0, labels=labels) for labels in (False, True))
    assert type(plain) is np.ndarray
    for one, want in (
        (np.asarray(got), plain), (got > 280, plain > 280), (got[1], plain[1]),
        (np.add.reduce(got, axis=0), plain.sum(axis=0)), (np.array(list(got)), plain),
        (np.asarray(got, "f8"), plain.astype("f8")),
    ):  # fmt: skip
        assert type(one) is np.ndarray
        np.testing.assert_array_equal(one, want)
    copied = np.array(got, copy=True)
    copied[...] = 0
    assert got.tolist() == plain.tolist()
    held = got.to_xarray()
    for one in (held - got, got - held, held.values - got):
        assert not np.asarray(one).any()
    alone = cf.reduce(air, "max", labels=True)
    assert float(alone) == alone.item() == VALUES.max()
    assert f"{alone:.2f}" == f"{VALUES.max():.2f}"
    assert type(alone.values) is np.float32


def test_groups_stand_where_their_axis_does(air: Path):
    by = xr.DataArray([7, 7, 9, 7], dims=["lon"], name="zone")
    run = cf.submit(air, ["mean", "max"], axis="lon", by=by)
    for got in (run.result()["mean"], run.labelled()["mean"]):
        assert (got.dims, got.shape) == (("time", "lat", "zone"), (6, 3, 2))
        assert got.labels.tolist() == got.coordinates["zone"].values.tolist() == [7, 9]
        assert set(got.to_xarray().coords) == {"time", "lat", "height", "zone"}
    assert cf.reduce(air, "mean", labels=True).labels is None
    nameless = cf.reduce(zarr.create_array({}, data=VALUES), "max", axis=0, by=MONTHS)
    assert nameless.dims == ("group", "dim_1", "dim_2")


def test_records_have_fields(air: Path):
    bins = cf.reduce(air, cf.histogram(edges=[250, 280, 310]), axis="time", labels=True)
    want = np.apply_along_axis(lambda v: np.histogram(v, [250, 280, 310])[0], 0, VALUES)
    assert bins.dims == ("lat", "lon", "bin")
    np.testing.assert_array_equal(bins["count"], np.moveaxis(want, 0, -1))
    made = bins.to_xarray()
    assert {name: one.dims for name, one in made.data_vars.items()} == {
        "count": ("lat", "lon", "bin"),
    }
    assert made["bin"].values.tolist() == [265, 295]
    assert made["bin"].attrs["units"] == made["left"].attrs["units"] == "degC"
    assert "units" not in made["count"].attrs


def test_a_result_is_shown_with_its_labels(air: Path):
    got = cf.reduce(air, "mean", axis="time", labels=True)
    text, page = repr(got), got._repr_html_()
    for told in ("mean", "(lat: 3, lon: 4)", "float32 in degC", "site", "time: mean"):
        assert told in page
        assert told in text
    assert "lat     (lat)       float64  10.0 20.0 30.0" in text
    spoiled = cf.Result("<b>", np.ones(1), ("x",), {"a<b": "<script>"})
    assert "<script>" not in spoiled._repr_html_()
    assert "&lt;script&gt;" in spoiled._repr_html_()


def test_nothing_but_to_xarray_needs_xarray(air: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    got = cf.reduce(air, "max", axis=0, labels=True)
    assert sorted(got.coordinates) == ["area", "height", "lat", "site"]
    with pytest.raises(ImportError, match=r"pip install 'chunkfold\[xarray\]'"):
        got.to_xarray()


def test_results_are_pickled_with_their_labels(air: Path):
    found = cf.submit(air, ["mean", "histogram"], axis="time").labelled()
    for op, one in found.items():
        again = pickle.loads(pickle.dumps(one))
        assert type(again) is cf.Result
        assert again.to_xarray().identical(one.to_xarray()), op
    assert pickle.loads(pickle.dumps(found)).to_xarray().identical(found.to_xarray())

"""Longitudes are a circle: slices and values around it, of any stored turn, in any direction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import chunkfold as cf
import chunkfold.xarray
from chunkfold.sources.coordinate_positions import positions_of

pytestmark = pytest.mark.unoptimised

EAST = {"units": "degrees_east"}
GRIDS = {
    "from 0": np.arange(0, 360, 30.0),
    "from -180": np.arange(-180, 180, 30.0),
    "centred on cells": np.arange(0, 360, 30) + 0.5,
    "float32": np.arange(0, 360, 0.1, "f4"),
    "integers": np.arange(0, 360, 30),
    "rolled": np.r_[np.arange(0, 180, 30), np.arange(-180, 0, 30)],
}


def longitudes(values: Any, attrs: dict[str, str] | None = None) -> xr.DataArray:
    held = np.asarray(values)
    said = EAST if attrs is None else attrs
    return xr.DataArray(held, {"lon": ("lon", held, said)}, ["lon"], attrs=said)


def selected(values: Any, label: Any, **given: Any) -> list[float]:
    found = positions_of(longitudes(values), label, "a", **given)
    return np.atleast_1d(np.asarray(values)[found]).tolist()


@pytest.mark.parametrize("grid", ["from 0", "from -180", "centred on cells", "rolled"])
@given(
    begin=st.integers(-360, 720), width=st.integers(0, 500), backwards=st.booleans(),
    step=st.integers(1, 3), descends=st.booleans(), behind=st.booleans(),
)  # fmt: skip
def test_a_slice_is_the_arc_from_its_begin_to_its_end(
    grid, begin, width, backwards, step, descends, behind
):
    values = GRIDS[grid][::-1] if descends else GRIDS[grid]
    west = descends != backwards
    named = width - 360 if behind and 0 < width < 360 else width  # the same meridian
    end = begin - named if west else begin + named
    along = {(begin - value if west else value - begin) % 360: value for value in values}
    want = [along[apart] for apart in sorted(along) if apart <= width]
    label = slice(begin, end, -step if backwards else step)
    assert selected(values, label) == want[::step]


@pytest.mark.parametrize("values", [GRIDS["from 0"], GRIDS["from -180"], np.arange(100, 141, 10.0)])
@given(ends=st.tuples(*[st.none() | st.integers(-200, 400)] * 2), step=st.sampled_from([None, 2]))
def test_what_is_in_the_stored_turn_is_as_in_xarray(values, ends, step):
    want = longitudes(values).sel(lon=slice(*ends, step)).values.tolist()
    inside = all(end is None or values[0] <= end <= values[-1] for end in ends)
    if want and (inside or None in ends):
        assert selected(values, slice(*ends, step)) == want


@pytest.mark.parametrize(
    ("values", "label", "want"),
    [
        (np.arange(0, 361, 90), slice(0, 360), [0, 90, 180, 270, 360]),  # as xarray has it
        (np.arange(0, 361, 90), slice(-90, 90), [270, 360, 0, 90]),  # two columns, each once
        (np.arange(0, 361, 90), slice(-180, 180), [180, 270, 360, 0, 90]),
        (np.arange(-180, 181, 90), slice(0, 360), [0, 90, 180, -180, -90]),
        (np.arange(100.0, 141, 10), slice(-250, -230), [110, 120, 130]),
        (np.arange(100.0, 141, 10), slice(0, 360), [100, 110, 120, 130, 140]),
        (np.arange(100.0, 141, 10), slice(-10, 30), []),
        (np.arange(100.0, 141, 10), slice(None, 30), []),
        (np.arange(170.0, 191, 10), slice(175, -175), [180]),
        ([170, 180, -170], slice(175, -165), [180, -170]),  # in no order, but along the circle
        (GRIDS["from 0"], slice(None, -90), [*range(0, 271, 30)]),
        (GRIDS["from -180"], slice(270, None), [*range(-90, 151, 30)]),
        (GRIDS["from 0"], slice("350", "30"), [0, 30]),
        (GRIDS["float32"], slice(-0.25, -0.1), [*GRIDS["float32"][-2:].tolist()]),
    ],
)
def test_parts_of_the_circle_and_columns_that_are_stored_twice(values, label, want):
    assert selected(values, label) == want


@pytest.mark.parametrize("grid", ["from 0", "from -180", "integers", "rolled"])
@pytest.mark.parametrize(
    ("label", "given", "want"),
    [
        (-30, {}, [330]),
        ([330, -330, 30], {}, [330, 30, 30]),
        (-10, {"method": "nearest"}, [0]),
        ([359, 344, 346], {"method": "nearest", "tolerance": 16}, [0, 330, 0]),
        (359, {"method": "pad"}, [330]),
        ([-1, 331], {"method": "backfill"}, [0, 0]),
    ],
)
def test_values_are_those_of_any_turn(grid, label, given, want):
    assert [one % 360 for one in selected(GRIDS[grid], label, **given)] == want


def test_values_of_float32_and_of_regions_are_found():
    assert selected(GRIDS["float32"], -9.9) == [float(np.float32(350.1))]
    assert selected([100.0, 110, 140], -20, method="nearest") == [100]
    assert selected([100.0, 110, 140], 290, method="nearest") == [140]
    with pytest.raises(cf.PlanError, match="has no 90, and no nearest one by method 'pad'"):
        selected([100.0, 110, 140], 90, method="pad")
    with pytest.raises(cf.PlanError, match=r"'lon' has no -11\.0; nearest are 0.0, 330.0"):
        selected(GRIDS["from 0"], -11.0)


@pytest.mark.parametrize(
    "attrs",
    [
        {"units": "degree_E"}, {"units": "degreesE"}, {"standard_name": "longitude"},
        {"units": "degrees", "standard_name": "longitude"}, {"standard_name": "grid_longitude"},
    ],
)  # fmt: skip
def test_units_or_the_standard_name_say_that_it_is_a_circle(attrs):
    found = positions_of(longitudes(GRIDS["from 0"], attrs), slice(350, 30), "a")
    assert found == slice(0, 2, 1)


@pytest.mark.parametrize(
    "attrs", [{}, {"units": "degrees_north"}, {"units": "radian", "standard_name": "longitude"}]
)
def test_elsewhere_slices_are_as_in_xarray(attrs):
    found = positions_of(longitudes(GRIDS["from 0"], attrs), slice(-10, 30), "a")
    assert found == slice(0, 2, 1)
    assert positions_of(longitudes(GRIDS["from 0"], attrs), slice(350, 30), "a") == slice(0, 0, 1)


DATA = np.random.default_rng(0).normal(size=(5, 4, 36)).astype("f4")
WRAPPED = [34, 35, 0, 1, 2]
"""Where -20 to 20 is of longitudes from 0."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("lon")
    lon = np.arange(0, 360, 10.0)
    coords = {"lat": np.arange(4.0), "lon": ("lon", lon, EAST)}
    ds = xr.Dataset({"a": (("time", "lat", "lon"), DATA), "b": ("lon", lon)}, coords)
    ds.to_zarr(made / "a.zarr", consolidated=False, encoding={"a": {"chunks": (2, 4, 7)}})
    ds.to_netcdf(made / "a.nc", engine="h5netcdf")
    for n, part in enumerate((slice(0, 20), slice(20, 36))):
        ds[["a"]].isel(lon=part).to_zarr(made / f"{n}.zarr", consolidated=False)
    return made


SOURCES = {
    "Zarr": lambda folder: f"{folder}/a.zarr/a",
    "NetCDF": lambda folder: f"{folder}/a.nc/a",
    "several as one": lambda folder: cf.concatenate(
        [f"{folder}/{n}.zarr/a" for n in (0, 1)], "lon"
    ),
    "a lazy DataArray": lambda folder: xr.open_zarr(
        folder / "a.zarr", chunks=None, consolidated=False
    )["a"],
    "a DataArray of Dask's": lambda folder: xr.open_zarr(folder / "a.zarr", consolidated=False)[
        "a"
    ],
}


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("label", [slice(-20, 20), slice(340, 20)])
def test_results_are_those_of_the_columns_in_the_order_asked(kind, label, folder: Path):
    source, sel = SOURCES[kind](folder), {"lon": label}
    x = DATA[:, :, WRAPPED]
    found = cf.reduce(source, ["max", "argmax"], axis="lon", sel=sel)
    np.testing.assert_array_equal(np.asarray(found["max"]), x.max(2))
    np.testing.assert_array_equal(np.asarray(found["argmax"]), x.argmax(2))
    kept = cf.reduce(source, "max", axis="time", sel=sel, labels=True)
    np.testing.assert_array_equal(np.asarray(kept), x.max(0))
    if kind != "several as one":
        made = kept.to_xarray() if isinstance(kept, cf.Result) else kept
        assert made["lon"].values.tolist() == [340, 350, 0, 10, 20]
    assert np.float32(cf.reduce(source, "sum", sel=sel)) == np.float32(x.astype("f8").sum())


def test_what_goes_along_the_longitudes_is_cut_with_them(folder: Path):
    source, sel = folder / "a.zarr" / "a", {"lon": slice(-20, 20)}
    weights, zones = np.arange(36), np.arange(36) // 18
    x = DATA[:, :, WRAPPED].astype("f8")
    questions = {
        "weighed": cf.ask("mean", weights=xr.DataArray(weights, dims="lon")),
        "masked": cf.ask("max", axis="lon", where=xr.DataArray(weights > 1, dims="lon")),
        "zones": cf.ask("min", axis="lon", by=zones, by_axis="lon"),
        "named": cf.ask("sum", axis=("time", "lat", "lon"), by="lon"),
        "median": cf.ask("median"),
    }
    found = cf.reduce(source, questions, sel=sel)
    w = weights[WRAPPED] * np.ones_like(x)
    assert found["weighed"] == pytest.approx((w * x).sum() / w.sum())
    np.testing.assert_array_equal(found["masked"], x[:, :, [0, 1, 4]].max(2))
    for n, columns in enumerate(([2, 3, 4], [0, 1])):
        np.testing.assert_array_equal(found["zones"].values[..., n], x[:, :, columns].min(2))
    np.testing.assert_allclose(found["named"].values, x[:, :, [2, 3, 4, 0, 1]].sum((0, 1)), 1e-6)
    assert found["median"] == np.median(DATA[:, :, WRAPPED])


def test_a_dataset_and_covariances_take_arcs(folder: Path):
    ds = xr.open_zarr(folder / "a.zarr", consolidated=False)
    found = ds.chunkfold.max("time", sel={"lon": slice(-20, 20)})
    assert found["lon"].values.tolist() == [340, 350, 0, 10, 20]
    np.testing.assert_array_equal(found["a"].values, DATA[:, :, WRAPPED].max(0))
    for source in (folder / "a.zarr" / "a", ds["a"].load()):
        got = cf.cov(source, "lat", sel={"lon": slice(-20, 20)})
        want = np.cov(np.moveaxis(DATA[:, :, WRAPPED].astype("f8"), 1, 0).reshape(4, -1))
        np.testing.assert_allclose(got, want, 1e-12)

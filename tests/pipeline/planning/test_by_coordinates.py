"""Selecting by coordinates: what xarray's `sel` selects, whatever holds the data."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkfold as cf
import chunkfold.xarray
from chunkfold.planning.options import Options
from chunkfold.planning.resolve import resolve

pytestmark = pytest.mark.unoptimised
DIMS = ("time", "lat", "lon")


def sample(calendar: str = "standard") -> xr.Dataset:
    """Days of two years, a latitude from the north, and an axis in no order."""
    time = xr.date_range("2001-01-01", periods=730, calendar=calendar, use_cftime=None)
    values = np.random.default_rng(0).integers(0, 1000, (730, 7, 4)).astype("i4")
    coords = {"time": time, "lat": np.arange(60.0, -61, -20), "lon": [30, 10, 20, 0]}
    return xr.Dataset({"a": (DIMS, values), "b": ("lat", np.arange(7))}, coords)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("sel")
    ds = sample()
    for number, zarr_format in enumerate((2, 3)):
        part = ds.isel(time=slice(number * 300, 300 + number * 430))
        where = {"consolidated": False, "zarr_format": zarr_format}
        ds.to_zarr(made / f"a{zarr_format}.zarr", encoding={"a": {"chunks": (100, 3, 4)}}, **where)
        part.to_zarr(made / f"part{number}.zarr", encoding={"a": {"chunks": (50, 7, 4)}}, **where)
    ds.isel(time=slice(None, None, -1)).to_zarr(made / "back.zarr", consolidated=False)
    ds.to_netcdf(made / "a.nc", engine="h5netcdf")
    return made


SOURCES = {
    "format 2": lambda folder: f"{folder}/a2.zarr/a",
    "format 3": lambda folder: f"{folder}/a3.zarr/a",
    "zarr's array": lambda folder: zarr.open_array(f"{folder}/a3.zarr/a", mode="r"),
    "NetCDF": lambda folder: f"{folder}/a.nc/a",
    "several as one": lambda folder: cf.concatenate([f"{folder}/part{n}.zarr/a" for n in (0, 1)]),
    "a lazy DataArray": lambda folder: xr.open_zarr(
        folder / "a3.zarr", chunks=None, consolidated=False
    )["a"],
    "a DataArray of Dask's": lambda folder: xr.open_zarr(folder / "a2.zarr", consolidated=False)[
        "a"
    ],
    "a DataArray in memory": lambda _: sample()["a"],
}
SELECTED: list[tuple[dict[str, Any], str | None]] = [
    ({"time": slice("2001-02", "2002-01-15"), "lat": slice(40, 0)}, None),
    ({"time": "2001-03", "lon": 20}, None),
    ({"time": "2001-03-04"}, None),
    ({"time": ["2002-01-01", "2001-05-05"], "lat": [-20, 40, -20]}, None),
    ({"time": np.datetime64("2001-06-01"), "lat": slice(None, 20, 2)}, None),
    ({"time": np.datetime64("2001-05-05T11"), "lat": [33, 1]}, "nearest"),
    ({"lat": [41.0, 5.0]}, "pad"),
]
"""Selections, and their methods."""


def same(request: Any, want: xr.DataArray) -> None:
    """See that what is selected along each axis is what xarray selects."""
    chosen = request.chosen
    array = sample()["a"]
    shown = {dim: array[dim].values[np.asarray(axis.shown, int)]
             for dim, axis in zip(DIMS, chosen, strict=True)}  # fmt: skip
    assert [dim for dim, axis in zip(DIMS, chosen, strict=True) if not axis.dropped] == [*want.dims]
    for dim in DIMS:
        np.testing.assert_array_equal(shown[dim], np.atleast_1d(want[dim].values))


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize(("sel", "method"), SELECTED)
def test_every_kind_of_source_is_selected_as_xarray_does(kind, sel, method, folder: Path):
    request = resolve(SOURCES[kind](folder), Options("max", axis=(), sel=sel, sel_method=method))
    same(request, sample()["a"].sel(sel, method=method))


@settings(max_examples=30)
@given(data=st.data())
def test_any_slice_and_list_is_that_of_xarray(data: st.DataObject, folder: Path):
    lats = st.none() | st.floats(-90, 90) | st.sampled_from([60.0, 0.0, -40.0])
    months = st.none() | st.sampled_from(["2000", "2001", "2001-02", "2002-07-04", "2005-01"])
    sel = {
        "lat": data.draw(
            st.builds(slice, lats, lats) | st.lists(st.sampled_from([60.0, -20.0]), max_size=4)
        ),
        "time": data.draw(st.builds(slice, months, months)),
    }
    request = resolve(
        folder / "a3.zarr" / "a", Options("count", axis=(), sel=sel, allow_empty=True)
    )
    same(request, sample()["a"].sel(sel))


@pytest.mark.parametrize("kind", ["format 3", "several as one", "a lazy DataArray"])
def test_results_and_their_labels_are_those_of_xarray(kind: str, folder: Path):
    sel = {"time": ["2002-01-01", "2001-05-05"], "lat": slice(40, 0)}
    found = cf.reduce(SOURCES[kind](folder), "max", axis="lon", sel=sel, labels=True)
    want = sample()["a"].sel(sel).max("lon")
    np.testing.assert_array_equal(np.asarray(found), want.values)
    if kind != "several as one":  # which has no store of its own for them to stand in
        made = found.to_xarray() if isinstance(found, cf.Result) else found
        for dim in want.dims:
            np.testing.assert_array_equal(made[dim], want[dim])


def test_every_array_of_a_dataset_is_selected_along_the_axes_it_has(folder: Path):
    ds = xr.open_zarr(folder / "a3.zarr", consolidated=False)
    sel = {"lat": slice(40, 0), "lon": [0, 30]}
    found = ds.chunkfold.max("lon", sel=sel)
    xr.testing.assert_equal(found, sample().sel(sel).max("lon"))
    one = ds.chunkfold.max(sel={"lat": 39}, sel_method="nearest")
    xr.testing.assert_equal(one, sample().sel(lat=39, method="nearest").max())


@pytest.mark.parametrize("calendar", ["noleap", "360_day"])
def test_dates_of_other_calendars_are_those_of_xarray(calendar: str, tmp_path: Path):
    pytest.importorskip("cftime")
    ds = sample(calendar)
    ds.to_zarr(tmp_path / "a.zarr", consolidated=False)
    day = "2001-02-30" if calendar == "360_day" else "2001-02-28"
    for label in ("2001-02", slice(day, "2002-01"), "2001-12-05"):
        request = resolve(tmp_path / "a.zarr" / "a", Options("max", sel={"time": label}))
        want = xr.DataArray(np.arange(730), {"time": ds["time"]}).sel(time=label).values
        np.testing.assert_array_equal(request.chosen[0].shown, np.atleast_1d(want))
    request = resolve(tmp_path / "a.zarr" / "a", Options("max", sel={"time": [day, "2001-01-02"]}))
    assert [*request.chosen[0].places] == sorted([1, 59 if calendar == "360_day" else 58])


@pytest.mark.parametrize(
    ("sel", "given", "told"),
    [
        ({"lat": 31}, {}, "'lat' has no 31; nearest are 40.0, 20.0.*sel_method='nearest'"),
        ({"lat": [20, 31]}, {}, "'lat' has no 31"),
        ({"lat": 31}, {"sel_method": "nearest", "sel_tolerance": 2}, "no 31, .* within 2"),
        ({"lat": "north"}, {}, "'north' is not a number.*60.0, 40.0, ..., -60.0"),
        ({"time": "1999"}, {}, "'time' has no '1999'; nearest are 2001-01-01, 2001-01-02"),
        ({"time": slice("a", "b")}, {}, "a:b selects nothing of 'time', whose values are dates"),
        ({"lon": slice(0, 20)}, {}, r"'lon' does not ascend or descend \(30, 10, ..., 0\)"),
        ({"latitude": 3}, {}, "has no axis 'latitude'.*did you mean 'lat'"),
        ({"lat": 20}, {"selection": (0, 1)}, "'lat' is selected twice, by sel and by '1'"),
        ({"lat": [[20, 40]]}, {}, "lat"),
        ({"lat": 20}, {"sel_method": "next"}, "sel_method is 'next'; use one of: 'nearest'"),
        ({}, {"sel_method": "nearest"}, "no values are named"),
        ({"lat": 20}, {"sel_tolerance": 2}, "it needs a sel_method"),
        ([("lat", 20)], {}, "sel is a mapping of names, not list"),
        ({1: 20}, {}, "sel has 1 for an axis; give its name"),
    ],
)
@pytest.mark.parametrize("kind", ["format 3", "a lazy DataArray"])
def test_what_selects_nothing_is_told_in_one_sentence(kind, sel, given, told, folder: Path):
    with pytest.raises(cf.PlanError, match=told) as error:
        cf.plan(SOURCES[kind](folder), sel=sel, **given)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("ends", [
    ("2002-03", "2001-12"), ("2002", "2002-05-05"), ("2001-04-05", None), (None, "2001-04"),
    (None, None), ("2001-02", "2001-05"), ("2005", "1999"), (np.datetime64("2002-02-02"), "2001"),
])  # fmt: skip
@pytest.mark.parametrize("step", [None, 3])
def test_slices_of_dates_that_descend_go_the_same_way(ends, step, folder: Path):
    ds = sample().isel(time=slice(None, None, -1))
    want = sample()["time"].sel(time=slice(*ends[::-1]))[::-1][::step]
    for source in (folder / "back.zarr" / "a", ds["a"]):
        options = Options("count", sel={"time": slice(*ends, step)}, allow_empty=True)
        request = resolve(source, options)
        shown = np.asarray(request.chosen[0].shown, int)
        np.testing.assert_array_equal(ds["time"].values[shown], want.values)


def test_axes_without_names_or_coordinates_are_told(tmp_path: Path):
    ds = xr.Dataset({"a": (("x", "y"), np.zeros((2, 3)))}, {"y": [1, 2, 3]})
    ds.to_zarr(tmp_path / "a.zarr", consolidated=False)
    for source in (tmp_path / "a.zarr" / "a", ds["a"]):
        with pytest.raises(cf.PlanError, match="'x' has no coordinate, but 'y' have"):
            cf.plan(source, sel={"x": 0})
    with pytest.raises(cf.PlanError, match="axes have no names"):
        cf.plan(np.zeros((2, 3)), sel={"x": 0})


@pytest.mark.parametrize(("label", "method"), [([1, 2], None), (1, "nearest")])
def test_values_that_a_coordinate_has_twice_are_no_place(label, method):
    twice = xr.DataArray(np.zeros((2, 3)), {"y": [1, 2, 1]}, ("x", "y"))
    with pytest.raises(cf.PlanError, match=r"'y' has 1 more than once, so that .* by positions"):
        cf.plan(twice, sel={"y": label}, sel_method=method)


EMPTY: list[tuple[dict[str, Any], str]] = [
    ({"sel": {"lat": slice(0, 40)}}, "0:40 selects nothing .*lat runs from 60 to -60: write 40:0"),
    ({"sel": {"lat": slice(31, 32)}}, "lat runs from 60 to -60; allow_empty=True allows"),
    ({"sel": {"lat": []}}, r"\[\] selects nothing of 'lat'"),
    ({"sel": {"time": slice("2003", "2004")}}, "runs from 2001-01-01 to 2002-12-31; allow_empty"),
    ({"sel": {"time": slice("2002", "2001-05")}}, "2002-12-31: write 2001-05:2002; allow_empty"),
    ({"selection": (slice(5, 5),)}, "'5:5' selects nothing of axis 'time', .* from 0 to 729"),
    ({"selection": (..., [])}, r"selection '\[\]' selects nothing of axis 'lon'"),
    ({"selection": (..., np.zeros(7, bool), slice(None))}, r"selects nothing of axis 'lat'"),
]  # fmt: skip
"""Selections of nothing, and what is told of them."""


@pytest.mark.parametrize("kind", ["format 3", "NetCDF", "several as one", "a lazy DataArray"])
@pytest.mark.parametrize(("given", "told"), EMPTY)
def test_a_selection_of_nothing_is_refused_unless_it_is_allowed(kind, given, told, folder: Path):
    source = SOURCES[kind](folder)
    with pytest.raises(cf.PlanError, match=told):
        cf.plan(source, **given)
    with pytest.raises(cf.PlanError, match=told):
        cf.reduce(source, {"a": cf.ask("mean"), "b": cf.ask("max", axis="lat")}, **given)
    assert np.asarray(cf.reduce(source, "sum", **given, allow_empty=True)) == 0


def test_a_selection_of_nothing_is_refused_of_datasets_groups_and_covariances(folder: Path):
    ds, sel = xr.open_zarr(folder / "a3.zarr", consolidated=False), {"lat": slice(0, 40)}
    with pytest.raises(cf.PlanError, match=r"the Dataset: 0:40 selects .* write 40:0"):
        ds.chunkfold.sum(sel=sel)
    assert ds.chunkfold.sum(sel=sel, allow_empty=True)["b"] == 0
    with pytest.raises(cf.PlanError, match="write 40:0"):
        cf.reduce(folder / "a3.zarr" / "a", "sum", axis="time", by="time.month", sel=sel)
    with pytest.raises(cf.PlanError, match="write 40:0"):
        cf.cov(folder / "a3.zarr" / "a", "lon", sel=sel)
    with pytest.raises(cf.PlanError, match="selects nothing of axis 'time'"):
        cf.corrcoef(folder / "a3.zarr" / "a", "lon", selection=[])
    assert np.isnan(cf.corrcoef(folder / "a3.zarr" / "a", "lon", sel=sel, allow_empty=True)).all()
    assert cf.reduce(np.zeros((0, 3)), "sum", selection=(slice(None), 1)) == 0  # has no elements


def test_longitudes_say_from_where_to_where_they_run():
    lon = ("lon", np.arange(100.0, 141), {"units": "degrees_east"})
    with pytest.raises(cf.PlanError, match="longitudes run from 100 to 140; allow_empty"):
        cf.plan(xr.DataArray(np.zeros(41), {"lon": lon}, ["lon"]), sel={"lon": slice(-10, 30)})


DAYS = pd.date_range("2001-01-01", periods=4)
ZONED = DAYS.tz_localize("Europe/Zurich")
LEAPLESS = xr.date_range("2001-01-01", periods=4, calendar="noleap", use_cftime=True)
HOLES = np.array([LEAPLESS[0], None, LEAPLESS[2]], object)
NEAR: dict[str, Any] = {"sel_method": "nearest"}
CAUSES: list[tuple[Any, Any, dict[str, Any], str]] = [
    (DAYS, DAYS[1].tz_localize("UTC"), {}, r"00:00\+00:00 has a time zone, and they have none"),
    (DAYS, "2001-01-02T00:00Z", {}, "'2001-01-02T00:00Z' has a time zone, and they have none"),
    (DAYS, slice("2001-01-02T00:00Z", None), {}, "has a time zone, and they have none: omit it"),
    (ZONED, np.datetime64("2001-01-02"), {}, r"00:00:00\+01:00, .* no time zone, .* Europe/Zurich"),
    (ZONED, slice(DAYS[1], None), {}, "has no time zone, and theirs is Europe/Zurich: give it as"),
    (DAYS, 3, {}, "3 is not a date"),
    (DAYS, slice(3, 5), {}, "3 is not a date"),
    (DAYS, "2001-13", {}, "'2001-13' is not a date"),
    (DAYS, "2001-13", NEAR, "'2001-13' is not a date"),
    (DAYS, "2001", {**NEAR, "sel_tolerance": 3.0}, "is 3.0, but 'x' has times: give a span of"),
    (DAYS, "2001", {**NEAR, "sel_tolerance": "near"}, "is 'near', but 'x' has times"),
    (LEAPLESS, np.datetime64("2001-01-02"), {}, "of today's calendar, not of noleap: give it as a"),
    (LEAPLESS, slice("2001-13", None), {}, "'2001-13' is not a date of calendar noleap"),
    (HOLES, "2001-01", {}, "whose values are dates, .* it has None at position 1"),
    (HOLES, slice("2001", None), {}, "'x' has None at position 1, and is in no order"),
    (HOLES, "2001-01-03", NEAR, "'x' has None at position 1, and is in no order, so that sel_m"),
    (["a", "c"], "b", NEAR, "takes numbers and dates, which have distances, but 'x' has texts, a"),
    (["a", "c"], "b", {}, "'x' has no 'b'; it is a, c: give values that it has$"),
    (["a", "c"], 3, {}, "3 is not a text"),
    ([3.0, 1.0, 2.0], 1.2, NEAR, r"does not ascend or descend \(3.0, 1.0, 2.0\), so that sel_me"),
    ([3.0, 1.0, 2.0], 1.2, {}, "nearest are 1.0, 2.0: give values that it has$"),
    ([1.0, np.nan, 2.0], 1.2, {"sel_method": "pad"}, "'x' has nan at position 1, and is in no"),
    ([1.0, 2.0, np.nan], slice(1, 2), {}, "'x' has nan at position 2, and is in no order, so that"),
    ([1.0, 2.0], np.nan, NEAR, "nan of 'x' has no nearest value"),
    ([1.0, 2.0], None, {}, "None is not a number"),
    ([1.0, 2.0], DAYS[0], {}, "2001-01-01 00:00:00 is not a number"),
    ([1.0, 2.0], slice(1, 2, 0), {}, "1:2:0 of 'x' has step 0"),
    ([1.0, 2.0], slice(1, 2, 1.5), {}, "has step 1.5; give a whole number"),
    ([1.0, 2.0], 1.2, {**NEAR, "sel_tolerance": "a"}, "'a', but 'x' has numbers: give a number"),
    ([1.0, 2.0], {"a": 1}, {}, "sel of 'x' is {'a': 1}; give a value, a list"),
    (
        pd.timedelta_range("0h", periods=3, freq="6h"),
        6,
        {},
        "6 is not a span of time, such as '6h'",
    ),
]


@pytest.mark.parametrize(("values", "label", "given", "told"), CAUSES)
def test_each_cause_has_its_own_sentence(values, label, given, told):
    array = xr.DataArray(np.zeros(len(values)), {"x": values}, ["x"])
    with pytest.raises(cf.PlanError, match=told) as error:
        cf.plan(array, sel={"x": label}, **given)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("values", "label", "given", "want"),
    [
        (DAYS, date(2001, 1, 2), {}, 1),
        (LEAPLESS, date(2001, 1, 2), {}, 1),
        (LEAPLESS, "2001-01-02T05", {**NEAR, "sel_tolerance": "6h"}, 1),
        (ZONED, "2001-01-02", {}, 1),
        ([False, True], "true", {}, 1),
        (np.array([b"a", b"b"]), "b", {}, 1),
    ],
)
def test_texts_and_dates_are_values_of_the_coordinates_kind(values, label, given, want):
    array = xr.DataArray(np.arange(len(values)), {"x": values}, ["x"])
    assert np.asarray(cf.reduce(array, "max", sel={"x": label}, **given)) == want

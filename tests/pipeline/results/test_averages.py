"""Coordinates of windows: means of what is not missing, as xarray has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

import chunkfold as cf
from chunkfold.results.averages import averaged, has_means

DAYS = np.array(["2020-01-01", "2020-01-02", "NaT", "2020-01-05", "NaT"], "M8[D]")
VALUES: dict[str, np.ndarray] = {
    "int": np.array([1, 2, 4, 8, 9]),
    "float": np.array([1.5, np.nan, 2.5, np.nan, np.nan]),
    "float32": np.array([1.5, 3, 2.5, 4, 1], "f4"),
    "bool": np.array([True, False, True, True, False]),
    "days": DAYS.astype("M8[ns]"),
    "spans": (DAYS - DAYS[0]).astype("m8[ns]"),
}


@pytest.mark.parametrize("name", list(VALUES))
@pytest.mark.parametrize("window", [1, 2, 3, 7])
def test_means_are_xarrays(name: str, window: int):
    values = VALUES[name]
    want = xr.Variable("x", values).coarsen({"x": window}, "mean", "pad").values
    got = averaged(values, [window])
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_means_go_over_windows_of_several_axes():
    values = np.arange(35.0).reshape(5, 7)
    want = xr.Variable(("y", "x"), values).coarsen({"y": 2, "x": 3}, "mean", "pad").values
    np.testing.assert_allclose(averaged(values, [2, 3]), want)
    assert averaged(values, [0, 0]) is values


def test_means_of_coarse_times_are_as_fine_as_it_takes():
    days = np.array(["2020-01-01", "2020-01-02"], "M8[D]")
    assert averaged(days, [2])[0] == np.datetime64("2020-01-01T12:00")
    far = np.array(["90000-01-01", "90000-01-02"], "M8[D]")
    assert averaged(far, [2])[0] == far[0], "nanoseconds do not reach as far"


def test_dates_of_other_calendars_have_means_and_texts_have_none(tmp_path: Path):
    group = zarr.open_group(str(tmp_path / "a"), mode="w")
    group.create_array("air", data=np.ones((4, 2)), dimension_names=["time", "x"])
    noleap = {"units": "days since 2000-02-27", "calendar": "noleap"}
    group.create_array("time", data=np.arange(4), dimension_names=["time"], attributes=noleap)
    group.create_array("name", data=np.array(["a", "b"]), dimension_names=["x"])
    got = cf.reduce(tmp_path / "a" / "air", "mean", coarsen={"time": 2, "x": 1}, labels=True)
    assert got.coordinates["time"].values.tolist() == ["2000-02-27T12:00:00", "2000-03-01T12:00:00"]
    assert "name" not in got.coordinates
    assert not has_means(np.array(["a", "b"], object))


@pytest.mark.parametrize("calendar", ["noleap", "360_day", "standard"])
@pytest.mark.parametrize("boundary", ["pad", "trim"])
def test_dates_of_cftime_have_means_of_shorter_windows_too(calendar: str, boundary: str):
    times = xr.date_range("2001-02-25", periods=7, freq="6h", calendar=calendar, use_cftime=True)
    held = [times[0], None, *times[2:]]
    coords = {"time": times, "held": ("time", np.array(held, object))}
    array = xr.DataArray(np.arange(7.0), dims="time", coords=coords)
    got = cf.reduce(array, "sum", coarsen={"time": 3}, boundary=boundary)
    windows = [0, 3, 6][: None if boundary == "pad" else -1]
    step = times[1] - times[0]
    assert got.time.values.tolist() == [times[0] + step * at for at in (1, 4, 6)][: len(windows)]
    assert got.held.values.tolist() == got.time.values.tolist()
    dataset = cf.reduce(array.to_dataset(name="v"), "sum", coarsen={"time": 3}, boundary=boundary)
    assert dataset.time.equals(got.time)
    lazy = cf.reduce(array, "sum", coarsen={"time": 3}, boundary=boundary, compute=False)
    assert lazy.compute().equals(got)


def test_dates_with_time_zones_have_means():
    times = pd.date_range("2001-01-01", periods=4, tz="Europe/Paris")
    array = xr.DataArray(np.arange(4.0), dims="time", coords={"time": times})
    got = cf.reduce(array, "sum", coarsen={"time": 3}, boundary="pad")
    assert got.indexes["time"].equals(times[[1, 3]].tz_convert(None))

"""Selecting by parts of dates, such as seasons and months, as xarray's masks do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkfold as cf
import chunkfold.xarray
from chunkfold.planning.options import Options
from chunkfold.planning.resolve import resolve
from tests.pipeline.planning.test_by_coordinates import SOURCES, folder, same, sample

__all__ = ["folder"]  # the fixture
pytestmark = pytest.mark.unoptimised

SELECTED: list[tuple[dict[str, Any], Any]] = [
    ({"time.season": "JJA"}, lambda t: t.season == "JJA"),
    ({"time.month": [6, "7", 8]}, lambda t: t.month.isin([6, 7, 8])),
    ({"time.month": slice(11, 2)}, lambda t: t.month.isin([11, 12, 1, 2])),
    ({"time.dayofweek": slice(None, 4)}, lambda t: t.dayofweek <= 4),
    ({"time.year": slice("2002", None)}, lambda t: t.year == 2002),
    ({"time.is_month_end": "true"}, lambda t: t.is_month_end),
    (
        {"time.month": np.array([1, 3]), "time.day": 31},
        lambda t: t.month.isin([1, 3]) & (t.day == 31),
    ),
    (
        {"time.date": ["2001-03-04", "2002-03-04"]},
        lambda t: (t.month == 3) & (t.day == 4),
    ),
]
"""Selections, and the masks that they stand for."""


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize(("sel", "mask"), SELECTED)
def test_a_part_of_dates_selects_what_xarrays_mask_does(kind, sel, mask, folder: Path):
    request = resolve(SOURCES[kind](folder), Options("max", axis=(), sel=sel))
    same(request, sample()["a"].isel(time=mask(sample()["time"].dt).values))


@settings(max_examples=30)
@given(data=st.data())
def test_parts_and_values_of_one_axis_both_hold(data: st.DataObject, folder: Path):
    ends = st.none() | st.integers(1, 12)
    first, last = data.draw(ends), data.draw(ends)
    days = data.draw(st.lists(st.integers(1, 31), max_size=4))
    span = slice(*data.draw(st.tuples(*[st.sampled_from(["2001-02", "2001-11", "2002-05"])] * 2)))
    sel = {"time.month": slice(first, last), "time": span, "time.day": days}
    request = resolve(
        folder / "a3.zarr" / "a", Options("count", axis=(), sel=sel, allow_empty=True)
    )
    chosen = sample()["a"].sel(time=span)
    month, low, high = chosen["time"].dt.month, first or 1, last or 12
    around = (
        (month >= low) | (month <= high)
        if low > high and first and last
        else (month >= low) & (month <= high)
    )
    same(request, chosen.isel(time=(around & chosen["time"].dt.day.isin(days)).values))


def test_the_order_of_a_list_of_values_stays(folder: Path):
    source, dates = folder / "a3.zarr" / "a", ["2002-01-05", "2001-06-07", "2001-01-03"]
    sel = {"time": dates, "time.month": 1}
    found = cf.reduce(source, "max", axis=("lat", "lon"), sel=sel)
    want = sample()["a"].sel(time=[dates[0], dates[2]]).max(("lat", "lon"))
    np.testing.assert_array_equal(found, want)


def test_one_value_leaves_no_axis_if_it_has_the_part(folder: Path):
    source = folder / "a3.zarr" / "a"
    sel = {"time": np.datetime64("2001-06-07"), "time.season": "JJA"}
    want = sample()["a"].sel(time="2001-06-07")
    np.testing.assert_array_equal(cf.reduce(source, "max", axis=[], sel=sel), want)
    for allow_empty in (False, True):
        with pytest.raises(
            cf.PlanError, match=r"time\.season=SON selects nothing of 'time': no pos"
        ):
            cf.plan(source, sel={**sel, "time.season": "SON"}, allow_empty=allow_empty)


def test_groups_and_labels_are_those_of_what_is_selected(folder: Path):
    ds = xr.open_zarr(folder / "a3.zarr", consolidated=False)
    sel = {"time.season": "JJA", "lat": slice(40, 0)}
    summer = sample().sel(lat=slice(40, 0)).isel(time=(sample()["time"].dt.month // 3 == 2).values)
    found = ds.chunkfold.max("time", sel=sel, by="time.month")
    xr.testing.assert_equal(found["a"], summer["a"].groupby("time.month").max())
    same_of_path = cf.reduce(folder / "a3.zarr" / "a", "max", axis="time", sel=sel, by="time.month")
    np.testing.assert_array_equal(same_of_path, found["a"])


@pytest.mark.parametrize("calendar", ["noleap", "360_day"])
def test_dates_of_other_calendars_have_their_parts(calendar: str, tmp_path: Path):
    pytest.importorskip("cftime")
    ds = sample(calendar)
    ds.to_zarr(tmp_path / "a.zarr", consolidated=False)
    sel = {"time.season": ["DJF", "MAM"], "time.day": 30, "time": slice("2001-02", "2002")}
    request = resolve(tmp_path / "a.zarr" / "a", Options("max", sel=sel))
    time = ds["time"].sel(time=slice("2001-02", "2002"))
    wanted = time.isel(time=(time.dt.season.isin(["DJF", "MAM"]) & (time.dt.day == 30)).values)
    shown = np.asarray(request.chosen[0].shown, int)
    np.testing.assert_array_equal(ds["time"].values[shown], wanted.values)


def test_times_along_an_axis_of_another_name_and_spans_of_time_have_parts():
    step = pd.timedelta_range("0h", periods=9, freq="12h")
    when = ("run", pd.date_range("2001-01-30", periods=4))
    array = xr.DataArray(np.arange(36).reshape(4, 9), {"when": when, "step": step}, ("run", "step"))
    found = cf.reduce(array, "sum", sel={"when.month": 2, "step.days": [1, 3]})
    assert np.asarray(found) == array.values[2:, [2, 3, 6, 7]].sum()


def test_dates_that_are_missing_have_no_part():
    time = pd.DatetimeIndex(["2001-01-01", None, "2001-02-01"])
    array = xr.DataArray([1, 2, 4], {"time": time}, ["time"])
    assert np.asarray(cf.reduce(array, "sum", sel={"time.month": slice(None, 12)})) == 5


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"time.saison": "JJA"}, {}, "'time' has no 'saison'; did you mean 'season'"),
    ({"tim.season": "JJA"}, {}, "it has no coordinate 'tim'; did you mean 'time'"),
    ({"lat.month": 3}, {}, "'lat' is float64, not times, which have parts"),
    ({"time.season": ["JJA", "jja"]}, {}, "has jja; the values are DJF, JJA, MAM, SON; allow"),
    ({"time.month": 13}, {}, "no date has 13; the values are 1, 2, .*, 12; allow_empty=True"),
    ({"time.month": "june"}, {}, "'june' is not one of its values, which are 1, 2"),
    ({"time.month": True}, {}, "'True' is not one of its values"),
    ({"time.dayofyear": 400}, {}, "no date has 400; the values are 1, 2, ..., 365"),
    ({"time.year": slice(2005, 2010)}, {}, "2005:2010 selects nothing; the values are 2001, 2002"),
    ({"time.season": slice("MAM", "JJA")}, {}, "slices are of numbers; name values of"),
    ({"time.date": slice("2001", None)}, {}, "numbers; select spans of dates by their axis"),
    ({"time.month": slice(1, 6, 2)}, {}, r"has step 2; name the values: month=\[1, 3, 5\]"),
    ({"time": "2001-02", "time.month": 3}, {}, "time=2001-02, time.month=3 selects nothing"),
    ({"time.month": []}, {}, r"time.month=\[\] selects nothing of 'time'"),
    ({"time.month": 3}, {"selection": 5}, "'time' is selected twice, by sel and by '5'"),
    ({"time.month": 3}, {"sel_method": "nearest"}, "sel_method is 'nearest', but time.month=3 are"),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["NetCDF", "a lazy DataArray"])
@pytest.mark.parametrize(("sel", "given", "told"), REFUSED)
def test_parts_that_select_nothing_are_told_in_one_sentence(kind, sel, given, told, folder: Path):
    with pytest.raises(cf.PlanError, match=told) as error:
        cf.plan(SOURCES[kind](folder), sel=sel, **given)
    assert "\n" not in str(error.value)


def test_times_without_one_axis_of_the_data_are_refused():
    when = (("run", "step"), np.full((2, 3), np.datetime64("2001-01-01", "ns")))
    array = xr.DataArray(np.zeros((2, 3)), {"when": when, "one": when[1][0, 0]}, ("run", "step"))
    for name, axes in (("when", "run, step"), ("one", "none")):
        with pytest.raises(
            cf.PlanError, match=f"'{name}' has {axes}: give a mask made of it with whe"
        ):
            cf.plan(array, sel={f"{name}.month": 1})
    with pytest.raises(cf.PlanError, match="axis 'run' has no coordinate of dates"):
        cf.plan(array, sel={"run.month": 1})


def test_values_that_no_date_has_may_be_allowed(folder: Path):
    source = folder / "a3.zarr" / "a"
    found = cf.reduce(source, "sum", sel={"time.year": [2002, 2003]}, allow_empty=True)
    assert found == sample()["a"].sel(time="2002").values.sum()
    with pytest.warns(cf.EmptyWarning):
        assert cf.reduce(source, "sum", sel={"time.year": 2003.5}, allow_empty=True) == 0

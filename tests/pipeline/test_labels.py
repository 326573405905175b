"""Labels of every form: names, bins, several at once, spans of a calendar; what xarray says."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from xarray.groupers import BinGrouper, TimeResampler

import chunkfold as cf
import chunkfold.xarray  # the accessor
from chunkfold.errors import PlanError, SourceError
from chunkfold.kernels import CATALOGUE
from chunkfold.planning import blocks, planner

pytestmark = pytest.mark.unoptimised
TIMES = pd.date_range("1999-11-20T06", "2001-03-10", freq="31h")
LAT = np.array([-80.0, -42.5, -10, 10, 40, 80])


@pytest.fixture(autouse=True)
def _small_leaves(monkeypatch):
    monkeypatch.setattr(planner, "LEAF_BYTES", 2048)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (4096, 8192))
    with xr.set_options(use_flox=False):
        yield


def made(times: Any = TIMES, seed: int = 0) -> xr.Dataset:
    """air (time, lat, lon) with gaps, coordinates of it, zones in numbers and in texts."""
    rng = np.random.default_rng(seed)
    air = rng.standard_normal((len(times), 6, 4))
    air[rng.random(air.shape) < 0.2] = np.nan
    zones = (("lat", "lon"), rng.integers(0, 3, (6, 4)))
    return xr.Dataset(
        {"air": (("time", "lat", "lon"), air), "depth": ("lat", LAT * 2)},
        {
            "time": times,
            "lat": ("lat", LAT, {"units": "degrees_north"}),
            "lon": np.arange(4),
            "zones": zones,
            "land": ("lat", list("abbacb")),
        },
    )


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("labels") / "a.zarr"
    made().to_zarr(path, zarr_format=3, encoding={"air": {"chunks": (100, 3, 2)}})
    return path


@pytest.fixture(scope="module")
def opened(stored: Path) -> xr.Dataset:
    return xr.open_zarr(stored)


def alike(got: xr.DataArray, want: xr.DataArray) -> None:
    """Values, names of axes, coordinates; but those that xarray keeps of each element."""
    wanted = want.transpose(*got.dims)
    more = {*want.coords} - {*got.coords}
    assert not more & {*got.dims}
    xr.testing.assert_allclose(got.drop_attrs(), wanted.drop_vars(more).drop_attrs())


def by_pandas(air: xr.DataArray, by: Sequence[str], kept: Sequence[str] = (), **given: str) -> Any:
    """What pandas says of groups of several labels: a mean, and NaN of those without elements."""
    rows = air.to_dataframe().reset_index()
    keys: list[Any] = [pd.Grouper(key="time", freq=given["span"])] if "span" in given else []
    for name in by:
        head, _, part = name.partition(".")
        if part:
            rows[part] = getattr(xr.DataArray(rows[head].values, dims="row").dt, part).values
        keys.append(part or head)
    return rows.groupby([*keys, *kept]).air.agg(given.get("op", "mean")).to_xarray()


NAMES = [
    "time.month", "time.year", "time.season", "time.dayofyear", "time.hour", "time.date",
    "time.quarter", "time.is_leap_year", "time.dayofweek", "time.time", "lat", "zones", "land",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_are_what_they_are_to_xarray(stored: Path, opened: xr.Dataset, name: str):
    dims: Any = {"zones": ..., "lat": "lat", "land": "lat"}.get(name, "time")
    got = opened.air.chunkfold.mean(dims, by=name)
    want = opened.air.compute().groupby(name).mean(dims)
    if name == "time.time":  # texts: no file has a type for them
        want = want.assign_coords(time=[one.isoformat() for one in want.time.values])
    if name == "time.date":
        want = want.assign_coords(date=want.date.values.astype("M8[s]"))
    alike(got, want)
    axis = None if dims is ... else dims
    run = cf.submit(stored / "air", "mean", axis=axis, by=name, skipna=True)
    assert run.groups.dtype.kind in "iUbfM"
    np.testing.assert_array_equal(run.result(), got)
    assert run.result().dims == got.dims
    called = name.rpartition(".")[2]
    np.testing.assert_array_equal(run.groups, want[called].values.astype(run.groups.dtype))


CALENDARS = ["noleap", "360_day", "proleptic_gregorian"]


@pytest.mark.parametrize("calendar", CALENDARS)
def test_dates_of_any_calendar_have_parts_and_spans(tmp_path: Path, calendar: str):
    pytest.importorskip("cftime", reason="of the extra 'test'")
    times = xr.date_range("1999-11-20", periods=300, freq="2D", calendar=calendar, use_cftime=True)
    data = made(times)
    data.to_zarr(tmp_path / "c.zarr", zarr_format=3)
    held = xr.open_zarr(tmp_path / "c.zarr")
    for part in ("time.month", "time.season", "time.dayofyear"):
        alike(held.air.chunkfold.max("time", by=part), held.air.compute().groupby(part).max())
    want = held.air.compute().resample(time="2MS").mean()
    alike(held.air.chunkfold.mean("time", resample={"time": "2MS"}), want)
    got = cf.reduce(
        tmp_path / "c.zarr/air", "mean", axis="time", resample={"time": "2MS"}, skipna=True
    )
    np.testing.assert_allclose(got, want)
    assert [str(one) for one in got.labels] == [str(one) for one in want.time.values]


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize(
    ("of", "edges"),
    [
        ("lat", [-90, -42.5, 10, 40, 90]),
        ("zones", [0, 1, 5]),
        ("time", ["2000-01-01", "2000-07-01", "2001-01-01"]),
    ],
)
def test_bins_are_those_of_xarray(opened: xr.Dataset, of: str, edges: list, right: bool):
    dims: Any = ... if of == "zones" else of
    given = pd.to_datetime(edges) if of == "time" else edges
    grouper = {of: BinGrouper(given, right=right)}
    want = opened.air.compute().groupby(grouper).mean(dims)
    alike(opened.air.chunkfold.mean(dims, by=cf.bins(edges, of=of, right=right)), want)


@pytest.mark.parametrize("own", [False, True], ids=["labels", "elements"])
def test_bins_are_exact_where_float64_is_not(own: bool):
    numbers = np.array([2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1], "u8")
    of = None if own else numbers
    for edges, right, want in [
        (np.array([0, 2**53, 2**63 - 1]), True, [1, 2]),
        (np.array([0, 2**63 + 1, 2**64 - 1], "u8"), False, [4, 0]),
        ([-np.inf, 2.0**53, 2.0**64], True, [1, 4]),
        ([-(2.0**70), 2.0**53, 2.0**64, 2.0**70], False, [0, 5, 0]),
    ]:
        got = cf.reduce(numbers, "count", by=cf.bins(edges, of=of, right=right))
        assert got.tolist() == want


def test_bins_may_be_of_time_spans_of_pythons():
    spans = np.array([5, 30, 70], "m8[h]")
    days = [timedelta(days=n) for n in range(4)]
    assert cf.reduce(np.zeros(3), "count", by=cf.bins(days, of=spans)).tolist() == [1, 1, 1]


def test_edges_under_a_mask_are_refused():
    with pytest.raises(PlanError, match="give two at least, ascending"):
        cf.bins(np.ma.array([0, 1, 2], mask=[False, True, False]))


def test_bins_may_be_of_any_numbers(stored: Path):
    depth = stored / "depth"
    air = made().air.values
    run = cf.submit(stored / "air", "count", by=cf.bins([-200.5, 0, 20.25], of=depth), axis="lat")
    want = [int(np.histogram(LAT * 2, edges)[0][0]) for edges in ((-200.5, 0), (0, 20.24))]
    assert air.shape[1] > sum(want)
    assert run.result()[0, :, 0].tolist() == want
    assert run.groups.tolist() == ["[-200.5, 0.0)", "[0.0, 20.25)"]
    held = np.arange(6) / 4
    got = cf.reduce(stored / "air", "count", by=cf.bins([0, 0.5, 9], of=held), axis="lat")
    assert got[0, :, 0].tolist() == [2, 4]


PAIRS: list[tuple[tuple[str, ...], list[str]]] = [
    (("time.month", "time.year"), ["time"]),
    (("time.season", "zones"), ["time", "lat", "lon"]),
    (("zones", "time.year"), ["time", "lat", "lon"]),
    (("land", "zones"), ["lat", "lon"]),
    (("lon", "time.year", "land"), ["time", "lat", "lon"]),
]


@pytest.mark.parametrize(("by", "dims"), PAIRS)
def test_several_labels_make_groups_of_all_combinations(opened: xr.Dataset, by, dims):
    want = by_pandas(made().air, by, [dim for dim in ("time", "lat", "lon") if dim not in dims])
    got = opened.air.chunkfold.mean(dims, by=by)
    alike(got.drop_vars({*got.coords} - {*got.dims}), want)
    names = [name.rpartition(".")[2] for name in by]
    kept = [dim for dim in got.dims if dim not in names]
    assert list(got.dims) == ([*kept, *names] if kept == ["time"] else [*names, *kept])


def test_a_list_of_labels_is_several_as_a_tuple_is(opened: xr.Dataset, stored: Path):
    air, dims = opened.air, ["time", "lat", "lon"]
    halves = np.arange(air.sizes["time"]) // 100
    months = air.time.dt.month
    for by in (["time.month", "time.year"], [months, "time.year"], [halves, months.values]):
        got = air.chunkfold.mean("time", by=by)
        assert got.identical(air.chunkfold.mean("time", by=tuple(by)))
        assert got.ndim == 4
    asked = ["time.month", "zones"]
    assert opened.chunkfold.mean(dims, by=asked).equals(opened.chunkfold.mean(dims, by=(*asked,)))
    found = cf.reduce(stored / "air", "mean", axis=dims, by=asked, groups=[[1, 2], None])
    assert found.dims == ("month", "zones")
    one = cf.reduce(stored / "air", "mean", axis="time", by=["time.month"])
    assert one.dims == ("month", "lat", "lon")
    with pytest.raises(PlanError, match="did you mean 'month'"):
        cf.reduce(air, "mean", axis="time", by=["time.mnth", "time.year"])
    with pytest.raises(SourceError, match=r"by: found no array 'tme.month' next to"):
        cf.reduce(air, "mean", axis="time", by=["tme.month", "time.year"])


def test_a_list_of_texts_or_numbers_is_one_label():
    array = np.arange(12.0).reshape(3, 4)
    got = cf.reduce(array, "sum", axis=1, by=["n", "s", "s", "n"])
    assert (got.values.tolist(), list(got.labels)) == (
        [[3, 3], [11, 11], [19, 19]],
        ["n", "s"],
    )
    assert cf.reduce(array, "sum", by=[[0, 0, 1, 1]] * 3).tolist() == [27, 39]


FREQUENCIES: list[Any] = ["1MS", "QS-DEC", "YE", "40h", timedelta(hours=40)]


@pytest.mark.parametrize("frequency", FREQUENCIES)
@pytest.mark.parametrize("step", [1, 97])
def test_resampling_is_xarrays(opened: xr.Dataset, frequency: str, step: int):
    """Also with spans that have no time in them."""
    some = opened.air[5:-20:step]
    want = some.compute().resample(time=frequency).mean()
    alike(some.chunkfold.mean("time", resample={"time": frequency}), want)


def test_resampling_is_of_what_is_selected_and_goes_with_other_labels(stored: Path, opened):
    got = cf.reduce(
        stored / "air", "mean", axis=("time", "lat"), resample={"time": "QS"}, by="land",
        skipna=True, selection=(slice(40, 200), ...),
    )  # fmt: skip
    want = by_pandas(made().air[40:200], ["land"], ["lon"], span="QS")
    assert got.dims == ("time", "land", "lon")
    assert [*got.labels] == ["time", "land"]
    alike(got.to_xarray(), want.rename("mean"))
    closed = TimeResampler("YS", closed="right", label="right")
    want = opened.air.compute().resample(time="YS", closed="right", label="right").sum()
    alike(opened.air.chunkfold.sum("time", resample={"time": closed}), want)


def test_times_of_spans_ascend(opened: xr.Dataset):
    with pytest.raises(PlanError, match="resample time=1MS: times along 'time' do not ascend"):
        opened.air[::-1].chunkfold.sum("time", resample={"time": "1MS"})


def along(times: Any) -> xr.DataArray:
    return xr.DataArray(np.arange(float(len(times))), {"t": times}, ["t"], "a")


ZONED = pd.date_range("2001-01-01", periods=4, freq="MS", tz="Europe/Zurich")
LEAPLESS = xr.date_range("2001-01-01", periods=4, freq="MS", calendar="noleap", use_cftime=True)
HOLES = np.array([None, *LEAPLESS[1:3], None], object)


@pytest.mark.parametrize(
    ("times", "given", "told"),
    [
        (ZONED, {"by": "t.month"}, "has times of time zone Europe/Zurich: remove the zone"),
        (ZONED, {"resample": {"t": "1MS"}}, "has times of time zone Europe/Zurich: remove the"),
        (
            LEAPLESS,
            {"by": "t.nanosecond"},
            "no 'nanosecond'; did you mean 'second'. The parts are day,",
        ),
        (LEAPLESS, {"by": "t.weekofyear"}, "no 'weekofyear'; did you mean 'dayofyear'"),
        (HOLES, {"by": "t.nanosecond"}, "no 'nanosecond'; did you mean 'second'"),
        (ZONED.tz_localize(None), {"by": "t.days"}, "no 'days'; did you mean 'day'"),
        (
            pd.timedelta_range("1D", periods=3),
            {"by": "t.month"},
            "no 'month'; the parts are days, mic",
        ),
        (["a", "b"], {"by": "t.month"}, "is <U1, not times, which have parts"),
        (HOLES, {"resample": {"t": "1MS"}}, "times along 't' are missing .None at position 0"),
        (pd.DatetimeIndex(["2001", "NaT"]), {"resample": {"t": "1D"}}, "NaT at position 1"),
    ],
)
def test_each_cause_for_which_times_have_no_labels_has_its_sentence(times, given, told):
    with pytest.raises(PlanError, match=told):
        cf.reduce(along(times), "sum", axis="t", **given)


def test_dates_of_a_calendar_that_are_missing_are_in_no_group():
    found = cf.reduce(along(HOLES), "sum", axis="t", by="t.month")
    assert (found["month"].values.tolist(), found.values.tolist()) == ([2, 3], [1, 2])
    seasons = cf.reduce(along(HOLES[::-1]), "sum", axis="t", by="t.season")
    assert (seasons["season"].values.tolist(), seasons.values.tolist()) == (["DJF", "MAM"], [2, 1])


def test_sums_of_spans_without_elements_are_those_of_nothing(opened: xr.Dataset):
    some = opened.air[[0, 1, -2, -1]]
    got = some.chunkfold.sum("time", resample={"time": "3MS"})
    want = some.compute().resample(time="3MS").sum()
    xr.testing.assert_allclose(got.drop_attrs(), want.fillna(0).drop_attrs())


def test_groups_are_named_for_each_label(stored: Path):
    air = made().air
    seasons, zones = ["SON", "DJF"], [2, 7, 0]
    run = cf.submit(
        stored / "air", ["count", "max"], by=("time.season", "zones"), groups=(seasons, zones),
        skipna=True,
    )  # fmt: skip
    got = run.result()
    for (n, season), (m, zone) in itertools.product(enumerate(seasons), enumerate(zones)):
        own = air.where((air.time.dt.season == season) & (air.zones == zone))
        assert got["count"][n, m] == own.count()
        np.testing.assert_equal(got["max"][n, m], own.max().values)
    assert {name: one.tolist() for name, one in run.groups.items()} == {
        "season": seasons, "zones": zones,
    }  # fmt: skip
    run = cf.submit(stored / "air", by=("time.season", "zones"), groups=(None, [1]))
    assert run.result().shape == (4, 1)
    lat = cf.reduce(stored / "air", "count", axis="lat", by="lat", groups=[80, -42.5])
    assert lat.shape == (len(TIMES), 2, 4)
    assert (np.asarray(lat) == 1).all()


ONE = [name for name, monoid in CATALOGUE.items() if monoid.inputs == 1]
TWO = [name for name, monoid in CATALOGUE.items() if monoid.inputs == 2]
OF_INTEGERS = ("bitwise_and", "bitwise_or", "bitwise_xor", "mode", "nunique")
RANKED = ("median", "nanmedian")
"""Reductions that `test_quantiles_have_groups_of_two_labels` tries."""
POSITIONS = ("argmin", "argmax", "nanargmin", "nanargmax", "first_mismatch")


@pytest.mark.parametrize(
    ("names", "dtype"),
    [
        ([name for name in ONE if name not in (*OF_INTEGERS, *RANKED)], "f4"),
        (list(OF_INTEGERS), "u2"),
        (TWO, "f4"),
    ],
)
def test_every_reduction_has_groups_of_two_labels(names: list[str], dtype: str):
    """Each group's results are what the reduction gives of its elements alone."""
    shape = (14, 5, 6)
    rng = np.random.default_rng(3)
    data = [(rng.standard_normal(shape) * 8 + 9).astype(dtype) for _ in range(2)]
    data[1] = np.abs(data[1])  # as weights of ranks are
    months, zones = np.arange(14) % 3, rng.integers(-1, 2, (5, 6))
    sources = [zarr.create_array(store={}, data=one, chunks=(4, 3, 6)) for one in data]
    two = CATALOGUE[names[0]].inputs == 2
    by = (months, zones)
    run = cf.submit(sources if two else sources[0], names, by=by, by_axis=(0, (1, 2)))
    results = run.result()
    flat = [one.reshape(14, 30).reshape(-1) for one in data]
    for name, month, zone in itertools.product(names, range(3), range(2)):
        own = np.flatnonzero(((months == month)[:, None, None] & (zones == zone)).reshape(-1))
        given = [one[own] for one in flat[: 1 + two]]
        want = CATALOGUE[name].evaluate(*given)
        if name in POSITIONS:
            want = own[want]
        got = results[name].values[month, zone]
        if name == "histogram":  # bins that all groups have
            got, want = got[got["count"] > 0], want[want["count"] > 0]
        np.testing.assert_array_equal(got, want, f"{name} {month} {zone}")


def test_a_reduction_of_users_has_groups_of_two_labels(stored: Path):
    spread = cf.Monoid(
        "spread",
        fields={"low": "float64", "high": "float64"},
        zero={"low": "highest", "high": "lowest"},
        lift=lambda x: {"low": x, "high": x},
        op=lambda a, b: {"low": np.minimum(a.low, b.low), "high": np.maximum(a.high, b.high)},
        finish=lambda fields, _: fields["high"] - fields["low"],
    )
    got = cf.reduce(stored / "air", spread, by=("time.year", "zones"), skipna=True)
    ends = [by_pandas(made().air, ("time.year", "zones"), op=op) for op in ("max", "min")]
    np.testing.assert_allclose(got, ends[0] - ends[1])


@pytest.mark.parametrize("fill", [0.0, 3.0])
def test_what_is_not_stored_has_groups_of_two_labels(tmp_path: Path, fill: float):
    array = zarr.create_array(
        tmp_path / "s.zarr", shape=(40, 6, 8), chunks=(4, 3, 4), dtype="f8", fill_value=fill
    )
    array[8:11, :3] = np.arange(3 * 3 * 8).reshape(3, 3, 8)
    months, zones = np.arange(40) % 5, np.arange(48).reshape(6, 8) % 4 - 1
    got = cf.reduce(array, ["sum", "count"], by=(months, zones), by_axis=(0, (1, 2)))
    held = array[...]
    for month, zone in itertools.product(range(5), range(3)):
        own = held[months == month][:, zones == zone]
        assert got["sum"].values[month, zone] == own.sum()
        assert got["count"].values[month, zone] == own.size


def test_times_of_arrays_that_are_one_are_put_together(tmp_path: Path):
    """Each in the units that it has."""
    data = made()
    for n, cut in enumerate((slice(0, 150), slice(150, None))):
        part = data.isel(time=cut)
        units = {"units": f"hours since {1990 + n}-01-01"}
        part.to_zarr(tmp_path / f"{n}.zarr", zarr_format=3, encoding={"time": units})
    both = cf.concatenate([tmp_path / f"{n}.zarr/air" for n in range(2)], "time")
    got = cf.reduce(both, "mean", by="time.month", axis="time", skipna=True)
    np.testing.assert_allclose(got, data.air.groupby("time.month").mean())
    got = cf.reduce(
        both, "mean", resample={"time": "1MS"}, by="land", axis=("time", "lat"), skipna=True
    )
    np.testing.assert_allclose(got, by_pandas(data.air, ["land"], ["lon"], span="1MS"))


def test_of_a_netcdf_file_names_are_read_too(tmp_path: Path):
    data = made()
    data.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    for name, dims in (("time.month", "time"), ("land", "lat"), ("zones", None)):
        got = cf.reduce(tmp_path / "a.nc/air", "max", axis=dims, by=name, skipna=True)
        want = data.air.groupby(name).max(dims or ...)
        np.testing.assert_array_equal(got, want.transpose(*got.dims))


def test_missing_labels_are_in_no_group(tmp_path: Path):
    zones = np.array([[0, 1, -1], [9, 1, 0]], "i4")
    data = xr.Dataset(
        {
            "air": (("y", "x"), np.arange(6.0).reshape(2, 3)),
            "zones": (("y", "x"), zones, {"_FillValue": 9}),
        }
    )
    data.to_zarr(tmp_path / "m.zarr", zarr_format=3)
    run = cf.submit(tmp_path / "m.zarr/air", "sum", by="zones")
    assert (run.result().tolist(), run.groups.tolist()) == ([5, 5], [0, 1])


def test_a_dataset_has_groups_where_arrays_have_the_labels(opened: xr.Dataset):
    got = opened.chunkfold.mean("time", by="time.month")
    assert got.air.dims == ("month", "lat", "lon")
    xr.testing.assert_equal(got.depth, opened.depth.compute())
    alike(got.air, opened.air.compute().groupby("time.month").mean())
    got = opened.chunkfold.mean(by=("time.season", cf.bins([-90, 0, 90], of="lat")))
    assert got.air.dims == ("season", "lat_bins")
    assert got.depth.dims == ("lat_bins",)
    np.testing.assert_allclose(got.depth, [made().depth[:3].mean(), made().depth[3:].mean()])
    resampled = opened.chunkfold.mean("time", resample={"time": "1MS"})
    alike(resampled.air, opened.air.compute().resample(time="1MS").mean())


def test_bins_of_two_arrays_without_names_have_axes_of_their_own():
    """As other labels without names have."""
    left, right = np.arange(6) / 2, np.arange(6)[::-1]
    bins = tuple(cf.bins([0, 2, 6], of=one) for one in (left, right))
    got = cf.reduce(np.ones(6), "count", by=bins)
    assert got.dims == ("group_bins_0", "group_bins_1")
    assert got.values.tolist() == [[0, 4], [2, 0]]
    assert set(got.labels) == {*got.dims}
    one = cf.reduce(np.ones(6), "count", by=(bins[0], right))
    assert one.dims == ("group_bins", "group")


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"by": "time.mnth"}, PlanError, "has no 'mnth'; did you mean 'month'"),
    ({"by": "lat.month"}, PlanError, "'lat' of .* is float64, not times"),
    ({"by": "tiem.month"}, SourceError, "next to .* coordinates time, lat, lon"),
    ({"by": "tiem"}, SourceError, "no such path; did you mean 'time'"),
    ({"by": "month"}, SourceError, "no such path; did you mean 'time.month'"),
    ({"by": "zone"}, SourceError, "and the arrays depth, .* did you mean 'zones'"),
    ({"by": "elsewhere.zarr"}, SourceError, "next to .* or as a path"),
    ({"by": ("time.month", "time.month")}, PlanError, "both called 'month'"),
    ({"by": ("time.month", "zones"), "by_axis": "time"}, PlanError, "2 labels are given: give one"),
    ({"by": ("time.month", "zones"), "groups": [1, 2, 3]}, PlanError, "2 labels are given"),
    ({"by": "time.month", "axis": "lat"}, PlanError, "'time' is not reduced"),
    ({"by": cf.bins([0, 1], of="land")}, PlanError, "edges of int64, but the labels are <U1"),
    ({"by": cf.bins([0, 1], of="lat"), "groups": [1]}, PlanError, "its spans are the groups"),
    ({"resample": {"lat": "1MS"}}, PlanError, "with a coordinate of dates, but that is float"),
    ({"resample": {"day": "1MS"}}, PlanError, "'day' must be an axis .* but it has none"),
    ({"resample": {"time": "1XY"}}, PlanError, "resample time=1XY: .*1XY|Invalid frequency"),
    ({"resample": {"time": "0D"}}, PlanError, "resample time=0D: spans of no time"),
    ({"resample": {"time": "1ms"}}, PlanError, "time=1ms: spans of 0.001 s .* months are 'MS'"),
    ({"resample": "1MS"}, PlanError, "resample is a mapping"),
    ({"resample": {"time": None}}, PlanError, "a span of None; give a frequency .* '1MS'"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "error", "says"), REFUSED)
def test_what_is_wrong_is_told_in_a_sentence(stored: Path, given: dict, error: type, says: str):
    with pytest.raises(error, match=says):
        cf.submit(stored / "air", "sum", **given)


@pytest.mark.parametrize("by", ["height", "height.month", cf.bins([0, 3], of="height")])
def test_a_coordinate_of_one_value_is_no_label(stored: Path, by: Any):
    zarr.create_array(stored / "height", data=np.array(2.0), overwrite=True)
    for source in (stored / "air", xr.DataArray(np.arange(3), {"height": 2.0}, ["x"])):
        with pytest.raises(PlanError, match=r"'height' (is one value|of .* not times)"):
            cf.submit(source, "sum", by=by)


@pytest.mark.parametrize(
    ("edges", "says"),
    [([1], "two at least"), ([2, 1], "ascending"), ([0, np.nan], "ascending"), ("ab", "two at")],
)
def test_edges_that_are_none_are_refused(edges: Any, says: str):
    with pytest.raises(PlanError, match=says):
        cf.bins(edges, of="lat")


def test_names_come_before_paths(stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    zarr.create_array("land", data=np.arange(6), chunks=(6,))
    zarr.create_array("other", data=np.arange(6) % 2, chunks=(6,))
    assert cf.submit(stored / "air", by="land").groups.tolist() == ["a", "b", "c"]
    assert cf.submit(stored / "air", by=Path("land")).groups.tolist() == [0, 1, 2, 3, 4, 5]
    assert cf.submit(stored / "air", by="other", by_axis="lat").groups.tolist() == [0, 1]


@pytest.mark.parametrize("ops", [["median"], ["median", "mean"]])
def test_quantiles_have_groups_of_two_labels(stored: Path, ops: list[str]):
    by = ("time.season", "zones")
    got = cf.reduce(stored / "air", ops, by=by, skipna=True)["median"]
    np.testing.assert_allclose(got, by_pandas(made().air, by, op="median"))
    kept = cf.reduce(
        stored / "air", ops, axis=("time", "lat"), by=("time.year", "land"), skipna=True
    )
    want = by_pandas(made().air, ("time.year", "land"), ["lon"], op="median")
    np.testing.assert_allclose(kept["median"], want)


def test_places_in_any_order_keep_their_labels(stored: Path):
    """Lists and steps back, of axes that labels are along."""
    rows, back = [200, 3, 40, 41], slice(None, None, -1)
    got = cf.reduce(
        stored / "air", "mean", by=("time.year", "land"), axis=("time", "lat"), skipna=True,
        selection=(rows, back),
    )  # fmt: skip
    want = by_pandas(made().air[rows, ::-1], ("time.year", "land"), ["lon"])
    np.testing.assert_allclose(got, want)

"""Coordinates, labels and weights of sources that are one: each part's own, in one order and unit.

What is expected is what xarray, or NumPy, makes of parts that are decoded one by one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import chunkfold as cf
from chunkfold.errors import PlanError, SourceError
from chunkfold.sources.neighbours import axis_coordinate, neighbour
from tests.parts import MONTHS, VALUES, Parts


@pytest.fixture
def part(tmp_path: Path) -> Parts:
    return Parts(tmp_path)


def times_of(result: cf.Result) -> list[str]:
    return [str(one)[:16] for one in result.coordinates["time"].values]


def test_parts_are_read_in_the_order_of_the_first_ones_coordinates(part: Parts):
    """Latitudes turned round, longitudes in any order: what xarray aligns by label."""
    paths = [part(), part(lon=(20, 10), values=VALUES + 100), part(lon=(10, 20))]
    joined = cf.concatenate(paths, "time")
    opened = [xr.open_zarr(path.removesuffix("/v")).v for path in paths]
    wanted = xr.concat([one.sel(lon=[10, 20]) for one in opened], "time")
    assert cf.reduce(joined, axis="time").tolist() == wanted.sum("time").values.tolist()
    assert cf.reduce(joined, sel={"lon": 20}) == wanted.sel(lon=20).sum()
    assert cf.reduce(joined, "argmax", axis="lon").tolist() == wanted.argmax("lon").values.tolist()


def test_an_order_in_many_chunks_is_kept_whatever_is_selected(tmp_path: Path):
    rng = np.random.default_rng(5)
    places, values = np.arange(23) * 1.5, rng.normal(size=(6, 23, 4))
    orders = [np.arange(23), rng.permutation(23), np.arange(23)[::-1]]
    paths = []
    for n, order in enumerate(orders):
        group = zarr.open_group(tmp_path / f"{n}.zarr", mode="w")
        group.create_array(
            "v", data=values[:, order], chunks=(4, 5, 3), dimension_names=["t", "y", "x"]
        )
        group.create_array(
            "y", data=places[order].astype("f4" if n else "f8"), dimension_names=["y"]
        )
        paths.append(f"{group.store_path}/v".removeprefix("file://"))
    joined, whole = cf.concatenate(paths, "t"), np.concatenate([values] * 3)
    assert (cf.reduce(joined, "max", axis=0) == whole.max(0)).all()
    for cut in ((slice(3, 17, 2), slice(2, 21, 5), 1), (slice(None), 22, slice(0, 3))):
        found = cf.reduce(joined, "max", axis=0, selection=cut)
        assert np.array_equal(found, whole[cut].max(0))


@pytest.mark.parametrize("lon", [(10, 30), (10, 10), (20.5, 10)])
def test_other_places_are_refused_naming_both_parts(part: Parts, lon: tuple[float, ...]):
    one, other = part(), part(lon=lon)
    with pytest.raises(PlanError, match=r"0\.zarr/v and .*1\.zarr/v cannot be one.*'lon' differs"):
        cf.concatenate([one, other], "time")


def test_a_part_without_coordinates_has_those_of_others(part: Parts):
    joined = cf.concatenate([part(lon=None), part()], "time")
    assert cf.reduce(joined, sel={"lon": 20}) == 2 * VALUES[:, 1].sum()


@pytest.mark.parametrize(
    ("units", "times", "wanted"),
    [
        ("days since 2002-01-01", MONTHS, "2002-01-01T00:00"),
        ("hours since 2002-01-01", [n * 24 for n in MONTHS], "2002-01-01T00:00"),
        ("hours since 2002-01-01", [n * 24 + 12 for n in MONTHS], "2002-01-01T12:00"),
        ("days since 2002-01-01", np.array(MONTHS) + 0.25, "2002-01-01T06:00"),
        ("seconds since 1970-01-01", [1_009_843_200 + n * 86_400 for n in MONTHS], "2002-01-01"),
    ],
)
def test_dates_have_the_units_of_their_part(part: Parts, units: str, times: Any, wanted: str):
    one, other = part(), part(times, units)
    joined = cf.concatenate([one, other], "time")
    opened = [xr.open_zarr(path.removesuffix("/v")).time.values for path in (one, other)]
    found = cf.reduce(joined, axis="lon", labels=True)
    assert times_of(found) == [str(t)[:16] for t in np.concatenate(opened)]
    assert times_of(found)[4].startswith(wanted)
    years = cf.reduce(joined, axis=("time", "lon"), by="time.year")
    assert years.tolist() == [28, 28]
    assert cf.reduce(joined, sel={"time": "2002"}) == 28


def test_calendars_that_are_one_where_dates_are_go_together(part: Parts):
    joined = cf.concatenate([part(), part(calendar="proleptic_gregorian")], "time")
    months = cf.reduce(joined, axis=("time", "lon"), by="time.month", labels=True)
    assert months.coordinates["month"].values.tolist() == [1, 2, 3, 4]
    same = cf.concatenate(
        [part(calendar="noleap"), part(units="days since 2002-01-01", calendar="365_day")]
    )
    assert cf.reduce(same, axis=("time", "lon"), by="time.year").tolist() == [28, 28]


@pytest.mark.parametrize(
    ("other", "here", "there"),
    [
        ({"units": None}, "dates", "numbers"),
        ({"calendar": "noleap"}, r"dates \(standard\)", r"dates \(noleap\)"),
        ({"times": ["a", "b", "c", "d"], "units": None}, "dates", "texts"),
        ({"units": "months since 2001-01-01"}, "", "not understood"),
    ],
)
def test_coordinates_of_different_kinds_are_refused_where_they_are_used(
    part: Parts, other: dict[str, Any], here: str, there: str
):
    joined = cf.concatenate([part(), part(**other)], "time")
    with pytest.raises(SourceError, match=f"'time'.*{here}.*{there}|1.zarr.*{there}"):
        cf.reduce(joined, by="time.month")
    with pytest.raises((SourceError, PlanError), match=there):
        cf.reduce(joined, sel={"time": "2001-01"})
    found = cf.reduce(joined, axis="lon", labels=True)
    with pytest.warns(RuntimeWarning, match="'time' is omitted"):
        assert "time" not in found.coordinates
    assert found.values.tolist() == [*VALUES.sum(1)] * 2


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        (([0, 6], {"units": "hours"}), ([1, 2], {"units": "days"}), [0, 6, 24, 48]),
        (([1, 2], {"units": "days"}), ([6, 12], {"units": "hours"}), [1, 2, 0.25, 0.5]),
        (([0, 6], {"units": "m", "scale_factor": 0.5}), ([1, 2], {"units": "m"}), [0, 3, 1, 2]),
        (([0, 6], {}), ([1.5, 2], {}), [0, 6, 1.5, 2]),
        ((["a", "bbb"], {}), (["cc", "d"], {}), ["a", "bbb", "cc", "d"]),
        (([0, 6], {"units": "m"}), ([1, 2], {"units": "km"}), None),
        (([0, 2**60 + 1], {}), ([1.5, 2], {}), None),
        (([True, False], {}), ([1, 2], {}), None),
    ],
)
def test_numbers_are_joined_by_what_they_stand_for(
    part: Parts, one: tuple[Any, Any], other: tuple[Any, Any], wanted: list[Any] | None
):
    values = VALUES[:2]
    paths = [part(times, None, values=values, time=said) for times, said in (one, other)]
    found = neighbour_or_error(cf.concatenate(paths, "time"))
    if wanted is None:
        assert isinstance(found, SourceError)
        assert "0.zarr/v" in str(found)
        assert "1.zarr/v" in str(found)
    else:
        assert found.values(found.whole()).tolist() == wanted


def neighbour_or_error(joined: Any) -> Any:
    try:
        return axis_coordinate(joined, "time")
    except SourceError as error:
        return error


def test_labels_and_weights_follow_their_part(part: Parts):
    """Along time, and those without it where they differ, in the order of lon."""
    other: dict[str, Any] = {
        "zones": (("lon",), [3, 1]),
        "w": (("time",), [2.0, 2, 2, 4]),
    }
    first = {
        "zones": (("lon",), [1, 2]),
        "w": (("time",), [1.0, 1, 1, 1]),
    }
    joined = cf.concatenate(
        [part(**first), part(lon=(20, 10), values=VALUES + 100, **other)], "time"
    )
    both = np.concatenate([VALUES, (VALUES + 100)[:, ::-1]])
    zones = np.concatenate([np.tile([1, 2], (4, 1)), np.tile([1, 3], (4, 1))])
    sums = cf.reduce(joined, axis=("time", "lon"), by="zones", labels=True)
    assert sums.coordinates["zones"].values.tolist() == [1, 2, 3]
    assert sums.values.tolist() == [both[zones == n].sum() for n in (1, 2, 3)]
    weights = np.repeat([1, 1, 1, 1, 2, 2, 2, 4], 2).reshape(8, 2)
    assert cf.reduce(joined, "mean", weights="w") == np.average(both, weights=weights)


def test_what_all_parts_have_alike_is_one(part: Parts):
    beside = {"zones": (("lon",), [1, 2])}
    joined = cf.concatenate([part(**beside), part(**beside)], "time")
    found = neighbour(joined, "zones")
    assert found is not None
    assert found.dims == ("lon",)


def test_a_part_that_lacks_labels_is_named(part: Parts):
    joined = cf.concatenate([part(w=(("time",), [1.0] * 4)), part()], "time")
    with pytest.raises(SourceError, match=r"1\.zarr/v: its group has no 'w'"):
        cf.reduce(joined, "mean", weights="w")


def test_results_have_the_coordinates_of_all(part: Parts):
    joined = cf.concatenate([part(), part(units="days since 2002-01-01")], "time")
    found = cf.reduce(joined, "mean", axis="lon", labels=True).to_xarray()
    assert found.time.dt.year.values.tolist() == [2001] * 4 + [2002] * 4


def test_data_arrays_are_put_in_order_by_their_coordinates(part: Parts):
    opened = [xr.open_zarr(part(lon=lon).removesuffix("/v")).v for lon in ((10, 20), (20, 10))]
    wanted = xr.concat([opened[0], opened[1].sel(lon=[10, 20])], "time").sum("time").values.tolist()
    for each in (opened, [one.load() for one in opened]):
        joined = cf.concatenate(each, "time")
        assert cf.reduce(joined, axis="time").tolist() == wanted
        assert times_of(cf.reduce(joined, axis="lon", labels=True))[5].startswith("2001-02")


def test_a_variable_with_other_axes_is_no_coordinate(tmp_path: Path):
    """It only has the name of an axis: its numbers say nothing of places along that."""
    group = zarr.open_group(tmp_path / "s.zarr", mode="w")
    group.create_array("v", data=VALUES, dimension_names=["time", "lon"])
    group.create_array("lon", data=np.array([7.0, 8.0]), dimension_names=["x"])
    with pytest.raises(PlanError, match="axis 'lon' has no coordinate"):
        cf.reduce(f"{tmp_path}/s.zarr/v", sel={"lon": 7})
    assert "lon" not in cf.reduce(f"{tmp_path}/s.zarr/v", axis="time", labels=True).coordinates

"""What is given beside data, or as a second source, is of the data's places: by coordinates."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import chunkfold as cf
from chunkfold.errors import AlignmentWarning, PlanError, SourceError
from chunkfold.workflows.comparisons.diff import diff
from tests.parts import VALUES, Parts

LAT = (60.0, 30.0, 0.0)
FIELD = np.arange(12, dtype="f4").reshape(4, 3) ** 2


def stored(
    path: Path,
    values: np.ndarray,
    lat: Sequence[float] | None,
    dims: tuple[str, ...] = ("time", "lat"),
    units: str | None = None,
) -> str:
    group = zarr.open_group(path, mode="w")
    group.create_array("v", data=values, dimension_names=dims)
    if lat is not None:
        made = group.create_array("lat", data=np.asarray(lat), dimension_names=["lat"])
        made.attrs.update({} if units is None else {"units": units})
    return f"{path}/v"


@pytest.fixture
def data(tmp_path: Path) -> str:
    return stored(tmp_path / "a.zarr", FIELD, LAT)


def test_two_sources_are_paired_by_their_coordinates(data: str, tmp_path: Path):
    other = stored(tmp_path / "b.zarr", FIELD[:, ::-1], LAT[::-1])
    assert cf.reduce((data, other), "rmse") == 0
    assert cf.reduce((data, other), "max_abs_diff", axis="time").tolist() == [0, 0, 0]
    joined = cf.concatenate([data, data], "time")
    twice = stored(tmp_path / "c.zarr", np.concatenate([FIELD, FIELD])[:, ::-1], LAT[::-1])
    assert cf.reduce((joined, twice), "mae") == 0
    assert not diff(data, other).equal  # a copy has the same places


def test_other_places_are_paired_by_position_and_told(data: str, tmp_path: Path):
    other = stored(tmp_path / "b.zarr", FIELD, (50, 20, 10))
    with pytest.warns(AlignmentWarning, match="by position, though their 'lat' differs: at 0"):
        assert cf.reduce((data, other), "rmse") == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", AlignmentWarning)
        assert cf.reduce((data, stored(tmp_path / "c.zarr", FIELD, None)), "rmse") == 0


def test_axes_in_another_order_are_refused(data: str, tmp_path: Path):
    square = np.arange(9.0).reshape(3, 3)
    one = stored(tmp_path / "b.zarr", square, LAT, ("lon", "lat"))
    other = stored(tmp_path / "c.zarr", square.T.copy(), LAT, ("lat", "lon"))
    with pytest.raises(PlanError, match=r"axes lon, lat, but .* has lat, lon"):
        cf.reduce((one, other), "rmse")


def test_weights_masks_and_labels_by_path_are_put_in_order(data: str, tmp_path: Path):
    """Each stands in a Zarr of its own, whose latitudes ascend."""
    weights = stored(tmp_path / "w.zarr", np.array([0.0, 0, 1]), LAT[::-1], ("lat",))
    found = cf.reduce(data, "mean", axis="lat", weights=weights)
    assert found.tolist() == FIELD[:, 0].tolist()
    labels = stored(tmp_path / "l.zarr", np.array([7, 8, 9]), LAT[::-1], ("lat",))
    assert cf.reduce(data, axis=("time", "lat"), by=labels).tolist() == FIELD.sum(0)[::-1].tolist()
    texts = stored(tmp_path / "t.zarr", np.array(["a", "b", "c"]), LAT[::-1], ("lat",))
    assert cf.reduce(data, axis=("time", "lat"), by=texts).tolist() == FIELD.sum(0)[::-1].tolist()
    land = stored(tmp_path / "m.zarr", np.array([True, False, False]), LAT[::-1], ("lat",))
    mask = zarr.open_array(land, mode="r")
    assert cf.reduce(data, "sum", where=mask) == FIELD[:, 2].sum()
    opened = xr.open_zarr(tmp_path / "a.zarr", consolidated=False).v
    assert cf.reduce(opened, "mean", axis="lat", weights=weights).values.tolist() == found.tolist()


@pytest.mark.parametrize("what", ["weights", "by"])
def test_other_places_beside_data_are_refused(data: str, tmp_path: Path, what: str):
    other = stored(tmp_path / "w.zarr", np.array([1.0, 2, 3]), (60, 30, 10), ("lat",))
    given: dict[str, Any] = {what: other, "axis": ("time", "lat")}
    with pytest.raises(PlanError, match=r"w\.zarr/v has other places than .*'lat' differs: at 2"):
        cf.reduce(data, "mean", **given)


def test_every_part_is_compared_with_those_before_it(tmp_path: Path):
    """The first has no coordinates; the third is in another order than the second."""
    paths = [
        stored(tmp_path / "0.zarr", FIELD, None),
        stored(tmp_path / "1.zarr", FIELD, LAT),
        stored(tmp_path / "2.zarr", FIELD[:, ::-1] + 1000, LAT[::-1]),
    ]
    joined = cf.concatenate(paths, "time")
    assert cf.reduce(joined, "max", axis="time").tolist() == (FIELD + 1000).max(0).tolist()
    paths[2] = stored(tmp_path / "3.zarr", FIELD, (60, 30, 5))
    with pytest.raises(PlanError, match=r"1\.zarr/v and .*3\.zarr/v cannot be one"):
        cf.concatenate(paths, "time")


def test_units_of_coordinates_are_compared(tmp_path: Path):
    one = stored(tmp_path / "1.zarr", FIELD, LAT, units="hPa")
    other = stored(tmp_path / "2.zarr", FIELD, LAT, units="Pa")
    with pytest.raises(PlanError, match="'lat' is in 'hPa' in the first and in 'Pa' in the second"):
        cf.concatenate([one, other], "time")


@pytest.mark.parametrize(("first", "same"), [("2000-01-01", True), ("1500-01-01", False)])
def test_gregorian_calendars_are_one_since_1582(tmp_path: Path, first: str, same: bool):
    """As xarray writes proleptic ones where a file has the standard one."""
    paths = []
    for calendar in ("standard", "proleptic_gregorian"):
        paths.append(stored(tmp_path / f"{calendar}.zarr", FIELD, None))
        group = zarr.open_group(tmp_path / f"{calendar}.zarr", mode="a")
        time = group.create_array("time", data=np.arange(4), dimension_names=["time"])
        time.attrs.update({"units": f"days since {first}", "calendar": calendar})
    weights = xr.open_zarr(tmp_path / "proleptic_gregorian.zarr", decode_times=False).v[:, 0]
    if same:
        assert cf.reduce(paths[0], "sum", weights=weights) == float((FIELD * FIELD[:, :1]).sum())
    else:
        with pytest.raises(PlanError, match=r"dates \(standard\) in the first"):
            cf.reduce(paths[0], "sum", weights=weights)


def test_texts_that_differ_follow_their_part(tmp_path: Path):
    part, names = Parts(tmp_path), (["x", "y"], ["z", "x"])
    joined = cf.concatenate([part(lab=(("lon",), one)) for one in names], "time")
    found = cf.reduce(joined, axis=("time", "lon"), by="lab", labels=True)
    each = dict(zip(found.coordinates["lab"].values.tolist(), found.values.tolist(), strict=True))
    x, y = VALUES.sum(0).tolist()
    assert each == {"x": x + y, "y": y, "z": x}


@pytest.mark.parametrize("lacking", [0, 1, 2])
def test_a_part_without_weights_is_refused_whichever_it_is(tmp_path: Path, lacking: int):
    part = Parts(tmp_path)
    beside = [{} if n == lacking else {"w": (("lon",), [1.0, 2.0])} for n in range(3)]
    joined = cf.concatenate([part(**one) for one in beside], "time")
    with pytest.raises(SourceError, match=rf"{lacking}\.zarr/v: its group has no 'w'"):
        cf.reduce(joined, "mean", weights="w")

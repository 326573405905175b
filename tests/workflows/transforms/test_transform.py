"""Anomalies and other comparisons with groups are xarray's, whatever the chunks, and bounded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

import chunkfold as cf
from chunkfold.errors import NaNWarning, PlanError
from chunkfold.outputs import staging_folder
from chunkfold.workflows.transforms import comparing
from chunkfold.workflows.transforms import transform as transform_module
from chunkfold.workflows.transforms.comparing import TRANSFORMS
from chunkfold.workflows.transforms.transform import transform
from tests.ledgers import aged

ASKED: dict[str, dict[str, Any]] = {
    "all": {},
    "an axis": {"axis": "time"},
    "two axes": {"axis": ("time", "lon")},
    "months": {"axis": "time", "by": "time.month"},
    "a base period": {
        "axis": "time", "by": "time.month", "sel": {"time": slice("2001", "2002")}
    },
    "years": {"axis": "time", "resample": {"time": "1YS"}},
    "zones": {"axis": "lat", "by": cf.bins([-90, -30, 30, 90], "lat")},
    "missing": {"axis": "time", "by": "time.month", "skipna": True},
}  # fmt: skip


@pytest.fixture
def data(tmp_path: Path) -> xr.DataArray:
    """Store 40 months, in chunks of 7, with a hole."""
    values = np.random.default_rng(0).normal(5, 2, size=(40, 9, 8)).astype("f4")
    values[3, 2, :4] = np.nan
    time = pd.date_range("2000-03-01", periods=40, freq="MS")
    coords = {"time": time, "lat": np.linspace(-80, 80, 9), "lon": np.arange(8.0)}
    air = xr.DataArray(values, coords, ("time", "lat", "lon"), "air", {"units": "degC"})
    air.to_dataset().to_zarr(tmp_path / "a.zarr", encoding={"air": {"chunks": (7, 4, 8)}})
    aged(tmp_path / "a.zarr")
    return air.astype("f8")


def statistics(data: xr.DataArray, asked: dict[str, Any]) -> tuple[xr.DataArray, xr.DataArray]:
    """Return the mean and the deviation of each element's group, of the array's shape."""
    skipna = bool(asked.get("skipna"))
    base = data.sel(asked.get("sel", {}))
    if asked.get("by") == "time.month":
        groups = base.groupby("time.month")
        each = groups.mean("time", skipna=skipna), groups.std("time", skipna=skipna)
        return tuple(one.sel(month=data.time.dt.month) for one in each)
    if "resample" in asked:
        groups = data.groupby("time.year")
        each = groups.mean("time", skipna=skipna), groups.std("time", skipna=skipna)
        return tuple(one.sel(year=data.time.dt.year) for one in each)
    if "by" in asked:
        zone = xr.DataArray(np.digitize(data.lat, [-90, -30, 30, 90]), dims="lat", name="zone")
        groups = data.groupby(zone)
        each = groups.mean("lat", skipna=skipna), groups.std("lat", skipna=skipna)
        return tuple(one.sel(zone=zone) for one in each)
    dims = asked.get("axis", data.dims)
    return data.mean(dims, skipna=skipna), data.std(dims, skipna=skipna)


@pytest.mark.parametrize("how", TRANSFORMS)
@pytest.mark.parametrize("name", ASKED)
def test_it_is_xarrays(tmp_path: Path, data: xr.DataArray, name: str, how: str):
    mean, std = statistics(data, ASKED[name])
    wanted = {"anomaly": data - mean, "standardize": (data - mean) / std, "divide": data / mean}
    transform(tmp_path / "a.zarr/air", tmp_path / "o.zarr", how, **ASKED[name])
    with xr.open_zarr(tmp_path / "o.zarr") as found:
        assert found.air.dtype == np.float32
        assert found.air.encoding["chunks"] == (7, 4, 8)
        expected = wanted[how].transpose("time", "lat", "lon")
        np.testing.assert_allclose(found.air, expected, rtol=2e-6, atol=2e-6)
        for axis in data.dims:
            np.testing.assert_array_equal(found[axis], data[axis])
        assert found.air.attrs["units"] == ("K" if how == "anomaly" else "1")
        assert json.loads(found.air.attrs["chunkfold"])["op"] == how


@pytest.mark.parametrize("name", ["months", "two axes", "zones"])
def test_statistics_that_are_not_held_are_read_by_group(
    tmp_path: Path, data: xr.DataArray, name: str, monkeypatch: pytest.MonkeyPatch
):
    mean, std = statistics(data, ASKED[name])
    monkeypatch.setattr(comparing, "HELD_BYTES", 0)
    seen, write = [], transform_module.write_projection

    def spied(request: Any, place: Path, **given: Any) -> None:
        write(request, place, **given)
        seen.append(zarr.open_array(place / "std").chunks)

    monkeypatch.setattr(transform_module, "write_projection", spied)
    transform(tmp_path / "a.zarr/air", tmp_path / "o.zarr", "standardize", **ASKED[name])
    with xr.open_zarr(tmp_path / "o.zarr") as found:
        expected = ((data - mean) / std).transpose("time", "lat", "lon")
        np.testing.assert_allclose(found.air, expected, rtol=2e-6, atol=2e-6)
    assert seen == [{"months": (1, 4, 8), "two axes": (4,), "zones": (7, 1, 8)}[name]]


def test_groups_without_elements_in_the_base_are_nan(tmp_path: Path, data: xr.DataArray):
    base = {"time": slice("2001-01", "2001-06")}
    transform(
        tmp_path / "a.zarr/air", tmp_path / "o.zarr", "anomaly", axis="time", by="time.month",
        sel=base,
    )  # fmt: skip
    with xr.open_zarr(tmp_path / "o.zarr") as found:
        has = ~np.isnan(found.air).all(("lat", "lon"))
        np.testing.assert_array_equal(has, data.time.dt.month <= 6)


def test_two_labels_are_one_group_each(tmp_path: Path, data: xr.DataArray):
    season, half = np.arange(40) % 4, np.arange(8) // 4
    transform(
        tmp_path / "a.zarr/air", tmp_path / "o.zarr", "anomaly", axis=("time", "lon"),
        by=(season, half), by_axis=("time", "lon"),
    )  # fmt: skip
    values = data.values
    with xr.open_zarr(tmp_path / "o.zarr") as found:
        for s in range(4):
            for h in range(2):
                cell = values[season == s][:, :, half == h]
                expected = cell - cell.mean(axis=(0, 2), keepdims=True)
                got = found.air.values[season == s][:, :, half == h]
                np.testing.assert_allclose(got, expected, atol=2e-6)


def test_packed_numbers_are_unpacked_and_chunks_and_shards_are_the_sources(tmp_path: Path):
    stored = np.arange(240, dtype="i2").reshape(10, 4, 6)
    stored[0, 0, 0] = -1
    array = zarr.create_array(
        tmp_path / "p.zarr", data=stored, chunks=(1, 2, 6), shards=(5, 2, 6),
        attributes={"scale_factor": 0.5, "add_offset": 10.0, "_FillValue": -1},
    )  # fmt: skip
    made = transform(array, tmp_path / "o.zarr", "anomaly", axis=0, skipna=True,
                     mask_and_scale=True)["p"]  # fmt: skip
    values = np.where(stored == -1, np.nan, stored * 0.5 + 10)
    np.testing.assert_allclose(made[...], values - np.nanmean(values, axis=0), rtol=1e-6)
    assert (made.chunks, made.shards) == ((1, 2, 6), (5, 2, 6))


def test_a_run_that_broke_goes_on_with_its_ledger(tmp_path: Path, data, monkeypatch):
    from chunkfold.workflows.regionwise import changed_parts

    monkeypatch.setattr(changed_parts, "NOTED_EVERY_S", 0.0)
    asked = {"axis": "time", "by": "time.month", "ledger": tmp_path / "l"}
    transform(tmp_path / "a.zarr/air", tmp_path / "whole.zarr", "anomaly", **asked)
    written, write = [], changed_parts.PartWriter._write

    def breaks(self: Any, box: Any) -> None:
        if len(written) == 9:
            raise OSError("the disk is gone")
        written.append(box)
        write(self, box)

    monkeypatch.setattr(changed_parts.PartWriter, "_write", breaks)
    with pytest.raises(cf.errors.ChunkfoldError, match="the disk is gone"):
        transform(tmp_path / "a.zarr/air", tmp_path / "o.zarr", "anomaly", **asked)
    assert not (tmp_path / "o.zarr").exists()
    again = []
    monkeypatch.setattr(
        changed_parts.PartWriter, "_write", lambda *given: (again.append(given[1]), write(*given))
    )
    transform(tmp_path / "a.zarr/air", tmp_path / "o.zarr", "anomaly", **asked)
    assert len(again) < 18
    for one in ("o.zarr", "whole.zarr"):
        assert not [*tmp_path.glob(f".{one}.*")]
    found, expected = (zarr.open_array(tmp_path / one / "air") for one in ("o.zarr", "whole.zarr"))
    np.testing.assert_array_equal(found[...], expected[...])


def test_what_killed_runs_left_goes(tmp_path: Path, data: xr.DataArray):
    left = tmp_path / f"{staging_folder._prefix(tmp_path / 'o.zarr.statistics')}99999999-abcd"
    (left / "statistics.zarr").mkdir(parents=True)
    transform(tmp_path / "a.zarr/air", tmp_path / "o.zarr", "anomaly", axis="time")
    assert {one.name for one in tmp_path.iterdir()} == {"a.zarr", "o.zarr"}


def test_means_that_are_nan_are_told(tmp_path: Path, data: xr.DataArray):
    for given, told in (
        ({}, "4 of 72 means have no element, or NaN"),
        (
            {"skipna": True, "sel": {"time": slice("2000-06", "2000-06")}},
            "have no valid element in the base:",
        ),
    ):
        with pytest.warns(NaNWarning, match=told):
            transform(
                tmp_path / "a.zarr/air", tmp_path / "o.zarr", "anomaly", axis="time",
                overwrite=True, **given,
            )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"how": "anomalies"},
            "'anomalies' is not a transformation; use one of: anomaly, standardize",
        ),
        ({"keepdims": True}, "keepdims is given, but elements keep their places"),
        ({"dtype": "int16"}, "cannot hold normalized values"),
        ({"axis": "tim"}, "did you mean 'time'"),
        ({"sel": {"lon": slice(2, 4)}}, "a part of axis 2 is selected"),
        ({"sel": {"lon": [7, 6, 5, 4, 3, 2, 1, 0]}}, "a part of axis 2 is selected"),
        ({"selection": (slice(None), 3)}, "a part of axis 1 is selected"),
        ({"by": cf.bins([0, 5, 9])}, "bins of its own values cannot be the groups"),
        ({"resample": {"time": "1YS"}, "sel": {"time": "2001"}}, "resample makes other groups"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(tmp_path, data, given, message):
    given = {"how": "anomaly", "axis": "time"} | given
    with pytest.raises(PlanError, match=message):
        transform(tmp_path / "a.zarr/air", tmp_path / "o.zarr", **given)
    assert [one.name for one in tmp_path.iterdir()] == ["a.zarr"]


@pytest.mark.short
def test_the_command_writes_it(
    tmp_path: Path, data: xr.DataArray, here: Callable, command: Callable
):
    words = ("--apply", "standardize", "--axis", "time", "--by", "time.month", "--skipna")
    ended = command("transform", tmp_path / "a.zarr/air", tmp_path / "o.zarr", *words)
    assert f"wrote {tmp_path / 'o.zarr'}" in ended.stderr.replace("\n", "")
    transform(
        tmp_path / "a.zarr/air", tmp_path / "p.zarr", "standardize", axis="time", by="time.month",
        skipna=True,
    )  # fmt: skip
    found, expected = (zarr.open_array(tmp_path / one / "air") for one in ("o.zarr", "p.zarr"))
    np.testing.assert_array_equal(found[...], expected[...])

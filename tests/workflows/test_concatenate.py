"""`--concatenate`: patterns of files, and of arrays in them, as one array along an axis."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr
import zarr

import chunkfold as cf
from chunkfold.errors import JobError
from chunkfold.workflows.cli import reduction_options
from chunkfold.workflows.job.sources import job_sources, matching
from tests.parts import MONTHS, VALUES, Parts


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch) -> Path:
    """Return a folder of two years, as HDF5 files and as Zarr groups."""
    monkeypatch.chdir(tmp_path)
    for year in (2001, 2002):
        values = np.full((2, 3), float(year))
        with h5py.File(f"{year}.nc", "w") as file:
            file["air"] = values
            file["deep/sea"] = values
            file["air"].dims[0].label = "time"
        zarr.open_group(f"{year}.zarr", mode="w").create_array("air", data=values)
    Path("notes.nc").write_text("no HDF5")
    return tmp_path


def test_a_pattern_is_one_array_in_the_order_of_names():
    (made,) = reduction_options.opened(["*.nc/air"], "time")
    assert made.shape == (4, 3)
    assert cf.reduce(made, "max", axis=1).tolist() == [2001, 2001, 2002, 2002]
    (listed,) = reduction_options.opened(["2002.zarr/air", "2001.nc/air", "*.zarr/air"], "0")
    assert [one.name for one in listed.origins] == [
        "2002.zarr/air", "2001.nc/air", "2001.zarr/air", "2002.zarr/air"
    ]  # fmt: skip


def test_without_it_each_is_a_source_of_its_own():
    assert len(reduction_options.opened(["2001.nc/air", "2002.nc/air"], None)) == 2


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.nc/air", ["2001.nc/air", "2002.nc/air"]),
        ("200[2]*/deep/sea", ["2002.nc/deep/sea"]),
        ("*.nc", ["2001.nc", "2002.nc"]),
        ("*/air", ["2001.zarr/air", "2002.zarr/air", "2001.nc/air", "2002.nc/air"]),
        ("2001.nc/air", ["2001.nc/air"]),
    ],
)
def test_patterns_lead_into_files(folder: Path, pattern: str, found: list[str]):
    assert matching(f"{folder}/{pattern}") == [f"{folder}/{one}" for one in found]


def test_jobs_take_all_arrays_of_files(folder: Path):
    assert sorted(job_sources([f"{folder}/*.nc"])) == [
        "2001.nc/air", "2001.nc/deep/sea", "2002.nc/air", "2002.nc/deep/sea"
    ]  # fmt: skip


def test_a_pattern_of_nothing_is_refused():
    with pytest.raises(JobError, match="matches no Zarr array or group"):
        reduction_options.opened(["*.h5/air"], "time")


def test_bounds_keep_the_units_of_their_coordinate(command, folder: Path):
    """They have none of their own; a last one ends at noon, so that all are counted in hours."""
    part, days = Parts(folder), np.array([[0, 31], [31, 59], [59, 90], [90, 120]])
    bounds = {"time": {"bounds": "time_bnds"}, "time_bnds": (("time", "nv"), days)}
    late = {**bounds, "time_bnds": (("time", "nv"), days * 24 + [0, 12])}
    paths = [part(**bounds), part(np.array(MONTHS) * 24, "hours since 2002-01-01", **late)]
    out = folder / "out.zarr"
    command("reduce", *paths, "--concatenate", "time", "--axis", "lon", "--out", out)
    with xr.open_zarr(out) as found:
        assert str(found.time.values[-1])[:16] == "2002-04-01T00:00"
        assert [str(one)[:16] for one in found.time_bnds.values[-1]] == [
            "2002-04-01T00:00",
            "2002-05-01T12:00",
        ]
        assert [str(one)[:10] for one in found.time_bnds.values[0]] == ["2001-01-01", "2001-02-01"]


def test_tables_have_the_coordinates_of_all_parts(command, folder: Path):
    part, out = Parts(folder), folder / "out.csv"
    paths = [part(), part(units="days since 2002-01-01")]
    command("reduce", *paths, "--concatenate", "time", "--axis", "lon", "--out", out)
    lines = out.read_text().splitlines()
    assert "2001-01-01" in lines[1]
    assert "2002-04-01" in lines[-1]


def test_a_mask_follows_its_part_and_its_order(command, folder: Path):
    part = Parts(folder)
    paths = [
        part(land=(("lon",), [True, True])),
        part(lon=(20, 10), values=VALUES + 100, land=(("lon",), [True, False])),
    ]
    found = command("reduce", *paths, "--concatenate", "time", "--mask", "land", "--quiet")
    assert float(found.stdout.split()[-1]) == VALUES.sum() + (VALUES + 100)[:, 0].sum()

"""`--concatenate`: patterns of files, and of arrays in them, as one array along an axis."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.errors import JobError
from chunkfold.workflows.cli import reduction_options
from chunkfold.workflows.job.sources import job_sources, matching


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

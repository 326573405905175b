"""Results of groups in outputs and on standard output: with the labels that they are of."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
import zarr
from pyarrow import parquet

import chunkfold as cf
from chunkfold.errors import JobError, PlanError
from chunkfold.workflows.files.writing import write_results
from chunkfold.workflows.job.loading import load_job
from chunkfold.workflows.transforms.project import project

pytestmark = pytest.mark.unoptimised
MONTHS = np.arange(10) % 3 + 1


@pytest.fixture
def air(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """air (time, y, x) in a group, its zones (y, x), and months in a file."""
    monkeypatch.chdir(tmp_path)
    values = np.random.default_rng(0).integers(0, 99, (10, 4, 6)).astype("i4")
    group = zarr.create_group("a.zarr")
    names = ("time", "y", "x")
    group.create_array("air", data=values, chunks=(4, 4, 6), dimension_names=names)
    group.create_array("y", data=np.arange(4) * 1.5, dimension_names=("y",))
    zones = (np.arange(24).reshape(4, 6) % 3 - 1).astype("i1")
    group.create_array("zones", data=zones, dimension_names=("y", "x"))
    np.save("month.npy", MONTHS)
    return values


def monthly(values: np.ndarray) -> np.ndarray:
    return np.stack([values[month == MONTHS].sum(axis=0) for month in (1, 2, 3)])


def test_a_command_groups_and_writes_what_it_prints(air: np.ndarray, command: Callable):
    words = ("reduce", "a.zarr/air", "--axis", "0", "--by", "month.npy", "--by-axis", "time")
    said = json.loads(command(*words, "--json", "--out", "m.zarr").stdout)
    assert said["groups"] == [1, 2, 3]
    assert said["results"]["sum"] == monthly(air).tolist()
    made = xarray.open_zarr("m.zarr")
    assert made["sum"].dims == ("month", "y", "x")
    assert made["month"].values.tolist() == [1, 2, 3]
    assert made["y"].values.tolist() == [0, 1.5, 3, 4.5]
    np.testing.assert_array_equal(made["sum"], monthly(air))
    assert json.loads(made["sum"].attrs["chunkfold"])["by"] == "month.npy"
    planned = command("plan", "a.zarr/air", "--by", "a.zarr/zones", "--json")
    assert json.loads(planned.stdout)["groups"] == [0, 1]


def test_tables_and_json_have_a_row_and_a_name_for_each_group(air: np.ndarray, command: Callable):
    zones = zarr.open_array("a.zarr/zones")[...]
    words = ("reduce", "a.zarr/air", "--axis", "y,x", "--by", "a.zarr/zones", "-q")
    for out in ("z.parquet", "z.json"):
        printed = command(*words, "--out", out).stdout
    assert printed.splitlines()[0] == "groups [0 1]"
    rows = parquet.read_table("z.parquet").to_pydict()
    assert list(rows) == ["source", "time_position", "zones", "sum"]
    want = [[air[t, zones == zone].sum() for zone in (0, 1)] for t in range(10)]
    assert rows["sum"] == np.ravel(want).tolist()
    assert rows["zones"] == [0, 1] * 10
    assert rows["time_position"] == np.repeat(np.arange(10), 2).tolist()
    said = json.loads(Path("z.json").read_text())
    labels = said.pop("labels")
    assert said == {"groups": [0, 1], "sum": np.array(want).tolist()}
    assert labels["coordinates"]["zones"] == {"dims": ["zones"], "values": [0, 1], "attrs": {}}
    assert labels["results"]["sum"]["dims"] == ["time", "zones"]


LABELS: list[tuple[Any, Any]] = [
    (["b", "a"] * 5, ["a", "b"]),
    ([True, False] * 5, [False, True]),
    (np.array(["2001-01", "2000-01"] * 5, "M8[M]"), ["2000-01", "2001-01"]),
]


@pytest.mark.parametrize(("by", "groups"), LABELS)
def test_labels_of_any_kind_are_a_coordinate(air: np.ndarray, by: Any, groups: list[Any]):
    named = xarray.DataArray(by, dims=["time"], name="kind")
    project("a.zarr/air", "p.zarr", "max", axis="time", by=named, keepdims=True)
    made = xarray.open_zarr("p.zarr")
    assert made["max"].dims == ("kind", "y", "x")
    wanted = np.array(groups, made["kind"].dtype)
    assert made["kind"].values.tolist() == wanted.tolist()
    np.testing.assert_array_equal(made["max"], [air[1::2].max(axis=0), air[::2].max(axis=0)])


def test_a_name_that_is_taken_is_refused_before_the_work(air: np.ndarray, command: Callable):
    np.save("sum.npy", MONTHS)
    words = ("reduce", "a.zarr/air", "--axis", "0", "--by", "sum.npy", "--out", "m.zarr")
    told = command(*words, code=2).stderr
    assert "would be called 'sum' in a Zarr" in told
    assert not Path("m.zarr").exists()
    with pytest.raises(PlanError, match="would be called 'sum'"):
        project("a.zarr/air", "m.zarr", axis=0, by="sum.npy")
    told = command("reduce", "a.zarr/air", "--by", "nothing.npy", code=2).stderr
    assert "nothing.npy: is not a .npy file" in told
    assert cf.plan("a.zarr/air", axis="time", by="month.npy").groups == 3


def _grouped(folder: Path, labels: np.ndarray, stem: str) -> subprocess.CompletedProcess:
    array = zarr.create_array(
        str(folder / "d.zarr"), data=np.arange(24.0).reshape(6, 4), chunks=(4, 3),
        dimension_names=("time", "x"), overwrite=True,
    )  # fmt: skip
    assert array.shape == (6, 4)
    np.save(folder / f"{stem}.npy", labels)
    words = ["chunkfold", "project", "d.zarr", "out.zarr", "--axis", "time", "--op", "mean"]
    program = Path(sys.executable).parent / words[0]
    return subprocess.run(
        [program, *words[1:], "--by", f"{stem}.npy"], cwd=folder, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip


def test_dates_of_any_unit_come_back(tmp_path: Path):
    labels = np.array(["1500-01-01", "2500-01-01"] * 3, "M8[ms]")
    done = _grouped(tmp_path, labels, "when")
    assert done.returncode == 0, done.stderr
    stored = xarray.open_zarr(
        tmp_path / "out.zarr", decode_times=xarray.coders.CFDatetimeCoder(time_unit="ms")
    )
    assert stored.when.values.astype("M8[ms]").tolist() == labels[:2].tolist()


@pytest.mark.parametrize(
    ("labels", "stem", "said"),
    [
        (np.array([1, 2, 3] * 2, "M8[ps]"), "when", "cast them to datetime64[ns] or a coarser"),
        (np.array([1, 2] * 3, "m8[M]"), "span", "cast them to timedelta64[ns]"),
        (np.arange(6) % 2, "x", "axis that results keep are both called 'x'"),
    ],
)
def test_labels_that_are_no_coordinate_are_refused(
    tmp_path: Path, labels: np.ndarray, stem: str, said: str
):
    done = _grouped(tmp_path, labels, stem)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert not (tmp_path / "out.zarr").exists()


@pytest.fixture
def dated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> xarray.Dataset:
    """air (time, lat) with coordinates, over the end of a year, and zones in a store beside it."""
    monkeypatch.chdir(tmp_path)
    times = np.arange("1999-11-20", "2000-02-10", dtype="M8[D]")
    values = np.random.default_rng(1).integers(0, 99, (len(times), 5)).astype("i4")
    lat = [-80.0, -10, 10, 40, 90]
    held = xarray.Dataset({"air": (("time", "lat"), values)}, {"time": times, "lat": lat})
    held.to_zarr("d.zarr", zarr_format=3, encoding={"air": {"chunks": (20, 3)}})
    zarr.create_array("zones.zarr", data=np.array([0, 0, 1, 1, -1]), dimension_names=("lat",))
    return held


def test_a_command_takes_names_bins_several_labels_and_spans(
    dated: xarray.Dataset, command: Callable
):
    by = ("--by", "time.season", "--by", "lat", "--bins", "", "--bins=-90,0,90")
    words = ("reduce", "d.zarr/air", *by, "--op", "mean", "--groups", "SON,DJF", "--groups", "")
    refused = command(*words, "--bins", "0,1", code=2).stderr
    assert "bins are given 3 times, but labels 2" in refused
    words = ("reduce", "d.zarr/air", *by, "--op", "mean")
    said = json.loads(command(*words, "--json", "--out", "b.nc").stdout)
    assert said["groups"] == {"season": ["DJF", "SON"], "lat_bins": ["[-90, 0)", "[0, 90)"]}
    winter = dated.air.time.dt.season == "DJF"
    want = [dated.air[rows][:, cut].mean() for rows in (winter, ~winter)
            for cut in (slice(0, 2), slice(2, 4))]  # fmt: skip
    np.testing.assert_allclose(np.ravel(said["results"]["mean"]), want)
    made = xarray.open_dataset("b.nc", engine="h5netcdf")
    assert made["mean"].dims == ("season", "lat_bins")
    assert made.lat_bins.values.tolist() == ["[-90, 0)", "[0, 90)"]
    printed = command(*words, "--out", "b.csv", "-q").stdout
    assert printed.splitlines()[:2] == ["groups season ['DJF' 'SON']",
                                        "groups lat_bins ['[-90, 0)' '[0, 90)']"]  # fmt: skip
    rows = Path("b.csv").read_text().splitlines()
    assert rows[0] == "source,season,lat_bins,mean"
    assert rows[2].startswith('d.zarr/air,DJF,"[0, 90)",')
    planned = command("plan", "d.zarr/air", *by).stdout
    assert "4: season (2, from DJF to SON) x lat_bins (2, from [-90, 0) to [0, 90))" in planned


def test_spans_and_other_labels_are_written_with_their_dates(
    dated: xarray.Dataset, command: Callable
):
    words = ("d.zarr/air", "m.zarr", "--axis", "time,lat", "--resample", "time=1MS")
    command("project", *words, "--by", "zones.zarr", "--op", "max")
    made = xarray.open_zarr("m.zarr")
    assert made["max"].dims == ("time", "zones")
    want = dated.air.resample(time="1MS").max()
    assert made.time.values.tolist() == want.time.values.astype(made.time.dtype).tolist()
    both = [want[:, :2].max("lat"), want[:, 2:4].max("lat")]
    np.testing.assert_array_equal(made["max"], np.stack(both, axis=1))


def test_spans_of_a_calendar_are_written_with_it(tmp_path: Path):
    pytest.importorskip("cftime", reason="of the extra 'test'")
    times = xarray.date_range(
        "1999-12-20", periods=90, freq="D", calendar="noleap", use_cftime=True
    )
    held = xarray.Dataset({"air": ("time", np.arange(90.0))}, {"time": times})
    held.to_zarr(tmp_path / "n.zarr", zarr_format=3)
    terms = {"axis": "time", "resample": {"time": "1MS"}}
    project(tmp_path / "n.zarr/air", tmp_path / "o.zarr", "sum", **terms)
    made, want = xarray.open_zarr(tmp_path / "o.zarr"), held.air.resample(time="1MS").sum()
    assert made.time.values.tolist() == want.time.values.tolist()
    assert made["sum"].values.tolist() == want.values.tolist()
    cf_result = cf.reduce(tmp_path / "n.zarr/air", ["sum"], **terms)
    for out, holds in (("o.json", "1999-12-01T00:00:00"), ("o.csv", "1999-12-01T00:00:00")):
        write_results(tmp_path / out, {"": cf_result})
        assert holds in (tmp_path / out).read_text()


JOB = """
schema = 1
sources = "d.zarr/air"
reduce = { statistics = "sum", by = [BY], bins = ["", [-90, 0, 90]], groups = [["SON"], []] }
output = { path = "j.json" }
"""


def test_job_files_have_labels(dated: xarray.Dataset, command: Callable):
    Path("job.toml").write_text(JOB.replace("BY", '"time.season", "lat"'))
    command("run", "job.toml")
    said = json.loads(Path("j.json").read_text())
    said = said if "groups" in said else next(iter(said.values()))
    assert said["groups"] == {"season": ["SON"], "lat_bins": ["[-90, 0)", "[0, 90)"]}
    autumn = dated.air[dated.air.time.dt.season == "SON"]
    assert said["sum"] == [[int(autumn[:, :2].sum()), int(autumn[:, 2:4].sum())]]


def test_labels_of_job_files_are_relative_to_them(
    dated: xarray.Dataset, monkeypatch: pytest.MonkeyPatch
):
    Path("job.toml").write_text(
        'schema = 1\nsources = "d.zarr/air"\noutput = { path = "j.json" }\n'
        'reduce = { statistics = "sum", by = "zones.zarr", by_axis = "lat", weights = "w.zarr", '
        'resample = { time = "1MS" } }\n'
    )
    job = load_job("job.toml")
    folder = Path.cwd()
    assert job.options.by == str(folder / "zones.zarr")
    assert Path(job.options.weights) == folder / "w.zarr"
    assert (job.options.by_axis, job.options.resample) == ("lat", {"time": "1MS"})
    monkeypatch.chdir("/")
    run = cf.submit(job.sources[0], "sum", by=job.options.by, by_axis="lat")
    want = dated.air[:, :2].sum(), dated.air[:, 2:4].sum()
    assert run.result().tolist() == [int(one) for one in want]
    (folder / "bad.toml").write_text(JOB.replace("BY", '"a", "b", "c"'))
    with pytest.raises(JobError, match=r"toml:4: reduce: bins are given 2 times, but labels 3"):
        load_job(folder / "bad.toml")
    (folder / "bad.toml").write_text(JOB.replace("BY", '"lat"'))
    with pytest.raises(JobError, match=r"bins: edges are .*; give two at least"):
        load_job(folder / "bad.toml")

"""Selections as people write them, on the command line and in job files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

from chunkfold.errors import JobError, PlanError
from chunkfold.workflows.cli.plan_command import plan_command
from chunkfold.workflows.job.loading import load_job
from chunkfold.workflows.options.selecting import parse_label, parse_sel, parse_selection

pytestmark = pytest.mark.unoptimised


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0:31", (slice(0, 31),)),
        ("::-1", (slice(None, None, -1),)),
        ("[0,3,5]", ([0, 3, 5],)),
        ("..., [ -1, 2 ], 4", (..., [-1, 2], 4)),
        ("[True, false],", ([True, False],)),
        ("[], 1:2:3", ([], slice(1, 2, 3))),
    ],
)
def test_positions_are_read_as_between_brackets(text: str, want: Any):
    assert parse_selection(text) == want


@pytest.mark.parametrize(
    "text",
    [
        "[0", "0]", "]0[", "[true, 1]", "[0, [1]]", "[[0, 2]]", "[0:2]", "[1.5]", "0:1:2:3", "a",
        "1,,2", "1.5", "(0, 2)", "", "True", "1_0", "\u0663", "0:1_0", "1\u00b2", "1:b",
    ],
)  # fmt: skip
def test_what_is_no_selection_is_told_with_what_there_is(text: str):
    told = rf"selection {re.escape(repr(text))}: .* is not an integer, .* a list .* a file"
    with pytest.raises(PlanError, match=told):
        parse_selection(text)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("2001-01:2010-12", slice("2001-01", "2010-12")),
        ("2001:2010", slice("2001", "2010")),
        ("2001-01-01T00:00:30:2001-02-01T12:00", slice("2001-01-01T00:00:30", "2001-02-01T12:00")),
        ("2001-01-01T00:00:", slice("2001-01-01T00:00", None)),
        (":2001-01-01 06:00Z", slice(None, "2001-01-01 06:00Z")),
        ("2001-01-01T00:00", "2001-01-01T00:00"),
        ("-30:60.5", slice("-30", "60.5")),
        ("1e3:50:2", slice("1e3", "50", 2)),
        ("[2001-01, 2002]", ["2001-01", "2002"]),
        ("north", "north"),
    ],
)
def test_values_and_slices_of_coordinates_are_told_apart(text: str, want: Any):
    assert parse_label(text) == want


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["lat"], "'lat' is not AXIS=VALUE"),
        (["=3"], "'=3' is not AXIS=VALUE"),
        (["lat=3", "lat=4"], r"names axis 'lat' twice: .* lat=\[1, 2\]"),
        (["lat=1:2:3:4"], "'1:2:3:4' is not a slice"),
        (["lat=1:2:x"], "'1:2:x' is not a slice"),
    ],
)
def test_what_selects_nothing_by_coordinates_is_told(given: list[str], told: str):
    with pytest.raises(PlanError, match=told):
        parse_sel(given)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    time = np.array("2001-01-01", "M8[D]") + np.arange(90)
    values = np.arange(90 * 4, dtype="i4").reshape(90, 4)
    coords = {"time": time.astype("M8[ns]"), "lat": [45.0, 15.0, -15.0, -45.0]}
    ds = xr.Dataset({"a": (("time", "lat"), values)}, coords)
    ds.to_zarr(tmp_path / "a.zarr", encoding={"a": {"chunks": (10, 4)}}, consolidated=False)
    return tmp_path / "a.zarr"


@pytest.mark.parametrize(
    ("given", "shape"),
    [
        (["--select", "[80,3,3], ::-1"], [3, 4]),
        (["--select", "days.npy, 1"], [3, 1]),
        (["--sel", "time=2001-02", "--sel", "lat=-50", "--sel-method", "backfill"], None),
        (["--sel", "time=2001-02:2001-03-05", "--select", "..., ::2"], [33, 2]),
        (["--sel", "time.month=2:3", "--sel", "time=2001-02", "--sel", "time.day=[1,2]"], [2, 4]),
        (["--sel", "lat=[14,-44]", "--sel-method", "nearest", "--sel-tolerance", "1"], [90, 2]),
    ],
)
def test_a_plan_is_of_what_is_selected(
    given: list[str], shape: list[int] | None, store: Path, monkeypatch: pytest.MonkeyPatch
):
    np.save(store.parent / "days.npy", [80, 3, 3])
    monkeypatch.chdir(store.parent)
    done = CliRunner().invoke(plan_command, [str(store / "a"), "--json", *given])
    if shape:
        assert json.loads(done.stdout)["shape"] == shape
    else:  # of a latitude that descends
        assert "'lat' has no -50.0, and no nearest one by method 'backfill'" in str(done.exception)


def test_a_command_reduces_what_is_selected(store: Path, command: Callable):
    given = ["--sel", "time=2001-03", "--select", "..., [3,0]", "--json", "-q"]
    done = command("reduce", store / "a", *given)
    want = xr.open_zarr(store, consolidated=False)["a"].sel(time="2001-03")[:, [3, 0]]
    assert json.loads(done.stdout)["results"]["sum"] == int(want.sum())


def test_a_job_file_selects_as_the_command_line_does(store: Path):
    job = store.parent / "job.toml"
    job.write_text(
        'schema = 1\nsources = "a.zarr/a"\n[reduce]\nstatistics = "sum"\nselect = "days.npy"\n'
        'mask = "mask.zarr"\n'
        'sel = {time = "2001-02:2001-03", lat = [14, -44.5], when = 2001-02-03, at.month = "6:8", '
        '"time.day" = [1, 2]}\n'
        'sel_method = "nearest"\nsel_tolerance = 1.5\n'
        '[output]\npath = "out.zarr"\n[limits]\non_missing_chunk = "stop"\n'
    )
    options = load_job(job).options
    assert [*map(str, options.selection)] == [f"{store.parent.resolve()}/days.npy"]
    assert options.mask.address == f"{store.parent.resolve()}/mask.zarr"
    assert options.sel == {
        "time": slice("2001-02", "2001-03"), "lat": [14, -44.5], "when": "2001-02-03",
        "at.month": slice("6", "8"), "time.day": [1, 2],
    }  # fmt: skip
    assert (options.sel_method, options.sel_tolerance) == ("nearest", 1.5)
    assert options.on_missing_chunk == "stop"
    with pytest.raises(JobError, match="'1:2:x' is not a slice"):
        load_job(job, ["reduce.sel.lat=1:2:x"])


def test_missing_chunks_end_a_command_with_the_code_of_data_faults(store: Path, command: Callable):
    (store / "a" / "c" / "2" / "0").unlink()
    given = ["plan", store / "a", "--on-missing-chunk", "stop"]
    done = command(*given, code=4)
    assert "1 of 9 chunks that are selected are not stored, by their indices (2, 0)" in done.stderr


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--sel", "lat=-15:15"], "lat runs from 45 to -45: write 15:-15"),
        (["--sel", "time=1999"], "'time' has no '1999'"),
        (["--sel", "time=1999:2000"], "time runs from 2001-01-01 to 2001-03-31"),
        (["--select", "5:5"], "selection '5:5' selects nothing of axis 'time'"),
        (["--select", "5:5", "--ask", "a: --op mean", "--ask", "b: --op max"], "'5:5' selects"),
    ],
)
def test_a_command_refuses_a_selection_of_nothing(
    given: list[str], told: str, store: Path, command: Callable
):
    out = store.parent / "out.nc"
    done = command("reduce", store / "a", *given, "--out", out, code=2)
    assert told in done.stderr
    assert not out.exists()


def test_a_command_and_a_job_reduce_nothing_where_that_is_allowed(store: Path, command: Callable):
    given = ["--sel", "lat=-15:15", "--allow-empty", "--json", "-q"]
    assert json.loads(command("reduce", store / "a", *given).stdout)["results"]["sum"] == 0
    job = store.parent / "job.toml"
    job.write_text(
        f'schema = 1\nsources = "{store}/a"\n[reduce]\nstatistics = "sum"\n'
        'sel = {lat = "-15:15"}\n[output]\npath = "out.json"\n'
    )
    told = command("run", job, "--check", code=2).stderr
    assert "write 15:-15" in told
    command("run", job, code=2)
    assert not (store.parent / "out.json").exists()
    command("run", job, "--check", "--set", "reduce.allow_empty=true")


def test_an_arc_of_longitudes_is_written_in_the_order_asked(tmp_path: Path, command: Callable):
    lon = ("lon", np.arange(0, 360, 30.0), {"units": "degrees_east"})
    values = np.arange(24, dtype="f4").reshape(2, 12)
    ds = xr.Dataset({"a": (("time", "lon"), values)}, {"lon": lon})
    ds.to_zarr(tmp_path / "a.zarr", encoding={"a": {"chunks": (1, 5)}}, consolidated=False)
    given = ["--op", "max", "--axis", "time", "--sel", "lon=-40:60", "-q"]
    command("reduce", tmp_path / "a.zarr" / "a", *given, "--out", tmp_path / "out.nc")
    with xr.open_dataset(tmp_path / "out.nc") as written:
        assert written["lon"].values.tolist() == [330, 0, 30, 60]
        assert written["max"].values.tolist() == values[1, [11, 0, 1, 2]].tolist()

"""Pictures from the shell: of what was just reduced, of files, and in terminals that show them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

from chunkfold.results.pictures import pictures
from chunkfold.workflows.files.read_results import read_results

pytestmark = pytest.mark.unoptimised
PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def air(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("plots") / "s.zarr"
    time = np.arange("2001-01-01", "2001-03-01", dtype="M8[D]").astype("M8[ns]")
    values = np.random.default_rng(0).normal(280, 9, (59, 4, 6)).astype("f4")
    coords = {
        "time": time,
        "lat": ("lat", [-60.0, -20.0, 20.0, 60.0], {"units": "degrees_north"}),
        "lon": ("lon", np.arange(0.0, 360, 60), {"units": "degrees_east"}),
    }
    dims = ("time", "lat", "lon")
    xr.Dataset({"air": (dims, values, {"units": "K"})}, coords).to_zarr(made)
    return made / "air"


@pytest.mark.parametrize("ending", ["nc", "zarr", "json"])
def test_a_file_is_drawn_as_its_results_were(air: Path, command: Callable, tmp_path, ending: str):
    words = ("--axis", "lat,lon", "--op", "mean", "--op", "p5,p95", "--op", "histogram")
    out = tmp_path / f"r.{ending}"
    command("reduce", air, *words, "--quiet", "--out", out, "--plot", tmp_path / "direct.png")
    command("plot", out, tmp_path / "again.png")
    direct, again = ((tmp_path / f"{name}.png").read_bytes() for name in ("direct", "again"))
    assert direct.startswith(PNG)
    assert direct == again
    kinds = {one.values.name: one.kind for one in pictures(read_results(str(out)))}
    assert kinds == {"quantiles": "bands", "mean": "curves", "histogram_count": "colours"}


def test_questions_and_arrays_are_drawn_together(air: Path, command: Callable, tmp_path: Path):
    asks = ("--ask", "map: --op mean --axis time", "--ask", "line: --op max --axis lat,lon")
    command("reduce", air, *asks, "-q", "--out", tmp_path / "q.json", "--plot", tmp_path / "q.svg")
    text = (tmp_path / "q.svg").read_text()
    assert text.startswith("<?xml")
    found = pictures(read_results(str(tmp_path / "q.json")))
    assert [(one.values.name, one.kind) for one in found] == [
        ("map_mean", "colours"), ("line_max", "curves"),
    ]  # fmt: skip
    command("describe", air.parent, "-q", "--plot", tmp_path / "d.png")
    assert (tmp_path / "d.png").read_bytes().startswith(PNG)


def test_a_terminal_is_shown_what_it_can_show(
    air: Path, command: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    out = tmp_path / "r.json"
    command("reduce", air, "--axis", "time", "--op", "mean", "--quiet", "--out", out)
    done = command("plot", out, code=2)
    assert "name a file" in done.stderr
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True, raising=False)
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.setenv("TERM_PROGRAM", "iTerm.app")
    shown = command("plot", out).stdout
    assert shown.startswith("\x1b]1337;File=inline=1;")
    monkeypatch.setenv("TMUX", "/tmp/tmux")
    command("plot", out, code=2)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("reduce", "AIR", "--axis", "time", "--plot", "x.nonsense"), "no such kind of picture"),
        (("reduce", "AIR", "--axis", "time", "--plot", "no/x.png"), "make that folder"),
        (("reduce", "AIR", "--axis", "time", "--plot", "there.png"), "exists"),
        (("plot", "none.nc", "x.png"), "does not exist"),
        (("plot", "a.zarr", "x.png"), "a.zarr is an array: give the group that --out wrote"),
        (("plot", "t.csv", "x.png"), "only .nc, .zarr and .json say which"),
        (("plot", "bad.json", "x.png"), "cannot be read as results"),
        (("plot", "bad.nc", "x.png"), "cannot be read as results"),
        (("plot", "one.json", "x.png"), "a single number"),
        (("plot", "one.json", "x.png", "--name", "max"), "no result 'max'; it has mean"),
    ],
)
def test_what_cannot_be_drawn_is_said_before(
    air: Path, command: Callable, tmp_path: Path, words: tuple[str, ...], told: str
):
    for name, text in (("there.png", ""), ("bad.json", "[1"), ("bad.nc", "x"), ("t.csv", "a")):
        (tmp_path / name).write_text(text)
    zarr.create_array(tmp_path / "a.zarr", data=np.ones(3))
    (tmp_path / "one.json").write_text('{"mean": 3.5}')
    words = tuple(str(air) if word == "AIR" else word for word in words)
    done = command(*words, cwd=tmp_path, code=2)
    assert told in done.stderr
    assert not (tmp_path / "x.png").exists()

"""Reports in a real browser, headless: light and dark, no word on its console, no network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from matplotlib import image

from tests.real.page_layout import THEMES, measured, pictured
from tests.workflows.test_cli import chunkfold

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    values = np.random.default_rng(0).normal(280, 9, (40, 100, 100)).astype("f4")
    group = zarr.create_group(str(folder / "s.zarr"))
    for name in ("air", "sea"):
        group.create_array(name, data=values, chunks=(5, 100, 100))
    (folder / "job.toml").write_text(
        'schema = 1\nsources = "s.zarr"\n[reduce]\nstatistics = ["mean", "std", "histogram"]\n'
        '[output]\npath = "o.json"\nreport = "r.html"\n'
        '[cluster]\nkind = "local"\ndevices = "cpu/2"\n'
    )
    chunkfold("run", folder / "job.toml", "--quiet")
    return folder / "r.html"


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of several questions: lines, bands, maps of groups, bars."""
    folder = tmp_path_factory.mktemp("grouped")
    values = np.random.default_rng(0).normal(280, 9, (60, 18, 36)).astype("f4")
    time = np.arange("2001-01-01", "2001-03-02", dtype="M8[D]").astype("M8[ns]")
    coords = {
        "time": time,
        "lat": ("lat", np.linspace(-85, 85, 18), {"units": "degrees_north"}),
        "lon": ("lon", np.arange(0.0, 360, 10), {"units": "degrees_east"}),
    }
    said = {"units": "K", "long_name": "2 metre temperature"}
    dims = ("time", "lat", "lon")
    xr.Dataset({"t2m": (dims, values, said)}, coords).to_zarr(folder / "s.zarr")
    asks = (
        "daily: --op mean,p5,median,p95 --axis lat,lon",
        "map: --op mean --axis time",
        "months: --op mean --axis time --by time.month",
        "weekdays: --op mean,count --by time.weekday",
        "all: --op sum,std,histogram",
    )
    asked = [word for ask in asks for word in ("--ask", ask)]
    chunkfold("reduce", folder / "s.zarr/t2m", "-q", *asked, "--report", folder / "r.html")
    return folder / "r.html"


@pytest.mark.parametrize("theme", THEMES)
def test_a_report_looks_as_it_should(report: Path, theme: str):
    picture, console = pictured(report, theme, 1000, 1400)
    assert console == []
    seen = image.imread(picture)
    colours = (255 * seen[..., :3]).round().astype(int).reshape(-1, 3)
    paper = {"light": (255, 255, 255), "dark": (18, 22, 29)}[theme]
    bar = {"light": (47, 111, 222), "dark": (110, 160, 255)}[theme]
    assert (colours[0] == paper).all()
    for colour in (paper, bar):
        assert (colours == colour).all(axis=1).sum() > 2000


@pytest.mark.parametrize("theme", THEMES)
def test_no_text_is_cut_or_small_and_none_overlaps(report: Path, grouped: Path, theme: str):
    for page in (report, grouped):
        for width, found in measured(page, theme).items():
            assert found["faults"] == [], (page.name, width)
            assert found["texts"] > 20


def test_what_measures_finds_what_is_wrong(tmp_path: Path):
    page = tmp_path / "bad.html"
    narrow = "width:30px;overflow:hidden;white-space:nowrap"
    svg = "<svg width='60' viewBox='0 0 600 60'><text y='20' font-size='12'>small</text></svg>"
    page.write_text(
        f"<!doctype html><body><p style='{narrow}'>cut off here</p>{svg}"
        "<p style='position:absolute;top:90px'>one</p><p style='position:absolute;top:92px'>two</p>"
        "<p style='width:40px;overflow-wrap:anywhere'>1234567890123</p>"
        "<p style='width:2000px'>wide</p>"
    )
    for found in measured(page, "light").values():
        told = " ".join(found["faults"])
        for words in ("cut by P", "overlap: one | two", "px high: small", "broken: 123", "px wide"):
            assert words in told


def test_the_console_says_what_is_wrong(tmp_path: Path):
    page = tmp_path / "bad.html"
    policy = "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'\">"
    page.write_text(f"<!doctype html>{policy}<img src='https://example.org/x.png'>")
    _, console = pictured(page, "light", 1000, 1400)
    assert console

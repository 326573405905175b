"""Reports in a real browser, headless: light and dark, no word on its console, no network."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import zarr
from matplotlib import image

from tests.workflows.test_cli import chunkfold

pytestmark = pytest.mark.real

QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--window-size=1000,1400", "--enable-logging=stderr",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip
THEMES = {"light": (), "dark": ("--blink-settings=preferredColorScheme=0",)}


def shown(page: Path, theme: str) -> tuple[np.ndarray, list[str]]:
    """Open a page; return what it looks like, and what the browser's console says."""
    folder, out = page.parent / f"profile-{theme}", page.parent / f"{page.stem}-{theme}.png"
    words = [*QUIET, *THEMES[theme], f"--user-data-dir={folder}", f"--screenshot={out}"]
    done = subprocess.run(
        ["chromium", *words, page.as_uri()],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert out.exists(), done.stderr[-2000:]
    return image.imread(out), [line for line in done.stderr.splitlines() if "CONSOLE" in line]


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


@pytest.mark.parametrize("theme", THEMES)
def test_a_report_looks_as_it_should(report: Path, theme: str):
    seen, console = shown(report, theme)
    assert console == []
    colours = (255 * seen[..., :3]).round().astype(int).reshape(-1, 3)
    paper = {"light": (255, 255, 255), "dark": (18, 22, 29)}[theme]
    bar = {"light": (47, 111, 222), "dark": (110, 160, 255)}[theme]
    assert (colours[0] == paper).all()
    for colour in (paper, bar):
        assert (colours == colour).all(axis=1).sum() > 2000


def test_the_console_says_what_is_wrong(tmp_path: Path):
    page = tmp_path / "bad.html"
    policy = "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'\">"
    page.write_text(f"<!doctype html>{policy}<img src='https://example.org/x.png'>")
    _, console = shown(page, "light")
    assert console

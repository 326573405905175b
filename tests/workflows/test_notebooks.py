"""Notebooks show progress below a cell, and runs, devices and accessors as HTML."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator

import numpy as np
import pytest
import xarray as xr
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from rich.console import Console

import chunkfold as cf
import chunkfold.xarray
from chunkfold.events import Event, RunStarted
from chunkfold.running import progress_shown
from chunkfold.workflows.terminal import progress

pytestmark = pytest.mark.unoptimised
CODE = "import chunkfold as cf, numpy as np; result = cf.reduce(np.ones((400, 1000)), 'sum'{more})"


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    """A notebook's shell, whose runs take long at once."""
    monkeypatch.setattr(progress, "_MOMENT_S", -1.0)
    monkeypatch.setattr(progress_shown, "_shower", lambda: progress.library_progress)
    made = InteractiveShell.instance()
    yield made
    InteractiveShell.clear_instance()


def ran(shell: InteractiveShell, code: str) -> list[dict[str, str]]:
    with capture_output() as seen:
        assert shell.run_cell(code).success
    return [one.data for one in seen.outputs if "text/html" in one.data]


def test_a_cell_shows_how_far_its_run_is(shell: InteractiveShell):
    shown = ran(shell, CODE.format(more=""))
    assert shown
    last = shown[-1]
    assert last["text/plain"].startswith("sum of ndarray of shape (400, 1000): 3.1 MiB of 3.1 MiB")
    assert '<progress value="1.000">' in last["text/html"]
    assert float(shell.user_ns["result"]) == 400_000


@pytest.mark.parametrize("more", [", progress=False", ", on_event=print"])
def test_a_cell_shows_none_where_it_is_not_asked_for(shell: InteractiveShell, more: str):
    assert ran(shell, CODE.format(more=more)) == []


def test_a_short_run_leaves_nothing(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "_MOMENT_S", 600.0)
    assert ran(shell, CODE.format(more="")) == []


def test_events_are_heard_beside_progress(shell: InteractiveShell):
    heard: list[Event] = []
    shell.user_ns["heard"] = heard
    assert ran(shell, CODE.format(more=", progress=True, on_event=heard.append"))
    assert any(isinstance(event, RunStarted) for event in heard)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_script_shows_progress_where_people_watch(
    monkeypatch: pytest.MonkeyPatch, terminal: bool
):
    file = io.StringIO()
    monkeypatch.setattr(
        progress, "Console", lambda **_: Console(file=file, force_terminal=terminal, width=120)
    )
    monkeypatch.setattr(progress, "_MOMENT_S", -1.0)
    monkeypatch.setattr(progress_shown, "_shower", lambda: progress.library_progress)
    assert cf.reduce(np.ones((40, 100)), "sum") == 4000
    assert ("sum of ndarray" in file.getvalue()) == terminal


def test_who_is_registered_shows_progress():
    progress_shown._shower.cache_clear()
    assert progress_shown._shower() is progress.library_progress


def test_a_run_shows_how_far_it_is_and_what_was_done():
    run = cf.submit(np.ones((40, 100)), ["sum", "max"])
    run.result()
    deadline = time.monotonic() + 10
    while not run.done() and time.monotonic() < deadline:
        time.sleep(0.01)
    page = run._repr_html_()
    for told in ("sum, max", "(40, 100)", "done", "31.2 KiB", '<progress value="1.000">'):
        assert told in page
    bad = cf.submit(np.array([np.iinfo("i8").max, 1]), "sum")
    with pytest.raises(cf.ChunkfoldError):
        bad.result()
    assert "RangeError" in bad._repr_html_()


def test_devices_and_accessors_are_shown():
    device = cf.devices()[0]
    page = device._repr_html_()
    assert device.spec in page
    assert "compute units" in page
    named = xr.DataArray(np.ones((2, 3)), dims=("<b>", "x"))
    page = named.chunkfold._repr_html_()
    assert "(&lt;b&gt;: 2, x: 3)" in page
    assert "<td>idxmax</td><td>Return the coordinate at which maxima are" in page
    assert "quantile" in repr(named.chunkfold)

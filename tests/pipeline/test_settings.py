"""Deadlines are settings: each is documented, and refused where it is no time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dask
import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.settings import WAITS, accelerate_bytes, metadata_bytes, wait_seconds

PAGE = Path(__file__).parents[2] / "docs" / "how-it-works.md"


@pytest.mark.parametrize(("name", "seconds"), WAITS.items())
def test_a_deadline_is_documented_with_its_default(name, seconds):
    assert f"| `{name}` | {seconds:.0f} s |" in PAGE.read_text()
    assert wait_seconds(name) == seconds
    with dask.config.set({name: "2 minutes"}):
        assert wait_seconds(name) == 120


@pytest.mark.parametrize("given", ["", "soon", 0, -1, None, [1]])
def test_what_is_no_time_is_refused_before_a_run_begins(given):
    with (
        dask.config.set({"chunkfold.workers.silent": given}),
        pytest.raises(cf.PlanError, match=r"chunkfold.workers.silent is .*; give a time"),
    ):
        cf.submit(np.arange(3))


@pytest.mark.parametrize("setting", ["deadline", "metadata-bytes"])
@pytest.mark.parametrize("given", ["", "soon", -1, None, [1], True])
@pytest.mark.parametrize("store", ["http://127.0.0.1:1/a", "files"])
def test_what_is_no_bound_of_a_store_is_refused(tmp_path: Path, setting, given, store):
    if (setting, given) == ("deadline", True):
        pytest.skip("a second, to Dask")
    if store == "files":
        store = str(tmp_path / "a")
        zarr.create_array(store, data=np.arange(4))
    name = f"chunkfold.store.{setting}"
    with dask.config.set({name: given}), pytest.raises(cf.PlanError, match=f"{name} is .*; give"):
        cf.reduce(store)


def test_only_arrays_that_are_left_to_dask_may_have_no_bytes():
    least, most = "chunkfold.accelerate.least-bytes", "chunkfold.store.metadata-bytes"
    for zero in (0, "0"):
        with dask.config.set({least: zero, most: zero}):
            assert accelerate_bytes() == 0
            with pytest.raises(cf.PlanError, match=f"{most} is .*; give bytes"):
                metadata_bytes()
    with dask.config.set({least: -1}), pytest.raises(cf.PlanError, match=f"{least} is -1; give"):
        accelerate_bytes()


def test_settings_of_others_end_with_their_context(tmp_path: Path):
    """Nothing that is looked up later may need a default that was set meanwhile."""
    zarr.create_array(str(tmp_path / "a"), data=np.arange(4))
    script = f"""
import dask
with dask.config.set({{"chunkfold.remote.requests": 7}}):
    import chunkfold
    chunkfold.reduce({str(tmp_path / "a")!r}, "min")
print(chunkfold.reduce({str(tmp_path / "a")!r}, "sum"))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.strip() == "6", done.stderr

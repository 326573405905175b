"""Errors end where the user called: no frame of chunkfold but the one that raises."""

from __future__ import annotations

import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.errors import ChunkError
from chunkfold.workflows.comparisons.diff import diff
from chunkfold.workflows.images.regions import regions
from chunkfold.workflows.transforms.normalize import normalization
from chunkfold.workflows.transforms.project import project

pytestmark = pytest.mark.unoptimised
CALLS = {
    "reduce": lambda: cf.reduce("/nowhere.zarr/air", "mean"),
    "submit": lambda: cf.submit("/nowhere.zarr/air", "mean"),
    "plan": lambda: cf.plan("/nowhere.zarr/air", "mean"),
    "axis": lambda: cf.reduce(np.ones(3), "mean", axis=5),
    "unknown": lambda: cf.reduce(np.ones(3), "mena"),
    "project": lambda: project("/nowhere.zarr/air", "/nowhere/out.zarr", "mean", axis=0),
    "normalization": lambda: normalization("/nowhere.zarr/air", channels="c"),
    "diff": lambda: diff("/nowhere.zarr/air", "/nowhere.zarr/air"),
    "regions": lambda: regions("/nowhere.zarr/air", "/nowhere.zarr/air"),
}


@pytest.mark.parametrize("name", CALLS)
def test_frames_are_the_users(name: str):
    with pytest.raises(cf.ChunkfoldError) as error:
        CALLS[name]()
    files = [Path(frame.filename).name for frame in traceback.extract_tb(error.value.__traceback__)]
    assert files == ["test_tracebacks.py"] * 2 + ["tracebacks.py"]
    shown = traceback.format_exception(error.value)
    assert not any("direct cause" in line or "another exception" in line for line in shown)


def test_what_ended_a_run_is_a_sentence_and_its_cause_is_kept(tmp_path: Path):
    zarr.create_array(str(tmp_path / "a.zarr"), data=np.arange(8.0), chunks=(2,))
    (tmp_path / "a.zarr/c/1").write_bytes(b"nonsense")
    run = cf.submit(tmp_path / "a.zarr")
    for _ in range(2):  # asked twice it is said twice, no longer
        with pytest.raises(ChunkError, match="'c/1'") as error:
            run.result()
        frames = traceback.extract_tb(error.value.__traceback__)
        assert [Path(one.filename).name for one in frames] == [
            "test_tracebacks.py", "tracebacks.py",
        ]  # fmt: skip


def test_all_of_it_is_shown_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CHUNKFOLD_TRACEBACK", "1")
    with pytest.raises(cf.ChunkfoldError) as error:
        CALLS["reduce"]()
    assert len(traceback.extract_tb(error.value.__traceback__)) > 5


def test_a_script_ends_with_a_sentence(tmp_path: Path):
    script = tmp_path / "s.py"
    script.write_text("import chunkfold as cf\n\ncf.reduce('/nowhere.zarr/air', 'mean')\n")
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=60, check=False
    )
    lines = done.stderr.splitlines()
    assert lines[-1] == "chunkfold.errors.SourceError: /nowhere.zarr/air: no such path"
    assert sum("File " in line for line in lines) == 2

"""Tests of xarray's and flox's own pass under `accelerate`, on arrays that are stored."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import xarray

from tests.processes import finished

pytestmark = pytest.mark.real

OF_XARRAY = {"test_coarsen.py": "", "test_groupby.py": "dask or chunk or flox"}
"""Modules, and which of their tests."""
if "CHUNKFOLD_ALL_PEERS" in os.environ:
    OF_XARRAY |= {"test_duck_array_ops.py": "", "test_dask.py": ""}
DIFFERENT: dict[str, str] = {}
"""Tests of theirs that fail under it, and why: none."""


def ran(folder: Path, told: Path, *tests: str) -> None:
    """Run tests of another package with what they give to Dask stored."""
    (told.parent / "pytest.ini").write_text("[pytest]\n")
    plugin = ["env", "-C", folder, f"PYTHONPATH={Path(__file__).parent}", f"CHUNKFOLD_TOLD={told}"]
    own = ["-c", told.parent / "pytest.ini", "-p", "stored_chunks", "-p", "no:cacheprovider"]
    left = [part for name in DIFFERENT for part in ("--deselect", name)]
    command = [*plugin, sys.executable, "-m", "pytest", "-q", "-n0", *own, *left, *tests]
    done = finished(command, 300)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert "is computed here" in told.read_text()


@pytest.mark.parametrize("module", OF_XARRAY)
def test_tests_of_xarray_pass(module: str, tmp_path: Path):
    chosen = ["-k", OF_XARRAY[module]] if OF_XARRAY[module] else []
    path = Path(xarray.__file__).parent / "tests" / module
    ran(tmp_path, tmp_path / "told.txt", str(path), *chosen)


def test_tests_of_flox_pass(tmp_path: Path):
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", "flox"]
    try:
        done = finished([*pip, f"flox=={version('flox')}", "--dest", tmp_path], 120)
    except subprocess.TimeoutExpired:
        pytest.skip("the package registry does not answer")
    if done.returncode:
        pytest.skip(f"no package registry: {done.stderr[-200:]}")
    (archive,) = tmp_path.glob("flox-*.tar.gz")
    finished(["tar", "xzf", archive, "-C", tmp_path], 60)
    (folder,) = tmp_path.glob("flox-*/")
    ran(folder, tmp_path / "told.txt", "tests/test_xarray.py")

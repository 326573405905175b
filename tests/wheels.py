"""The wheel, built and installed, for the tests that run it from elsewhere; and somebody else's."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
JOB = """
import numpy as np, zarr, chunkfold as cf, chunkfold.kernels
from pathlib import Path
if __name__ == "__main__":
    print(Path(cf.__file__).parent)
    z = zarr.create_array("a.zarr", shape=(99, 7), chunks=(10, 7), dtype="i4")
    z[...] = np.arange(693).reshape(99, 7)
    with cf.LocalOpenCLCluster(dashboard_address=None) as c, c.get_client() as client:
        print({k: int(v) for k, v in cf.reduce("a.zarr", ["sum", "max"], client=client).items()})
"""


def build(folder: Path) -> Path:
    """Build the wheel into a folder."""
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder]
    subprocess.run([*words, ROOT], check=True, timeout=200, capture_output=True)
    (wheel,) = folder.glob("chunkfold-*.whl")
    return wheel


def install(folder: Path, *requirements: str) -> Path:
    """Make an environment with some requirements; return its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    words = [python, "-m", "pip", "install", "--quiet", *requirements]
    subprocess.run(words, check=True, timeout=400, capture_output=True)
    return python


def run_job(python: Path, folder: Path) -> None:
    """Reduce an array in another folder than this checkout, with the wheel's code."""
    (folder / "job.py").write_text(JOB)
    done = subprocess.run(
        [python, "job.py"], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    where, answer = done.stdout.strip().split("\n")
    assert str(python.parent.parent) in where
    assert answer == "{'sum': 239778, 'max': 692}"


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, points: str) -> None:
    """Let this process see a package of somebody else's: module `theirs`, and its entry points."""
    (folder / "theirs.py").write_text(code)
    info = folder / "theirs-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (info / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "theirs", raising=False)

"""With bokeh: the dashboard's address is told, and Dask writes its own report."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr

from tests.processes import finished
from tests.workflows.test_cli import chunkfold

pytestmark = pytest.mark.real


def test_dask_tells_what_it_did(tmp_path: Path):
    zarr.create_array(str(tmp_path / "a.zarr"), data=np.arange(100.0), chunks=(10,))
    words = ("reduce", tmp_path / "a.zarr", "--performance-report", tmp_path / "p.html")
    refused = chunkfold(*words, code=2).stderr
    assert "needs another package: pip install bokeh" in " ".join(refused.split())
    bokeh = tmp_path / "bokeh"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", bokeh, "bokeh>=3.1"]
    done = finished(install, 240)
    assert done.returncode == 0, done.stderr
    told = chunkfold(*words, PYTHONPATH=str(bokeh))
    assert "sum 4950.0" in told.stdout
    assert re.search(r"^dashboard http://127.0.0.1:\d+/status$", told.stderr, re.MULTILINE)
    page = (tmp_path / "p.html").read_text()
    assert "fold-0" in page or "block_task" in page

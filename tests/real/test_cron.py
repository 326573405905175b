"""The job of deploy/ by a real cron."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import zarr

from tests.processes import BIN

pytestmark = pytest.mark.real

DEPLOY = Path(__file__).parents[2] / "deploy"
VALUES = np.random.default_rng(0).normal(280, 9, (4, 5, 6))


def test_cron_runs_a_job(tmp_path: Path):
    """With the file as it is, but for the minute, the user and where things are."""
    assert os.geteuid() == 0, "make test-real needs root, to run cron"
    data = zarr.create_group(str(tmp_path / "data" / "2026.zarr"))
    data.create_array("air", data=VALUES, chunks=(2, 5, 6), dimension_names=("time", "y", "x"))
    results = tmp_path / "results"
    results.mkdir()
    (tmp_path / "nightly.toml").write_text((DEPLOY / "nightly.toml").read_text())
    text = (DEPLOY / "cron" / "chunkfold").read_text()
    for old, new in (
        ("/opt/chunkfold/bin", str(BIN)),
        (
            "30 2 * * * chunkfold ",
            f"* * * * * root DATA={data.store.root.parent} RESULTS={results} ",
        ),
        ("/etc/chunkfold", str(tmp_path)),
        ("--quiet", f"> {tmp_path}/log 2>&1 --quiet"),
        ("SHELL", f"CHUNKFOLD_CACHE={os.environ['CHUNKFOLD_CACHE']}\nSHELL"),
    ):
        assert old in text
        text = text.replace(old, new)
    table = Path("/etc/cron.d") / f"chunkfold-{uuid.uuid4().hex[:8]}"
    with (tmp_path / "cron.log").open("w") as log:
        process = subprocess.Popen(["cron", "-f", "-L", "15"], stdout=log, stderr=log)
    try:
        table.write_text(text)
        wanted = results / f"climatology-{datetime.now(UTC):%F}.zarr.manifest.json"
        deadline = time.monotonic() + 120
        while not wanted.exists():
            assert time.monotonic() < deadline, list(tmp_path.rglob("log"))
            time.sleep(0.2)
    finally:
        table.unlink()
        process.terminate()
        process.wait(30)
    told = json.loads(wanted.read_text())
    assert told["status"] == "done", told["error"]
    assert (tmp_path / "log").read_text() == ""
    made = zarr.open(re.sub(r"\.manifest\.json$", "", str(wanted)))["2026.zarr/air/max"]
    np.testing.assert_array_equal(made[...], VALUES.max(axis=0))

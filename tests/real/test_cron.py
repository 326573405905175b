"""The job of deploy/ by a real cron."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import uuid
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
    # Whole before cron starts: a table that cron reads half-written and that is finished within
    # the same second is never read again, since cron compares times in whole seconds.
    table.write_text(text)
    table.chmod(0o644)
    said = tmp_path / "cron.log"
    try:
        with said.open("w") as log:
            process = subprocess.Popen(["cron", "-f", "-L", "15"], stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 150
            while not (found := list(results.glob("climatology-*.zarr.manifest.json"))):
                assert process.poll() is None, said.read_text()
                assert time.monotonic() < deadline, (said.read_text(), list(tmp_path.iterdir()))
                time.sleep(0.2)
        finally:
            process.terminate()
            process.wait(30)
    finally:
        table.unlink()
    told = json.loads(found[0].read_text())
    assert told["status"] == "done", told["error"]
    assert (tmp_path / "log").read_text() == ""
    made = zarr.open(re.sub(r"\.manifest\.json$", "", str(found[0])))["2026.zarr/air/max"]
    np.testing.assert_array_equal(made[...], VALUES.max(axis=0))

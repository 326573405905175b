"""The unit files, by systemd's own verifier."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.processes import finished

pytestmark = pytest.mark.real

UNITS = sorted((Path(__file__).parents[2] / "deploy" / "systemd").glob("*.service"))


def verified(unit: Path) -> subprocess.CompletedProcess:
    return finished(["systemd-analyze", "verify", "--recursive-errors=yes", unit], 60)


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_a_unit_passes_systemd_s_verifier(unit: Path, tmp_path: Path):
    """With the programs where this test has them: the verifier looks for them."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    text = unit.read_text()
    for name in ("dask", "chunkfold"):
        text = text.replace(f"/opt/chunkfold/bin/{name} ", f"{program} ")
    copy = tmp_path / unit.name
    copy.write_text(text)
    done = verified(copy)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_the_verifier_finds_what_is_wrong(tmp_path: Path):
    broken = tmp_path / "broken.service"
    broken.write_text("[Service]\nExecStart=/no/such/program\nRestrat=always\n")
    assert verified(broken).stderr
    assert UNITS

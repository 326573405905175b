"""The unit files, by systemd's own verifier; and when its timer goes off."""

from __future__ import annotations

import re
import subprocess
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from tests.processes import finished

pytestmark = pytest.mark.real

UNITS = sorted((Path(__file__).parents[2] / "deploy" / "systemd").glob("chunkfold-*.*"))


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
    text = text.replace("User=chunkfold", "User=root")  # one that this host has
    for other in UNITS:  # a timer is verified with its service
        (tmp_path / other.name).write_text(
            other.read_text().replace("/opt/chunkfold/bin/", "/bin/")
        )
    copy = tmp_path / unit.name.replace("@", "@nightly")
    copy.write_text(text)
    done = verified(copy)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_the_verifier_finds_what_is_wrong(tmp_path: Path):
    broken = tmp_path / "broken.service"
    broken.write_text("[Service]\nExecStart=/no/such/program\nRestrat=always\n")
    assert verified(broken).stderr
    assert UNITS


def test_the_timer_goes_off_every_night():
    text = next(unit for unit in UNITS if unit.suffix == ".timer").read_text()
    calendar = re.search(r"OnCalendar=(.*)", text)[1]
    done = finished(["systemd-analyze", "calendar", "--iterations=3", calendar], 60)
    assert done.returncode == 0, done.stderr
    times = re.findall(r"(\d{4}-\d\d-\d\d) 02:30:00", done.stdout)
    days = [date.fromisoformat(day) for day in times]
    assert [later - earlier for earlier, later in pairwise(days[-3:])] == [timedelta(days=1)] * 2

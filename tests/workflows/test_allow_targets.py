"""Leave for targets of references, on the command line and in job files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr


@pytest.fixture
def refs(tmp_path: Path) -> Path:
    """Return a file of references to an array that lies in another folder."""
    zarr.create_array(tmp_path / "d.zarr", data=np.arange(6.0), zarr_format=2)
    told = {
        f"x/{path.name}": path.read_text() if path.name.startswith(".") else [str(path)]
        for path in (tmp_path / "d.zarr").iterdir()
    }
    (tmp_path / "r").mkdir()
    file = tmp_path / "r" / "refs.json"
    file.write_text(json.dumps({"version": 1, "refs": told | {".zgroup": '{"zarr_format": 2}'}}))
    return file


def test_commands_take_leave(refs: Path, tmp_path: Path, command: Callable):
    place, leave = f"{refs}/x", ("--allow-targets", f"{tmp_path}/d.zarr/")
    for name in ("reduce", "plan", "describe"):
        said = " ".join(command(name, place, code=2).stderr.split())
        assert f"without permission those of this file may lead only below {refs.parent}/" in said
        assert " ".join(leave) in said
        command(name, place, *leave)
    assert "sum 15" in " ".join(
        command("reduce", place, "--allow-targets", tmp_path).stdout.split()
    )


def test_jobs_take_leave(refs: Path, tmp_path: Path, command: Callable):
    job = tmp_path / "job.toml"
    text = "schema = 1\nsources = 'r/refs.json'\n{}\n[reduce]\nstatistics = 'sum'\n"
    text += "[output]\npath = 'o.json'\n[cluster]\nkind = 'local'\n"
    job.write_text(text.format(""))
    assert "without permission" in command("run", job, "--check", code=2).stderr
    for leave in ("d.zarr", "./", str(tmp_path)):
        job.write_text(text.format(f"allow_targets = '{leave}'"))
        command("run", job, "--check")
    command("run", job)
    assert "15" in (tmp_path / "o.json").read_text()

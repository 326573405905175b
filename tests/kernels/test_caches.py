"""Cache folders: private, one slot per process, warm after a restart."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from chunkfold.kernels.folders import cache_folder, write_atomically
from tests.processes import finished

CODE = "from chunkfold.kernels.caches import slot_folder; print(slot_folder().name, flush=True)"


def start(tmp_path: Path, code: str = CODE) -> subprocess.Popen:
    environment = {key: v for key, v in os.environ.items() if key != "CHUNKFOLD_SLOT"}
    return subprocess.Popen(
        [sys.executable, "-c", code + "\ninput()"],
        env=environment | {"CHUNKFOLD_CACHE": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_processes_get_slots_of_their_own_and_a_restart_the_old_one(tmp_path: Path):
    first, second = start(tmp_path), start(tmp_path)
    slots = {process.stdout.readline().strip() for process in (first, second)}
    assert slots == {"0", "1"}
    first.kill()
    first.wait()
    third = start(tmp_path)
    assert third.stdout.readline().strip() in slots
    for process in (second, third):
        process.communicate("\n", timeout=30)
    first.communicate()


def test_a_child_uses_its_parent_s_slot(tmp_path: Path):
    code = (
        "import os, subprocess, sys\n"
        "from chunkfold.kernels.caches import child_environment, slot_folder\n"
        f"code = {CODE!r}\n"
        "env = os.environ | child_environment()\n"
        "done = subprocess.run([sys.executable, '-c', code], env=env, capture_output=True)\n"
        "print(slot_folder().name, done.stdout.decode().strip(), flush=True)"
    )
    parent = start(tmp_path, code)
    own, child = parent.stdout.readline().split()
    assert own == child
    parent.communicate("\n", timeout=30)


def test_folders_are_private(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("CHUNKFOLD_CACHE", str(tmp_path / "c"))
    assert stat.S_IMODE(cache_folder("a", "b").stat().st_mode) == 0o700


def test_a_home_that_cannot_be_written_is_no_obstacle(tmp_path: Path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CHUNKFOLD_CACHE", str(tmp_path / "file" / "below"))
    assert cache_folder("x").is_dir()


def test_no_home_is_no_obstacle_to_a_fold(tmp_path: Path):
    """As in a container whose file system is read-only; in the child that tries kernels, too."""
    code = (
        "import numpy as np, zarr, chunkfold as cf\n"
        "print(cf.reduce(zarr.create_array({}, data=np.arange(9), chunks=(2,))))"
    )
    own = {"HOME": "/proc/none", "CHUNKFOLD_CACHE": str(tmp_path)}
    own["CUPY_CACHE_DIR"] = str(tmp_path)  # zarr imports it where it is
    environment = {
        k: v for k, v in os.environ.items() if k not in ("XDG_CACHE_HOME", "CHUNKFOLD_SLOT")
    }
    done = finished([sys.executable, "-c", code], 120, environment | own)
    assert done.stdout == "36\n", done.stderr


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch):
    path = tmp_path / "f"
    write_atomically(path, "one")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_atomically(path, "two")
    assert path.read_text() == "one"
    assert list(tmp_path.iterdir()) == [path]

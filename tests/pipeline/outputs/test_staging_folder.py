"""Folders that killed commands left are removed by the next one, those of others are not."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import zarr

from chunkfold.outputs import placing
from chunkfold.outputs import staging_folder as folders
from chunkfold.outputs.outputs import check_output, staged
from chunkfold.outputs.staging_folder import before_of, clear_staging, staging_folder
from tests.processes import BIN, finished


def left_behind(path: Path, *, machine: str | None = None) -> Path:
    """Make a folder as a command leaves it that is killed."""
    name = folders._prefix(path) if machine is None else f".{path.name}.{machine}-"
    folder = path.parent / f"{name}abcd"
    folder.mkdir()
    (folder / path.name).write_text("half")
    return folder


def test_what_was_left_behind_goes_before_the_next_is_made(tmp_path: Path):
    out = tmp_path / "out.json"
    left_behind(out)
    with staged(out) as made:
        assert [one.name for one in tmp_path.iterdir()] == [made.parent.name]
        made.write_text("whole")
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("name", ["a[b].zarr", "out?.json", "*.zarr"])
def test_folders_of_other_outputs_of_other_machines_and_new_ones_stay(tmp_path: Path, name: str):
    empty = tmp_path / f"{folders._prefix(tmp_path / name)}abcd"
    empty.mkdir()  # as before it is locked
    kept = [
        left_behind(tmp_path / "other.zarr"),
        left_behind(tmp_path / name, machine="deadbeef"),
        empty,
    ]
    clear_staging(tmp_path / name)
    assert sorted(tmp_path.iterdir()) == sorted(kept)


def test_a_folder_in_which_something_is_made_stays(tmp_path: Path):
    out = tmp_path / "out.zarr"
    with staging_folder(out) as folder:
        (folder / "out.zarr").mkdir()
        clear_staging(out)
        assert folder.is_dir()
    clear_staging(out)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("new", [False, True])
def test_what_was_set_aside_is_put_back_unless_another_took_its_place(tmp_path: Path, new: bool):
    out = tmp_path / "out.json"
    folder = left_behind(out)
    before_of(folder, out).write_text("old")
    if new:
        out.write_text("new")
    check_output(out, overwrite=True)
    assert out.read_text() == ("new" if new else "old")
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.timeout(120)
def test_the_next_command_removes_what_a_killed_one_left(tmp_path: Path):
    source, out = tmp_path / "a.zarr", tmp_path / "out.zarr"
    zarr.create_array(source, data=np.ones((2, 6000, 3), "f4"), chunks=(2, 1, 3))
    command = [BIN / "chunkfold", "project", source, out, "--op", "mean", "--axis", "0"]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (left := list(tmp_path.glob(".out.zarr.*/out.zarr"))):
        assert running.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.002)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert left[0].is_dir()
    assert not out.exists()
    subprocess.run(command, check=True, capture_output=True)
    assert sorted(tmp_path.iterdir()) == sorted([source, out])


KILLED = """
import os, signal, sys
from pathlib import Path
from chunkfold.outputs import outputs
from chunkfold.outputs import placing

out, at, atomic = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "at once"
steps = 0


def count(event, args):
    global steps
    if event.startswith(("os.", "shutil.", "tempfile.", "open")):
        steps += 1
        if steps == at:
            os.kill(os.getpid(), signal.SIGKILL)


if not atomic:
    placing.exchanged = lambda *_: False
sys.addaudithook(count)
outputs.check_output(out, overwrite=True)
with outputs.staged(out, overwrite=True) as made:
    if out.suffix == ".zarr":
        made.mkdir()
    for file in [made / "zarr.json", made / "c"] if out.suffix == ".zarr" else [made]:
        file.write_text(sys.argv[4])
"""
"""Writes an output over another, and is killed before one of the steps that it takes."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["o.json", "o.zarr"])
@pytest.mark.parametrize("how", ["at once", "one by one"])
def test_whoever_is_killed_leaves_a_whole_output_and_the_next_run_nothing_else(
    tmp_path: Path, name: str, how: str
):
    out = tmp_path / name
    files = [out / "zarr.json", out / "c"] if out.suffix == ".zarr" else [out]
    old, new = (f'{{"zarr_format": 3, "node_type": "group", "{age}": 1}}' for age in ("old", "new"))
    gone = 0
    for step in itertools.count(1):
        if out.suffix == ".zarr":
            out.mkdir(exist_ok=True)
        for file in files:
            file.write_text(old)
        ended = finished([sys.executable, "-c", KILLED, out, step, how, new], 60)
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        gone += not out.exists()
        check_output(out, overwrite=True)  # as the next command does first
        assert {file.read_text() for file in files} in ({old}, {new})
        assert list(tmp_path.iterdir()) == [out]
    assert step > 10
    assert gone == (how == "one by one" and name == "o.zarr")


def test_names_are_exchanged_and_what_cannot_be_is_told(tmp_path: Path):
    one, other = tmp_path / "one", tmp_path / "\udcffother"
    one.mkdir()
    other.write_text("file")
    assert placing.exchanged(one, other)
    assert one.read_text() == "file"
    assert other.is_dir()
    with pytest.raises(FileNotFoundError, match="gone"):
        placing.exchanged(one, tmp_path / "gone")


def test_what_cannot_be_put_back_is_kept(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(placing, "exchanged", lambda *_: False)
    out = tmp_path / "out.zarr"
    with staged(out) as made:
        made.mkdir()
        (made / "zarr.json").write_text('{"node_type": "group"}')
    true_rename = Path.rename

    def fails_back(path: Path, target: Path) -> Path:
        if target == out:
            raise OSError("input/output error")
        return true_rename(path, target)

    def replaces() -> None:
        with staged(out, overwrite=True) as made:
            made.mkdir()
            monkeypatch.setattr(Path, "rename", fails_back)
            monkeypatch.setattr(Path, "replace", fails_back)

    with pytest.raises(OSError, match="input/output"):
        replaces()
    monkeypatch.undo()
    assert not out.exists()
    check_output(out, overwrite=True)
    assert (out / "zarr.json").read_text() == '{"node_type": "group"}'

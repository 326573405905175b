"""Cache folders: private, one slot per process, warm after a restart."""

from __future__ import annotations

import itertools
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from chunkfold.kernels.cache.folders import cache_folder
from tests.poison import FAULTS
from tests.processes import finished

CODE = (
    "from chunkfold.kernels.cache.caches import slot_folder; print(slot_folder().name, flush=True)"
)


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
        "from chunkfold.kernels.cache.caches import child_environment, slot_folder\n"
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


FOLD = """
import numpy as np, pyopencl as cl, sys
from chunkfold.kernels import DeviceContext, all_devices, as_monoid, bind, choose
from chunkfold.kernels.fold.fold import Fold
from chunkfold.kernels.geometry import box
accumulator = bind([as_monoid("sum")], [np.dtype("i4")]).accumulator
for device in all_devices():
    opened = DeviceContext(device)
    fold = Fold(opened, accumulator, choose(device, accumulator, kernels={"flat"}), 1)
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    buffer = cl.Buffer(opened.context, flags, hostbuf=np.arange(9, dtype="i4"))
    fold.add([buffer], box((9,), (0,)))
    print(sum(int(part[0]) for part in fold.read_back().arrays.values()))
"""
"""A sum on every device, by all that caches hold."""


def folded(cache: Path, *before: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Fold on every device with a cache, in a process of its own."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CHUNKFOLD_SLOT")}
    environment |= {"CHUNKFOLD_CACHE": str(cache), "CHUNKFOLD_CACHE_SAID": ""} | more
    return finished([*before, sys.executable, "-c", FOLD], 120, environment)


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a cache that was used once, and what was printed then.

    pyopencl's own cache was full of what is no database: it was not looked at.
    """
    folder = tmp_path_factory.mktemp("used")
    environment = os.environ | {"XDG_CACHE_HOME": str(folder / "home")}
    opened = finished([sys.executable, "-c", "import pyopencl.invoker"], 60, environment)
    assert opened.returncode == 0, opened.stderr
    (database,) = folder.rglob("*.sqlite")
    database.write_bytes(b"nothing")
    done = folded(folder / "cache", XDG_CACHE_HOME=environment["XDG_CACHE_HOME"])
    assert set(done.stdout.splitlines()) == {"36"}, done.stderr
    assert done.stderr == ""
    assert database.read_bytes() == b"nothing"
    return folder / "cache", done.stdout


@pytest.mark.cpu_runtime
def test_caches_hold_neither_pickles_nor_lists_of_drivers(used: tuple[Path, str]):
    files = [path for path in used[0].rglob("*") if path.is_file()]
    assert [path for path in files if path.read_bytes()[:1] == b"\x80"] == []
    assert {path.suffix for path in files} == {"", ".bc", ".lock", ".seal", ".so"}


@pytest.mark.cpu_runtime
def test_what_one_process_built_is_there_for_the_next_in_whichever_slot(
    used: tuple[Path, str], tmp_path: Path
):
    cache = tmp_path / "cache"
    shutil.copytree(used[0], cache)
    holder = start(cache)
    assert holder.stdout.readline().strip() == "0"  # where all was kept before
    built = {path: path.stat().st_ino for path in cache.rglob("programs/*")}
    done = folded(cache)
    holder.communicate("\n", timeout=30)
    assert done.stdout == used[1], done.stderr
    assert (cache / "slots" / "1").is_dir()
    assert built == {path: path.stat().st_ino for path in cache.rglob("programs/*")} != {}


@pytest.mark.cpu_runtime
def test_a_cache_of_which_no_file_is_whole_is_made_again_and_said_once(
    used: tuple[Path, str], tmp_path: Path
):
    """Verdicts, programs, what PoCL keeps: each has another fault. One by one: tests/real."""
    cache = tmp_path / "cache"
    shutil.copytree(used[0], cache)
    others = (".lock", ".seal")
    files = sorted(p for p in cache.rglob("*") if p.is_file() and p.suffix not in others)
    files = [path for path in files if path.stat().st_size]
    assert len(files) >= 8
    faults = [fault for name, fault in FAULTS.items() if name != "of another version"]
    for path, fault in zip(files, itertools.cycle(faults), strict=False):
        fault(path)
    done = folded(cache)
    assert done.stdout == used[1], done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert "made again" in done.stderr


def test_a_cache_that_others_may_write_is_not_used(used: tuple[Path, str], tmp_path: Path):
    cache, temporary = tmp_path / "cache", tmp_path / "temporary"
    for folder in (cache, temporary):
        folder.mkdir()
    cache.chmod(0o770)
    done = folded(cache / "below", TMPDIR=str(temporary))
    assert done.stdout == used[1], done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert f"others may write to {cache} " in done.stderr
    assert list(cache.iterdir()) == list(temporary.iterdir()) == []


def test_no_room_for_a_cache_is_said_once(used: tuple[Path, str], tmp_path: Path):
    """The system's limit on files stands for a full disk: what needs root is in tests/real."""
    limited = ["bash", "-c", 'ulimit -f 8192; exec "$0" "$@"']
    done = folded(tmp_path / "cache", *limited)
    assert done.stdout == used[1], done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert "cannot be written (File too large)" in done.stderr

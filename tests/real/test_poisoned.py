"""Caches that others left, or that were damaged: the right answer, and one sentence at most."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import zarr

from tests.conftest import some
from tests.poison import FAULTS, WITH_ROOT
from tests.processes import BIN, finished

pytestmark = pytest.mark.real

KINDS = {
    "verdict": ("intel", "verdicts/*"),
    "program": ("intel", "programs/*"),
    "PoCL's kernel": ("pocl", "slots/*/pocl/**/*.so"),
    "PoCL's program": ("pocl", "slots/*/pocl/**/*.bc"),
    "seal": ("pocl", "slots/*/pocl.seal"),
    "lock": ("intel", "slots/*.lock"),
}
"""What a cache holds: a device that needs it, and where it lies."""
SILENT = {"lock"}
"""What is used as it is whatever it holds."""


def reduced(source: Path, device: str, cache: Path, **more: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"CHUNKFOLD_CACHE": str(cache), "CHUNKFOLD_CACHE_SAID": ""} | more
    command = [BIN / "chunkfold", "reduce", source, "--quiet", "--device", device]
    return finished(command, 120, environment)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "a.zarr"
    zarr.create_array(path, data=np.arange(1000.0), chunks=(100,))
    return path


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory, source: Path) -> Path:
    cache = tmp_path_factory.mktemp("used") / "cache"
    for device in ("intel", "pocl"):
        done = reduced(source, device, cache)
        assert right(done) == 0
    return cache


def right(done: subprocess.CompletedProcess) -> int:
    """See that the answer is right; return the number of lines that were said."""
    assert (done.returncode, done.stdout) == (0, "sum 499500.0\n"), done.stderr
    return len(_said(done))


def _said(done: subprocess.CompletedProcess) -> list[str]:
    """Return the lines that were said, but for those of a busy machine."""
    return [line for line in done.stderr.splitlines() if "so far" not in line]


@pytest.mark.parametrize(("kind", "fault"), some(list(KINDS), [*FAULTS, *WITH_ROOT], of=4))
def test_a_poisoned_entry_is_made_again(
    tmp_path: Path, source: Path, used: Path, kind: str, fault: str
):
    cache = tmp_path / "cache"
    shutil.copytree(used, cache)
    device, pattern = KINDS[kind]
    paths = [path for path in cache.glob(pattern) if path.is_file()]
    assert paths
    for path in paths:
        (FAULTS | WITH_ROOT)[fault](path)
    said = right(reduced(source, device, cache))
    assert said <= 1 if kind in SILENT or fault == "of another version" else said == 1
    assert right(reduced(source, device, cache)) == 0


@pytest.mark.parametrize(
    ("part", "fault"),
    some(
        ["verdicts", "slots", "slots/1", "slots/1/pocl"],
        ["another's", "writable", "a link", "a file", "a FIFO"],
    ),
)
def test_a_poisoned_folder_is_made_again(
    tmp_path: Path, source: Path, used: Path, part: str, fault: str
):
    cache, elsewhere = tmp_path / "cache", tmp_path / "elsewhere"
    shutil.copytree(used, cache)
    folder = cache / part
    if fault == "another's":
        os.chown(folder, 65534, 65534)
    elif fault == "writable":
        folder.chmod(0o777)
    else:
        folder.rename(elsewhere)
        make = {"a link": lambda: folder.symlink_to(elsewhere), "a file": folder.touch,
                "a FIFO": lambda: os.mkfifo(folder)}  # fmt: skip
        make[fault]()
    assert right(reduced(source, "pocl", cache)) == 1
    assert right(reduced(source, "pocl", cache)) == 0


@pytest.mark.parametrize("fault", ["its own", "above", "link"])
def test_a_cache_of_another_user_is_not_used(tmp_path: Path, source: Path, used: Path, fault: str):
    theirs = tmp_path / "theirs"
    shutil.copytree(used, theirs / "cache")
    given = theirs / "cache"
    if fault == "link":
        given = tmp_path / "link"
        given.symlink_to(theirs / "cache")
    os.chown({"its own": given, "above": theirs, "link": given}[fault], 65534, 65534,
             follow_symlinks=False)  # fmt: skip
    done = reduced(source, "intel", given)
    assert right(done) == 1
    assert "belongs to nobody" in done.stderr


def test_a_folder_of_the_home_that_others_may_write_is_not_used(tmp_path: Path, source: Path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    done = reduced(source, "intel", Path(), CHUNKFOLD_CACHE="", XDG_CACHE_HOME=str(shared))
    assert right(done) == 1
    assert f"others may write to {shared} " in done.stderr
    assert list(shared.iterdir()) == []


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[Path]:
    """A disk of its own."""
    folder.mkdir(mode=0o700)
    options = f"size={size},mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("device", ["intel", "pocl"])
def test_a_full_disk_under_the_cache_is_said_once(tmp_path: Path, source: Path, device: str):
    with mounted(tmp_path / "disk", "1m") as disk:
        (disk / "fill").write_bytes(bytes(900 << 10))
        done = reduced(source, device, disk / "cache")
        assert right(done) == 1
        assert "No space left on device" in done.stderr


@pytest.mark.parametrize("name", ["r.json", "r.zarr", "r.csv", "r.parquet", "r.nc"])
def test_a_full_disk_under_an_output_is_named(tmp_path: Path, name: str):
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    large = tmp_path / "a.zarr"
    data = np.random.default_rng(0).random((30_000, 2))
    zarr.create_array(large, data=data, chunks=data.shape)
    with mounted(tmp_path / "disk", "64k") as disk:
        command = [BIN / "chunkfold", "reduce", large, "--axis", "1", "--quiet", "--out"]
        done = finished([*command, disk / name], 120)
        assert done.returncode == 4, done.stderr
        (said,) = done.stderr.splitlines()
        assert said.startswith("OutputError: ")
        assert f"{disk / name} cannot be written: No space left on device" in said
        assert list(disk.iterdir()) == []


@pytest.mark.parametrize("option", ["--manifest", "--report"])
def test_a_full_disk_under_what_tells_of_a_run_is_named(tmp_path: Path, source: Path, option: str):
    name = {"--manifest": "m.json", "--report": "r.html"}[option]
    with mounted(tmp_path / "disk", "4k") as disk:
        (disk / "fill").write_bytes(bytes(4096))
        command = [BIN / "chunkfold", "reduce", source, "--quiet", option, disk / name]
        done = finished(command, 120)
        assert done.returncode in (2, 4), done.stderr
        assert f"{disk / name} cannot be written: " in done.stderr
        assert "No space left on device" in done.stderr

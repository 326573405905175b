"""Entries of caches: whole or not there, whatever is found in their place."""

from __future__ import annotations

import logging
import resource
from pathlib import Path

import pytest

from chunkfold.kernels.cache import entries
from chunkfold.kernels.cache.entries import read_entry, write_entry
from tests.poison import FAULTS


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CHUNKFOLD_CACHE_SAID", "")


@pytest.mark.parametrize("content", [b"", b"{}", bytes(range(256)) * 300])
def test_what_is_kept_is_read(tmp_path: Path, content: bytes):
    write_entry(tmp_path / "entry", content)
    assert read_entry(tmp_path / "entry") == content
    assert list(tmp_path.iterdir()) == [tmp_path / "entry"]
    assert (tmp_path / "entry").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_no_entry_goes_is_said_once_and_made_again(tmp_path: Path, caplog, fault: str):
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    paths = [folder / "one", folder / "two"]
    for path in paths:
        write_entry(path, path.name.encode() * 40)
    for path in paths:
        FAULTS[fault](path)
        assert read_entry(path) is None
        assert path not in folder.iterdir()
        write_entry(path, b"again")
        assert read_entry(path) == b"again"
    (said,) = caplog.records
    assert str(paths[0]) in said.getMessage()
    assert "\n" not in said.getMessage()
    assert [path for path in folder.iterdir() if path not in paths] == []


def test_an_entry_under_another_s_name_is_none(tmp_path: Path):
    write_entry(tmp_path / "one", b"a verdict")
    (tmp_path / "one").rename(tmp_path / "two")
    assert read_entry(tmp_path / "two") is None


def test_an_entry_that_is_not_there_is_nothing_to_tell(tmp_path: Path, caplog):
    assert read_entry(tmp_path / "none") is None
    assert caplog.records == []


def test_no_room_is_said_once_and_leaves_what_was(tmp_path: Path, caplog):
    """The limit on the size of files, which the system refuses to write beyond as on full disks."""
    write_entry(tmp_path / "entry", b"before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 10, limits[1]))
    try:
        for _ in range(2):
            write_entry(tmp_path / "entry", bytes(1 << 16))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert read_entry(tmp_path / "entry") == b"before"
    assert list(tmp_path.iterdir()) == [tmp_path / "entry"]
    (said,) = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert f"{tmp_path} cannot be written (File too large)" in said.getMessage()


def test_an_entry_larger_than_any_is_not_read(tmp_path: Path, monkeypatch):
    write_entry(tmp_path / "entry", bytes(100))
    monkeypatch.setattr(entries, "_MOST_BYTES", 99)
    assert read_entry(tmp_path / "entry") is None

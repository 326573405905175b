"""HDF5 files: found on the way of a path, open once, closed behind a run, told when they change."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

import chunkfold as cf
from chunkfold.errors import ChangedError
from chunkfold.sources.opening import open_source
from chunkfold.stores.h5_files import H5File, _handles, h5_at, is_h5


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file of one dataset."""
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=512) as file:
        file.create_dataset("deep/x", data=np.arange(40.0), chunks=(7,))
    return tmp_path / "a.h5"


def test_a_file_is_on_the_way_of_what_is_in_it(path: Path):
    assert is_h5(path)
    assert h5_at(path / "deep" / "x") == (path, "deep/x")
    assert h5_at(path) == (path, "")
    assert h5_at(path.parent) is None
    assert h5_at(path.parent / "nope" / "x") is None


def test_what_is_no_file_of_its_kind_is_none(tmp_path: Path):
    (tmp_path / "text").write_text("an HDF5 file is none by its name")
    os.mkfifo(tmp_path / "pipe")
    assert not is_h5(tmp_path / "text")
    assert not is_h5(tmp_path / "pipe")


def test_one_process_opens_it_once_whoever_reads(path: Path):
    one, other = H5File.at(str(path)), pickle.loads(pickle.dumps(H5File.at(str(path))))
    with one.opened() as file, other.opened() as again:
        assert file is again
    with one.opened(kept=False) as file:
        pass
    assert not file


def test_it_is_closed_when_nobody_has_read_of_it_for_a_while(path: Path):
    with H5File.at(str(path)).opened() as file:
        pass
    assert file
    deadline = time.monotonic() + 10
    while file and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not file
    assert not _handles._open


def test_behind_a_reduction_others_may_write_to_it(path: Path):
    assert cf.reduce(f"{path}/deep/x") == 780
    with h5py.File(path, "a") as file:
        file["deep/x"][:] = 1
    assert cf.reduce(f"{path}/deep/x") == 40


def test_while_it_is_open_another_process_may_write_and_is_noticed(path: Path):
    writes = f"import h5py; f = h5py.File({str(path)!r}, 'a'); f['y'] = [1.0] * 9; f.close()"
    held = H5File.at(str(path))
    with held.opened():
        subprocess.run([sys.executable, "-c", writes], check=True)
        with pytest.raises(ChangedError, match=r"was written to: it had [0-9,]+ bytes"):
            held.check()
    path.unlink()
    with pytest.raises(ChangedError, match="is gone"):
        held.check()


def test_of_a_file_that_changed_the_new_one_is_read_though_the_old_one_is_open(path: Path):
    old = H5File.at(str(path))
    with old.opened():
        made = path.with_name("b.h5")
        with h5py.File(made, "w") as file:
            file["deep/x"] = np.ones(3)
        made.replace(path)
        with H5File.at(str(path)).opened() as file:
            assert file["deep/x"].shape == (3,)


def test_a_file_that_this_process_has_open_with_a_lock_is_read_too(path: Path):
    with h5py.File(path, "r") as file:
        assert cf.reduce(f"{path}/deep/x") == 780
        assert file["deep/x"][3] == 3  # it stays open for its owner


@pytest.mark.parametrize("driver", ["sec2", "stdio"])
def test_how_it_was_opened_travels(path: Path, driver: str):
    with h5py.File(path, driver=driver, rdcc_nbytes=12345) as file:
        source = pickle.loads(pickle.dumps(open_source(file["deep/x"])))
    found = dict(source.file.options)
    assert found["rdcc_nbytes"] == 12345
    assert found.get("driver", "sec2") == driver
    assert cf.reduce(source) == 780

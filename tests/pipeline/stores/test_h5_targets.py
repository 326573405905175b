"""HDF5 files lead to files in their own folder, and elsewhere only by leave."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

import chunkfold as cf
from chunkfold.errors import SourceError
from chunkfold.sources.opening import Unopened, open_each, open_source

VALUES = np.arange(6, dtype="i4")


def file_with(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    with h5py.File(path, "w") as file:
        file["y"] = VALUES
    return path


def external_link(file: h5py.File, other: Path) -> None:
    file["x"] = h5py.ExternalLink(str(other), "/y")


def soft_link(file: h5py.File, other: Path) -> None:
    file["deep"] = h5py.ExternalLink(str(other), "/")
    file["x"] = h5py.SoftLink("/deep/y")


def virtual(file: h5py.File, other: Path) -> None:
    layout = h5py.VirtualLayout((6,), "i4")
    layout[:] = h5py.VirtualSource(str(other), "y", (6,))
    file.create_virtual_dataset("x", layout)


def external_storage(file: h5py.File, other: Path) -> None:
    raw = other.with_suffix(".raw")
    raw.write_bytes(VALUES.tobytes())
    file.create_dataset("x", (6,), "i4", external=[(str(raw), 0, 24)])


WAYS: list[Callable[[h5py.File, Path], None]] = [
    external_link, soft_link, virtual, external_storage,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_what_lies_in_its_folder_needs_no_leave(tmp_path: Path, way: Callable, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for other in (file_with(tmp_path / "b.h5"), Path("b.h5")):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            way(file, other)
        assert cf.reduce(f"{tmp_path}/a.h5/x") == 15


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("spelling", ["absolute", "up", "link"])
def test_files_elsewhere_need_leave(tmp_path: Path, way: Callable, spelling: str, monkeypatch):
    other = file_with(tmp_path / "elsewhere" / "b.h5")
    folder = tmp_path / "own"
    folder.mkdir()
    monkeypatch.chdir(folder)
    if spelling == "up":
        other = Path("../elsewhere/b.h5")
    if spelling == "link":
        (folder / "sub").symlink_to(tmp_path / "elsewhere")
        other = folder / "sub" / "b.h5"
    with h5py.File(folder / "a.h5", "w") as file:
        file["z"] = VALUES
        way(file, other)
    place = f"{folder}/a.h5/x"
    with pytest.raises(
        SourceError, match=f"without permission .*allow_targets='{tmp_path}/elsewhere"
    ):
        open_source(place)
    for leave in (f"{tmp_path}/elsewhere", f"{tmp_path}/"):
        assert cf.reduce(place, allow_targets=[leave]) == 15
    with pytest.raises(SourceError, match="without permission"):
        open_source(place, {"allow_targets": [f"{tmp_path}/else"]})
    (well,) = [one for one in open_each(folder / "a.h5") if not isinstance(one, Unopened)]
    assert cf.reduce(well) == 15
    with h5py.File(folder / "a.h5") as file, pytest.raises(SourceError, match="without permission"):
        cf.reduce(file["x"]) if way in (virtual, external_storage) else open_source(place)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_behind_a_virtual_dataset_is_checked_too(tmp_path: Path, way: Callable):
    other = file_with(tmp_path / "elsewhere" / "c.h5")
    folder = tmp_path / "own"
    folder.mkdir()
    with h5py.File(folder / "b.h5", "w") as file:
        way(file, other)
    with h5py.File(folder / "a.h5", "w") as file:
        layout = h5py.VirtualLayout((6,), "i4")
        layout[:] = h5py.VirtualSource("b.h5", "x", (6,))
        file.create_virtual_dataset("x", layout)
    with pytest.raises(SourceError, match="without permission"):
        open_source(folder / "a.h5/x")
    assert cf.reduce(folder / "a.h5/x", allow_targets=[str(tmp_path)]) == 15


def test_links_in_a_circle_and_special_files_are_refused(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["one"] = h5py.SoftLink("/two")
        file["two"] = h5py.SoftLink("/one")
        file["me"] = h5py.ExternalLink("a.h5", "/me")
        file["pipe"] = h5py.ExternalLink("pipe", "/x")
        file["gone"] = h5py.ExternalLink("gone.h5", "/x")
    for name, said in {
        "one": "in a circle", "me": "in a circle", "pipe": "named pipe", "gone": "gone.h5",
    }.items():  # fmt: skip
        with pytest.raises(SourceError, match=said):
            open_source(tmp_path / f"a.h5/{name}")

"""What is no regular file is not read, metadata have a bound, and every read ends."""

from __future__ import annotations

import json
import os
import resource
import socket
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import dask
import fsspec
import numpy as np
import pytest
import zarr
from obstore.store import LocalStore as Folder
from zarr.storage import LocalStore, ObjectStore, ZipStore

import chunkfold as cf
from chunkfold.errors import ChunkError, SourceError
from chunkfold.sources.opening import Unopened, open_each, open_neighbour, open_source
from chunkfold.stores.guarded_stores import CarefulFiles, CarefulZip, careful
from chunkfold.stores.remote import RemoteObjects
from tests.strangers import answering, endless, trickling

pytestmark = pytest.mark.timeout(30)


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's name has 107 letters at most
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(here)


SPECIAL: dict[str, Callable[[Path], None]] = {
    "a named pipe": _pipe,
    "a device": _zeros,
    "a socket": _socket,
}


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    """A folder of two groups: 2, of arrays a, x and y of that format, and 3, of an array b."""
    made = zarr.open_group(str(tmp_path / "2"), mode="w", zarr_format=2)
    for name, axes in {"a": ["x", "y"], "x": ["x"], "y": ["y"]}.items():
        made.create_array(name, data=np.ones((3,) * len(axes)), order="F").attrs[
            "_ARRAY_DIMENSIONS"
        ] = axes
    zarr.open_group(str(tmp_path / "3"), mode="w").create_array("b", data=np.ones((3, 3)))
    return tmp_path


def replaced(path: Path, kind: str) -> Path:
    path.unlink(missing_ok=True)
    SPECIAL[kind](path)
    return path


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("key", ["3/b/zarr.json", "2/a/.zarray", "2/a/.zattrs"])
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_special_files_are_no_metadata(groups: Path, kind: str, key: str, scheme: str):
    path = replaced(groups / key, kind)
    with pytest.raises(SourceError, match=f"{path}: is {kind}, not a regular file"):
        cf.reduce(f"{scheme}{path.parent}")
    (bad,) = [one for one in open_each(path.parent.parent) if isinstance(one, Unopened)]
    assert str(path) in str(bad.error)


@pytest.mark.parametrize("kind", SPECIAL)
def test_special_files_are_no_stores(tmp_path: Path, kind: str):
    path = replaced(tmp_path / "s", kind)
    for address in (path, f"{path}/air", f"reference::{path}", f"zip://a::file://{path}"):
        with pytest.raises(SourceError, match=f"{kind}, not"):
            open_source(address)
    packed = replaced(tmp_path / "s.zip", kind)
    with pytest.raises(SourceError, match=f"{packed}: {kind}, not"):
        open_source(packed)


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize(("name", "key"), [("2/a", "0.0"), ("3/b", "c/0/0")])
@pytest.mark.filterwarnings("ignore:.*_FillValue")
def test_special_files_are_no_chunks(groups: Path, kind: str, name: str, key: str):
    """Neither where zarr decodes them, in Fortran's order, nor where it does not."""
    array = zarr.open_array(groups / name, mode="r")
    replaced(groups / name / key, kind)
    for source in (groups / name, array):
        with pytest.raises(ChunkError, match=r"not a regular file|not a file or a folder"):
            cf.reduce(source)


def test_a_special_file_beside_is_left_out(groups: Path):
    replaced(groups / "2/x/.zarray", "a named pipe")
    source = open_source(groups / "2/a")
    with pytest.raises(SourceError, match=r"x/\.zarray: is a named pipe"):
        open_neighbour(source, "x")
    assert open_neighbour(source, "y") is not None


def _growth(read: Callable[[], object]) -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(SourceError, match=r"has more than 1,048,576 bytes"):
        read()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10


@pytest.mark.parametrize("where", ["file", "zip", "memory", "http"])
def test_metadata_have_a_bound(tmp_path: Path, where: str):
    store = tmp_path / "g.zarr"
    store.mkdir()
    (store / "zarr.json").touch()
    os.truncate(store / "zarr.json", 1 << 29)
    with (
        dask.config.set({"chunkfold.store.metadata-bytes": "1 MiB"}),
        answering(endless) as host,
    ):
        address = {
            "file": f"{store}",
            "zip": f"{tmp_path}/g.zip",
            "memory": "memory://bound.zarr",
            "http": f"http://{host}/g.zarr",
        }[where]
        if where == "zip":
            with zipfile.ZipFile(address, "w", zipfile.ZIP_DEFLATED) as packed:
                packed.writestr("zarr.json", bytes(1 << 26))
        if where == "memory":
            fsspec.filesystem("memory").pipe("/bound.zarr/zarr.json", bytes(1 << 26))
        assert _growth(lambda: open_source(address)) < 100 << 20


def test_references_have_a_bound(tmp_path: Path):
    (tmp_path / "r.json").write_text(json.dumps({"version": 1, "refs": {}}) + " " * 5000)
    with (
        dask.config.set({"chunkfold.store.metadata-bytes": "4 kiB"}),
        pytest.raises(SourceError, match=r"r\.json: has more than 4,096 bytes"),
    ):
        open_source(f"reference::{tmp_path}/r.json")


def test_references_are_read(groups: Path, tmp_path: Path):
    made = {"zarr.json": (groups / "3/b/zarr.json").read_text(), "c/0/0": [f"{groups}/3/b/c/0/0"]}
    (tmp_path / "r.json").write_text(json.dumps({"version": 1, "refs": made}))
    assert cf.reduce(f"reference::{tmp_path}/r.json") == 9


def test_references_tell_no_variables(groups: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("SECRET", "hush")
    zarray = (groups / "3/b/zarr.json").read_text()
    address = "memory://{{f.__globals__[os].environ[SECRET]}}"
    refers = {"zarr.json": zarray, "c/0/0": [address, 0, 9]}
    told = {"version": 1, "templates": {"f": "{{x}}"}, "refs": refers}
    (tmp_path / "r.json").write_text(json.dumps(told))
    leaked = fsspec.filesystem("reference", fo=told).references["c/0/0"][0]
    assert leaked == "memory://hush"
    with pytest.raises(SourceError, match=r"r\.json: its templates are functions"):
        open_source(f"reference::{tmp_path}/r.json")
    told["templates"] = {"f": f"{groups}/3/b"}
    refers["c/0/0"] = ["{{f}}/c/0/0"]
    (tmp_path / "r.json").write_text(json.dumps(told))
    assert cf.reduce(f"reference::{tmp_path}/r.json") == 9


def test_every_read_has_a_deadline(tmp_path: Path):
    with (
        dask.config.set({"chunkfold.store.deadline": "500ms"}),
        answering(trickling) as host,
    ):
        refers = {"zarr.json": [f"http://{host}/zarr.json"]}
        (tmp_path / "r.json").write_text(json.dumps({"version": 1, "refs": refers}))
        for address in (f"http://{host}/a.zarr", f"reference::{tmp_path}/r.json"):
            began = time.monotonic()
            # several keys are read at once: the first that is given up is named
            named = r"/(zarr\.json|\.z\w+): is not read after 0\.5 s"
            with pytest.raises(SourceError, match=named):
                open_source(address, {"allow_targets": f"http://{host}/"})
            assert time.monotonic() - began < 5


def test_stores_of_others_are_read_with_care(groups: Path, tmp_path: Path):
    packed = ZipStore(tmp_path / "g.zip", mode="w")
    zarr.create_array(packed, data=np.ones(3))
    packed.close()
    assert type(careful(LocalStore(groups))) is CarefulFiles
    assert type(careful(ZipStore(tmp_path / "g.zip"))) is CarefulZip
    assert type(open_source(zarr.open_array(groups / "3/b")).array.store) is CarefulFiles
    assert cf.reduce(tmp_path / "g.zip") == 3


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (None, b"abcdef"),
        (zarr.abc.store.RangeByteRequest(1, 3), b"bc"),
        (zarr.abc.store.OffsetByteRequest(4), b"ef"),
        (zarr.abc.store.SuffixByteRequest(2), b"ef"),
        (zarr.abc.store.SuffixByteRequest(20), b"abcdef"),
    ],
)
def test_parts_of_files_are_read_as_zarr_does(tmp_path: Path, asked, found):
    (tmp_path / "k").write_bytes(b"abcdef")
    ours, zarrs = CarefulFiles(tmp_path, read_only=True), LocalStore(tmp_path)
    prototype = zarr.buffer.default_buffer_prototype()
    for store in (ours, zarrs):
        got = zarr.core.sync.sync(store.get("k", prototype, asked))
        assert got.to_bytes() == found
        (part,) = zarr.core.sync.sync(store.get_partial_values(prototype, [("k", asked)]))
        assert part.to_bytes() == found
        assert zarr.core.sync.sync(store.get("nothing", prototype, asked)) is None


@pytest.mark.parametrize("prefix", [True, False])
def test_a_folder_of_obstore_is_read_as_files(tmp_path: Path, monkeypatch, prefix: bool):
    made = zarr.create_array(str(tmp_path / "a b#%20"), shape=(9,), chunks=(2,), dtype="i4")
    made[...] = np.arange(9)
    store = ObjectStore(Folder(tmp_path) if prefix else Folder(), read_only=True)
    path = made.path if prefix else str(tmp_path)[1:]
    array = zarr.open_array(store, path=f"{path}/a b#%20".lstrip("/"), mode="r")
    monkeypatch.setattr(RemoteObjects, "start", None)  # whoever asks obstore fails
    assert cf.reduce(array, ["sum", "count"]) == {"sum": 36, "count": 9}
    assert open_source(array).local_path == str(tmp_path / "a b#%20")

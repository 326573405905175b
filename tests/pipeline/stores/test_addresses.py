"""Addresses: what is in archives and chains has one, and those that messages name open."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import re
import shutil
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import fsspec
import h5py
import icechunk
import numpy as np
import pytest
import zarr
from fsspec.implementations.reference import LazyReferenceMapper
from zarr.storage import MemoryStore, ZipStore

import chunkfold as cf
from chunkfold.sources.opening import open_each, open_neighbour, open_source
from chunkfold.stores.addresses import below, last_of, neighbour_address, within
from tests.web import served

VALUES = np.arange(24.0).reshape(6, 4)


@pytest.fixture(scope="module")
def filled_folder(tmp_path_factory) -> Iterator[tuple[Path, str]]:
    """The same group as a folder, archives, references, a repository; and a server."""
    tmp_path = tmp_path_factory.mktemp("addresses")
    with chdir(tmp_path):
        fill_folder()
    with served(tmp_path) as web:
        yield tmp_path, web.url


@pytest.fixture(autouse=True)
def folder(filled_folder: tuple[Path, str], monkeypatch) -> Path:
    """Where it is; the server's address is in WEB."""
    monkeypatch.chdir(filled_folder[0])
    monkeypatch.setenv("WEB", filled_folder[1])
    return filled_folder[0]


def fill_folder() -> None:
    filled(zarr.open_group("d.zarr", mode="w", zarr_format=2))
    with ZipStore("s.zip", mode="w") as store:
        filled(zarr.open_group(store, mode="w"))
    with ZipStore("a.zip", mode="w") as store:
        zarr.create_array(store, data=VALUES)
    shutil.make_archive("top", "zip", ".", "d.zarr")
    references = {"version": 1, "refs": dict(referred(Path("d.zarr")))}
    Path("refs.json").write_text(json.dumps(references))
    Path("cut.zip").write_bytes(Path("s.zip").read_bytes()[:500])
    as_tables(references, "refs.parquet")
    in_repository("repo")
    with h5py.File("f.h5", "w") as file:
        for name in ("v", "deep/v"):
            made = file.create_dataset(name, data=VALUES, chunks=(3, 4))
            lat = file.create_dataset(f"{name}_lat", data=VALUES[:, 0])
            lat.make_scale()
            made.dims[0].attach_scale(lat)


def filled(group: zarr.Group) -> None:
    for name in ("v", "deep/v"):
        made = group.create_array(name, shape=VALUES.shape, chunks=(3, 4), dtype="f8")
        made[...] = VALUES
        group.create_array(f"{name}_lat", data=VALUES[:, 0])


def referred(store: Path) -> Iterator[tuple[str, str | list[object]]]:
    for path in (path for path in store.rglob("*") if path.is_file()):
        small = path.name.startswith(".z")
        to = path.read_text() if small else [str(path.resolve()), 0, path.stat().st_size]
        yield path.relative_to(store).as_posix(), to


def as_tables(references: dict, folder: str) -> None:
    """Write references as tables of two."""
    files = fsspec.filesystem("file")
    made = LazyReferenceMapper.create(folder, fs=files, record_size=2, engine="pyarrow")
    for key, to in sorted(references["refs"].items()):
        made[key] = to
    made.flush()


def in_repository(folder: str) -> None:
    """Make a repository of two snapshots, the first of which is v1."""
    icechunk.set_logs_filter("error")
    made = icechunk.Repository.create(icechunk.local_filesystem_storage(folder))
    session = made.writable_session("main")
    filled(zarr.open_group(session.store, mode="w"))
    made.create_tag("v1", snapshot_id=session.commit("first"))
    session = made.writable_session("main")
    zarr.open_array(session.store, path="later", mode="w", shape=3, dtype="i4")
    session.commit("second")


@pytest.mark.parametrize(
    "address",
    [
        "s.zip/v", "s.zip/deep/v", "zip://v::s.zip", "zip://deep/v::s.zip", "zip:///v::s.zip",
        "zip://s.zip/v", "zip://v::file://HERE/s.zip", "file://HERE/s.zip/v", "HERE/s.zip/deep/v/",
        "a.zip", "zip://::a.zip", "top.zip/d.zarr/v", "zip://d.zarr/deep/v::top.zip",
        "WEB/s.zip/v", "zip://deep/v::WEB/s.zip", "WEB/a.zip", "zip://::WEB/a.zip",
        "reference://v::refs.json", "reference://deep/v::file://HERE/refs.json",
        "dir://v::file://HERE/d.zarr", "simplecache::file://HERE/d.zarr/v", "file://HERE/d.zarr/v",
        "refs.json/v", "HERE/refs.json/deep/v", "file://HERE/refs.json/v", "WEB/refs.json/v",
        "refs.parquet/v", "refs.parquet/deep/v", "reference://v::refs.parquet",
        "WEB/refs.parquet/v", "repo/v", "repo/deep/v", "icechunk://HERE/repo/v", "icechunk://repo/v",
        "icechunk://repo/deep/v?tag=v1", "icechunk://repo/v?branch=main", "f.h5/v", "f.h5/deep/v",
        "file://HERE/f.h5/v",
    ],
)  # fmt: skip
def test_what_zarr_or_fsspec_opens_has_an_address(folder: Path, address: str):
    named = address.replace("HERE", str(folder)).replace("WEB", os.environ["WEB"])
    source = open_source(named, {"allow_targets": [str(folder)]})
    assert cf.reduce(pickle.loads(pickle.dumps(source))) == VALUES.sum()
    if "a.zip" not in address:
        assert open_neighbour(source, "v_lat").shape == (6,)


ADDRESS = re.compile(r"(?:are|is|:)(?= )((?:,? (?:[^\s,;()]*[/:][^\s,;()]*))+)")


def named_in(message: str) -> list[str]:
    """Return the addresses that a message has to offer."""
    behind = message.partition(": ")[2]
    found = itertools.chain.from_iterable(part.split(", ") for part in ADDRESS.findall(behind))
    return [address.strip() for address in found]


@pytest.mark.parametrize(
    ("address", "offers"),
    [
        ("s.zip", 4), ("zip://::s.zip", 4), ("zip://s.zip", 4), ("zip://deep::s.zip", 2),
        ("s.zip/deep", 2), ("s.zip/nope", 4), ("zip://nope::s.zip", 4), ("s.zip/deep/nope", 2),
        ("file://HERE/s.zip", 4), ("file://HERE/s.zip/nope", 4), ("file://HERE/d.zarr", 4),
        ("top.zip", 1), ("top.zip/d.zarr", 4), ("top.zip/nope", 1), ("d.zarr/nope", 4),
        ("WEB/s.zip", 4), ("zip://deep::WEB/s.zip", 2), ("refs.json", 4),
        ("refs.json/deep", 2), ("refs.json/nope", 4), ("refs.parquet", 4), ("refs.parquet/no", 4),
        ("repo", 5), ("repo/deep", 2), ("repo/nope", 5), ("icechunk://repo?tag=v1", 4),
        ("icechunk://HERE/repo", 5), ("f.h5", 4), ("f.h5/deep", 2), ("f.h5/deep/no", 2),
        ("reference://::refs.json", 4), ("reference://deep::refs.json", 2),
        ("simplecache::file://HERE/d.zarr", 4), ("dir://deep::file://HERE/d.zarr", 2), ("HERE", 5),
    ],
)  # fmt: skip
def test_every_address_that_a_message_names_opens(folder: Path, address: str, offers: int):
    address = address.replace("HERE", str(folder)).replace("WEB", os.environ["WEB"])
    with pytest.raises(cf.SourceError) as found:
        open_source(address)
    named = named_in(str(found.value))
    assert len(named) == offers, (str(found.value), named)
    for offer in named:
        assert open_each(offer), offer


def test_a_group_without_an_address_names_its_arrays_as_python_does():
    group = zarr.open_group(MemoryStore(), mode="w")
    filled(group)
    with pytest.raises(cf.SourceError) as found:
        cf.reduce(group)
    named = str(found.value).partition("its arrays: ")[2].split(", ")
    assert len(named) == 4
    for one in named:
        assert isinstance(eval(one, {"group": group}), zarr.Array)


@pytest.mark.parametrize(
    ("address", "match"),
    [
        ("cut.zip", "a zip archive that was cut, or is damaged"),
        ("cut.zip/v", r"no such path \(cut.zip is a zip archive that was cut"),
        ("s.zip/v/x", r"no such path \(s.zip/v is an array\)"),
        ("reference://", "name the file that contains it: reference://PATH::FILE"),
        ("zip://v::ftp2://host/s.zip", "Protocol not known: ftp2.*; use a path, or a URL of"),
    ],
)
def test_what_is_at_no_address_is_said_so(address: str, match: str):
    with pytest.raises(cf.SourceError, match=match):
        open_source(address)


def test_a_package_that_a_chain_needs_is_named_by_who_needs_it(monkeypatch):
    def refused(*_: object, **__: object) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", refused)
    with pytest.raises(cf.SourceError, match=r"another package \(Install s3fs to access S3\)$"):
        open_source("reference://v::s3://bucket/refs.json")


@pytest.mark.parametrize(
    "address",
    ["s.zarr", "zip://::s.zip", "simplecache::zip://g::s3://b/z", "icechunk:///r?tag=v/1"],
)
def test_what_is_within_is_below_and_last_and_has_others_beside(address: str):
    inner = within(address, "deep/air")
    assert below(address, inner) == "deep/air"
    assert last_of(inner) == "air"
    assert neighbour_address(inner, "lat") == within(address, "deep/lat")

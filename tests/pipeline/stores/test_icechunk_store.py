"""Repositories of Icechunk: a run reads one snapshot, whatever is committed meanwhile."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import dask
import icechunk
import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.sources.array_source import PartsSource
from chunkfold.sources.opening import open_source
from chunkfold.stores.icechunk_store import Snapshot, repository_in


@pytest.fixture
def repository(tmp_path: Path, monkeypatch) -> Any:
    """Return a repository of an array of 30 ones, of which the first half is stored; tag v1."""
    monkeypatch.chdir(tmp_path)
    icechunk.set_logs_filter("error")
    made = icechunk.Repository.create(icechunk.local_filesystem_storage("repo"))
    session = made.writable_session("main")
    array = zarr.create_array(
        session.store, name="deep/x", shape=(30,), chunks=(5,), dtype="f8", fill_value=0.5
    )
    array[:15] = 1
    made.create_tag("v1", snapshot_id=session.commit("ones"))
    return made


def write(repository: Any, value: float, branch: str = "main") -> str:
    session = repository.writable_session(branch)
    zarr.open_array(session.store, path="deep/x")[...] = value
    return session.commit(f"all {value}")


def read(source: Any) -> float:
    source = open_source(source)
    into = np.empty(source.shape, source.dtype)
    source.read([slice(0, size, 1) for size in source.shape], into)
    return float(into.sum())


def test_all_workers_read_the_snapshot_that_was_planned(repository: Any, tmp_path: Path):
    source = open_source("repo/deep/x")
    sent = pickle.dumps(source)
    assert len(sent) < 4000
    write(repository, 2)
    assert read(pickle.loads(sent)) == read(source) == 22.5
    source.check_unchanged()
    assert read("repo/deep/x") == 60
    assert read(f"icechunk://{tmp_path}/repo/deep/x?tag=v1") == 22.5


def test_a_version_is_a_branch_a_tag_or_a_snapshot(repository: Any):
    first = repository.lookup_tag("v1")
    repository.create_branch("dev.next", snapshot_id=first)
    write(repository, 3, "dev.next")
    write(repository, 2)
    for version, total in (
        ("", 60), ("?branch=main", 60), ("?branch=dev.next", 90), ("?tag=v1", 22.5),
        (f"?snapshot={first}", 22.5),
    ):  # fmt: skip
        source = open_source(f"icechunk://repo/deep/x{version}")
        assert source.name == f"icechunk://repo/deep/x{version}"
        assert read(source) == total, version


def test_chunks_that_are_not_stored_are_listed(repository: Any):
    source = open_source("repo/deep/x")
    assert source.listing().sizes.tolist() == [1, 1, 1, 0, 0, 0]
    assert "3 of 6 chunks" in str(cf.plan(source))
    assert not source.remote
    assert source.local_path.endswith("/repo/deep/x")


def test_an_array_that_zarr_has_open_travels_as_its_snapshot(repository: Any):
    array = zarr.open_array(repository.readonly_session("main").store, path="deep/x")
    source = pickle.loads(pickle.dumps(open_source(array)))
    assert isinstance(source.array.store, Snapshot)
    assert source.array.store.snapshot in source.name
    assert " at 0x" not in source.name
    assert read(source) == 22.5


def test_what_is_not_committed_is_read_here(repository: Any):
    session = repository.writable_session("main")
    array = zarr.open_array(session.store, path="deep/x")
    array[...] = 7
    source = open_source(array)
    assert read(source) == 210
    assert not source.travels
    part = source.parted([[slice(0, 4, 1)]])
    assert isinstance(pickle.loads(pickle.dumps(part)), PartsSource)


@pytest.mark.parametrize(
    ("address", "error", "told"),
    [
        ("icechunk://repo/deep/x?tag=v9", cf.SourceError, r"repo, tag v9: cannot .*ref not found"),
        ("icechunk://repo/deep/x?branch=b", cf.SourceError, r"branch b: cannot be read by Ice"),
        ("icechunk://repo/deep/x?snapshot=1", cf.SourceError, "snapshot 1: cannot be read"),
        (
            "icechunk://repo/deep/x?version=1",
            cf.PlanError,
            r"'version=1' is not a version .*\?tag=",
        ),
        ("icechunk://nope/x", cf.SourceError, "no folder of its path is an Icechunk repository"),
        ("icechunk://ftp://host/x", cf.SourceError, "from a path, or s3, gs"),
        ("repo/deep", cf.SourceError, "is a Zarr group, not an array; its arrays: repo/deep/x"),
    ],
)
def test_what_cannot_be_opened_is_told_in_one_sentence(
    repository: Any, address: str, error: type[Exception], told: str
):
    assert repository
    with pytest.raises(error, match=told) as found:
        open_source(address)
    assert "\n" not in str(found.value)


def test_a_repository_that_lost_its_chunks_is_named(repository: Any):
    assert repository
    for path in Path("repo/manifests").iterdir():
        path.write_bytes(b"")
    with pytest.raises(cf.SourceError, match="repo/deep/x: ") as found:
        cf.reduce("repo/deep/x")
    assert "\n" not in str(found.value)


def test_looking_for_a_repository_makes_none(tmp_path: Path):
    assert repository_in(tmp_path / "nope" / "x") is None
    with pytest.raises(cf.SourceError):
        open_source(f"icechunk://{tmp_path}/nope/x")
    assert not list(tmp_path.iterdir())


def test_a_server_that_does_not_answer_is_told_in_time(monkeypatch):
    for name, value in (("ENDPOINT_URL", "http://127.0.0.1:9"), ("REGION", "x")):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    with (
        dask.config.set({"chunkfold.store.deadline": "1s"}),
        pytest.raises(cf.SourceError, match=r"s3://bucket/repo/x: (is not read after 1 s|cannot)"),
    ):
        open_source("icechunk://s3://bucket/repo/x")


def test_without_icechunk_the_extra_is_named(repository: Any, monkeypatch):
    assert repository
    from chunkfold.stores.icechunk_store import icechunk as package

    package.cache_clear()
    monkeypatch.setitem(sys.modules, "icechunk", None)
    with pytest.raises(cf.SourceError, match=r"pip install 'chunkfold\[icechunk\]'"):
        open_source("repo/deep/x")
    package.cache_clear()

"""Arrays behind a network: read in ranges, tried again, and never a wrong answer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import dask
import numpy as np
import pytest
import zarr
from obstore.store import LocalStore as LocalByObstore
from zarr.storage import ObjectStore

import chunkfold as cf
from chunkfold.planning import planner, workers
from chunkfold.stores import fetching, listing, servers
from tests.web import served

LAYOUTS = {
    "zstd": {"chunks": (4, 50)},
    "format 2": {"chunks": (4, 50), "zarr_format": 2},
    "uncompressed": {"chunks": (4, 50), "compressors": None},
    "shards": {"chunks": (2, 25), "shards": (4, 50)},
    "shards, uncompressed": {"chunks": (2, 25), "shards": (4, 50), "compressors": None},
    "by zarr": {"chunks": (4, 50), "zarr_format": 2, "order": "F"},
}
VALUES = np.random.default_rng(0).standard_normal((30, 100))


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small leaves; quick tries, for a short time."""
    monkeypatch.setattr(planner, "LEAF_BYTES", 4 * 50 * 8)
    monkeypatch.setattr(servers, "BACKOFF_S", (0.005, 0.02))
    with dask.config.set({"chunkfold.remote.retry": "3 s", "chunkfold.remote.stall": "500 ms"}):
        yield


def stored(folder: Path, layout: str = "zstd", **kwargs) -> None:
    made = zarr.create_array(
        str(folder), shape=VALUES.shape, dtype="f8", **LAYOUTS[layout], **kwargs
    )
    made[...] = VALUES


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("piece_bytes", [8 << 20, 100])
def test_what_the_web_serves_is_what_is_on_disk(
    tmp_path: Path, monkeypatch, layout: str, ranges: bool, piece_bytes: int
):
    monkeypatch.setattr(fetching, "PIECE_BYTES", piece_bytes)
    stored(tmp_path / "a.zarr", layout)
    cut = (slice(1, 29, 3), slice(10, 90))
    with served(tmp_path, ranges=ranges) as web:
        for given in ({}, {"axis": 0}, {"selection": cut}):
            got = cf.reduce(f"{web.url}/a.zarr", ["sum", "argmax"], **given)
            want = cf.reduce(tmp_path / "a.zarr", ["sum", "argmax"], **given)
            for name in want:
                np.testing.assert_array_equal(got[name], want[name])


def test_chunks_that_the_web_does_not_have_are_fill(tmp_path: Path):
    made = zarr.create_array(
        str(tmp_path / "a"), shape=(100,), chunks=(10,), dtype="i4", fill_value=3
    )
    made[20:30] = 5
    with served(tmp_path) as web:
        assert cf.reduce(f"{web.url}/a") == 9 * 10 * 3 + 50


def test_of_shards_only_index_and_what_is_asked_for_come(tmp_path: Path):
    stored(tmp_path / "a", "shards, uncompressed")
    with served(tmp_path) as web:
        cf.reduce(f"{web.url}/a", selection=(slice(0, 2), slice(0, 25)))
        chunks = [span for path, span in web.spans if "/c/" in path]
        assert chunks == ["bytes=-68", "bytes=0-399"]


def test_many_chunks_are_asked_for_at_the_same_time(tmp_path: Path):
    stored(tmp_path / "a")
    with served(tmp_path, delay_s=0.05) as web:
        run = cf.submit(f"{web.url}/a")
        run.result()
        assert run.plan.readers == workers.READERS[1]
        assert web.most_busy > 4


@pytest.mark.parametrize("layout", ["zstd", "shards", "by zarr"])
@pytest.mark.parametrize("failure", ["503", "cut", "hang"])
def test_what_fails_twice_is_tried_again(tmp_path: Path, layout: str, failure: str):
    stored(tmp_path / "a", layout)
    bad = "/a/c/0/0" if layout != "by zarr" else "/a/0.0"
    with served(tmp_path) as web:
        web.failing = lambda path, before: failure if path == bad and before < 2 else ""
        assert cf.reduce(f"{web.url}/a") == cf.reduce(tmp_path / "a")
        assert web.asked[bad] >= 3


@pytest.mark.parametrize("layout", ["zstd", "shards", "by zarr"])
@pytest.mark.parametrize("failure", ["503", "hang"])
def test_what_fails_for_good_is_named_in_time(tmp_path: Path, layout: str, failure: str):
    stored(tmp_path / "a", layout)
    bad = "/a/c/1/0" if layout != "by zarr" else "/a/1.0"
    with served(tmp_path) as web:
        web.failing = lambda path, _: failure if path == bad else ""
        began = time.monotonic()
        with pytest.raises(cf.ChunkError, match=rf"{web.url}/a: cannot read .*odec.*rror") as found:
            cf.reduce(f"{web.url}/a")
        assert time.monotonic() - began < 30
        assert "\n" not in str(found.value)
        if layout != "by zarr":
            assert f"{'shard' if layout == 'shards' else 'chunk'} 'c/1/0'" in str(found.value)


def test_a_server_that_is_not_there_is_an_error_in_time(tmp_path: Path):
    with served(tmp_path) as web:
        url = web.url
    began = time.monotonic()
    with pytest.raises(
        cf.UnreachableError, match=f"{url}/a: its server did not answer .*error sending request"
    ):
        cf.reduce(f"{url}/a")
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_without_credentials_it_is_said_how_to_give_some(scheme: str, monkeypatch):
    def refused(*_: object, **__: object) -> None:
        raise OSError("Error performing PUT http://169.254.169.254/latest/api/token: 403")

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(zarr, "open", refused)
    with pytest.raises(cf.SourceError, match=r"no credentials were found: set .*SKIP_SIGNATURE"):
        cf.reduce(f"{scheme}://bucket/a.zarr")


@pytest.mark.usefixtures("far_folders")
def test_a_listing_that_takes_too_long_is_done_without(tmp_path: Path, monkeypatch):
    store = ObjectStore(LocalByObstore(tmp_path))
    made = zarr.create_array(store, name="a", shape=(100,), chunks=(10,), dtype="i4", fill_value=3)
    made[:10] = 1
    assert (cf.plan(made).scan.unstored, cf.reduce(made)) == (0, 280)  # one leaf has all of it
    monkeypatch.setattr(planner, "LEAF_BYTES", 40)
    assert cf.plan(made).scan.unstored == 9
    monkeypatch.setattr(listing, "DEADLINE_S", -1.0)
    assert (cf.plan(made).scan.unstored, cf.reduce(made)) == (0, 280)


def test_a_group_that_cannot_be_listed_is_a_group(tmp_path: Path):
    zarr.open_group(str(tmp_path / "g.zarr"), mode="w")
    with served(tmp_path) as web, pytest.raises(cf.SourceError) as found:
        cf.reduce(f"{web.url}/g.zarr")
    assert "is a Zarr group, not an array; name one of its arrays" in str(found.value)
    assert "\n" not in str(found.value)


def test_no_message_tells_a_password(tmp_path: Path):
    stored(tmp_path / "a")
    with served(tmp_path) as web:
        secret = web.url.replace("//", "//me:hush@")
        run = cf.submit(f"{secret}/a")
        run.result()
        said = [str(run.plan), repr(run.plan.sources[0]), str(run.events)]
        web.failing = lambda path, _: "503" if "/c/" in path else ""
        for source in (f"{secret}/a", f"{secret}/nothing"):
            with pytest.raises(cf.SourceError) as found:
                cf.reduce(source)
            said.append(str(found.value))
    assert not any("hush" in text for text in said), said

"""Servers that lie or say little: what comes is as much as was said, and no more than may be."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import dask
import google_crc32c
import numpy as np
import pytest
import zarr
from numcodecs import Delta

import chunkfold as cf
from chunkfold.errors import ChangedError
from chunkfold.planning import memory, planner
from chunkfold.stores import fetching, servers
from chunkfold.stores.requests import Flight, flight
from tests.web import Sent, Web, served

pytestmark = pytest.mark.unoptimised
LAYOUTS = {
    "zstd": {"chunks": (4, 50)},
    "uncompressed": {"chunks": (4, 50), "compressors": None},
    "shards": {"chunks": (2, 25), "shards": (4, 50)},
    "shards, index first": {
        "chunks": (2, 25),
        "shards": {"shape": (4, 50), "index_location": "start"},
    },
    "by zarr": {"chunks": (4, 50), "zarr_format": 2, "filters": [Delta("<f8")]},
    "by zarr, shards": {
        "chunks": (2, 25),
        "shards": (4, 50),
        "filters": zarr.codecs.TransposeCodec(order=(1, 0)),
    },
}
VALUES = np.random.default_rng(0).standard_normal((30, 100))


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(servers, "BACKOFF_S", (0.005, 0.02))
    with dask.config.set({"chunkfold.remote.retry": "3 s", "chunkfold.remote.stall": "2 s"}):
        yield


def stored(folder: Path, layout: str) -> None:
    zarr.create_array(str(folder / "a"), shape=VALUES.shape, dtype="f8", **LAYOUTS[layout])[...] = (
        VALUES
    )


def of_a_chunk(path: str) -> bool:
    return path.rpartition("/")[2][0].isdigit()


FEW = 12
"""Requests for an object, where none is made again for as long as it fails."""


def most_asked(web: Web) -> int:
    return max(count for path, count in web.asked.items() if of_a_chunk(path))


@pytest.mark.parametrize("layout", ["shards", "shards, index first", "by zarr, shards"])
@pytest.mark.parametrize("change", [-68, -7, -1, 1, 500, "other range"])
def test_ranges_of_other_lengths_are_refused_at_once(
    tmp_path: Path, layout: str, change: int | str
):
    stored(tmp_path, layout)

    def lie(sent: Sent) -> None:
        if sent.asked and isinstance(change, int):
            sent.body = sent.body[:change] if change < 0 else sent.body + bytes(change)
            sent.headers["Content-Length"] = str(len(sent.body))
        elif sent.asked:
            size = sent.headers["Content-Range"].partition("/")[2]
            sent.headers["Content-Range"] = f"bytes 7-{6 + len(sent.body)}/{size}"

    with served(tmp_path, changing=lie) as web:
        with pytest.raises(cf.ChunkError, match=r"the server sent .* bytes of|Requested .* got"):
            cf.reduce(f"{web.url}/a")
        assert most_asked(web) < FEW
        web.changing = lambda _sent: None
        assert cf.reduce(f"{web.url}/a") == cf.reduce(tmp_path / "a")


async def nothing() -> None:
    """Take no time on the event loop."""


def test_what_runs_on_the_event_loop_never_waits_for_it():
    own, failed = Flight(), Future[BaseException | None]()

    async def waits() -> None:
        try:
            own.waited(nothing)
        except AssertionError as error:
            failed.set_result(error)

    own.start(1, waits).result(30)
    assert failed.done()
    assert own.waited(nothing) is None


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [10**15, 2**63 - 1, 2**40, 30 << 30])
def test_chunks_of_absurd_sizes_are_refused_before_they_come(
    tmp_path: Path, layout: str, size: int
):
    stored(tmp_path, layout)

    def lie(sent: Sent) -> None:
        if of_a_chunk(sent.path):
            sent.headers["Content-Length"] = str(size)

    with (
        served(tmp_path, changing=lie, ranges=False) as web,
        pytest.raises(cf.ChunkError, match=f"it has {size:,} bytes, more than [0-9,]+"),
    ):
        cf.reduce(f"{web.url}/a")


@pytest.mark.parametrize("layout", ["zstd", "uncompressed"])
def test_more_than_was_said_is_not_waited_for(tmp_path: Path, layout: str):
    stored(tmp_path, layout)

    def lie(sent: Sent) -> None:
        if of_a_chunk(sent.path):
            sent.body += bytes(1 << 20)
            sent.headers["Transfer-Encoding"] = "chunked"  # before which the length counts for none

    with (
        served(tmp_path, changing=lie) as web,
        pytest.raises(cf.ChunkError, match=r"the server sent [0-9,]+ or more bytes of [0-9,]+"),
    ):
        cf.reduce(f"{web.url}/a")
    assert most_asked(web) == 1


@pytest.mark.parametrize("layout", ["zstd", "uncompressed"])
def test_absurd_sizes_are_refused_where_chunks_come_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str
):
    monkeypatch.setattr(fetching, "PIECE_BYTES", 100)
    stored(tmp_path, layout)

    def lie(sent: Sent) -> None:
        if of_a_chunk(sent.path):
            begin = sent.headers["Content-Range"].partition("/")[0]
            sent.headers["Content-Range"] = f"{begin}/{2**62}"

    with (
        served(tmp_path, changing=lie) as web,
        pytest.raises(cf.ChunkError, match=f"it has {2**62:,} bytes, more than [0-9,]+"),
    ):
        cf.reduce(f"{web.url}/a")


def test_an_index_that_names_absurd_spans_asks_for_none_of_them(tmp_path: Path):
    stored(tmp_path, "shards")

    def lie(sent: Sent) -> None:
        if sent.asked:
            begin = sent.headers["Content-Range"].partition("/")[0]
            sent.headers["Content-Range"] = f"{begin}/{2**63}"

    file = next((tmp_path / "a/c/0").iterdir())
    index = np.frombuffer(file.read_bytes()[-68:-4], "<u8").copy()
    index[1] = 2**62
    head = file.read_bytes()[:-68]
    crc = google_crc32c.value(index.tobytes()).to_bytes(4, "little")
    file.write_bytes(head + index.tobytes() + crc)
    with (
        served(tmp_path, changing=lie) as web,
        pytest.raises(cf.ChunkError, match=rf"{2**62:,} bytes, more than|Requested .* got"),
    ):
        cf.reduce(f"{web.url}/a")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("how", ["in chunks", "until it closes", "in chunks, zipped"])
def test_answers_that_do_not_tell_their_length_are_read(
    tmp_path: Path, layout: str, ranges: bool, how: str
):
    stored(tmp_path, layout)

    def untold(sent: Sent) -> None:
        del sent.headers["Content-Length"]
        if how.startswith("in chunks"):
            sent.headers["Transfer-Encoding"] = "chunked"
        if how.endswith("zipped") and sent.code == 200:
            sent.headers["Content-Encoding"], sent.body = "gzip", gzip.compress(sent.body)

    with served(tmp_path, changing=untold, ranges=ranges) as web:
        assert cf.reduce(f"{web.url}/a") == cf.reduce(tmp_path / "a")
        assert most_asked(web) < FEW


def test_answers_without_a_length_are_bounded_too(tmp_path: Path):
    stored(tmp_path, "zstd")

    def endless(sent: Sent) -> None:
        if of_a_chunk(sent.path):
            del sent.headers["Content-Length"]
            sent.body = bytes(10 << 20)

    with (
        served(tmp_path, changing=endless) as web,
        pytest.raises(cf.ChunkError, match=r"bytes or more, more than [0-9,]+: it cannot be"),
    ):
        cf.reduce(f"{web.url}/a")


@pytest.mark.parametrize("bad", ["first", "last", "all", "every other one"])
@pytest.mark.parametrize("skips", [False, True])
def test_reads_that_fail_give_back_the_room_that_others_wait_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str, skips: bool
):
    """Of 500 chunks there is room for about 20 at a time, and readers ask for 64 ahead."""
    monkeypatch.setattr(memory, "FLIGHT_BYTES", 20 * 8000)
    monkeypatch.setattr(planner, "LEAF_BYTES", 64 * 8000)
    made = zarr.create_array(str(tmp_path / "a"), shape=(500_000,), chunks=(1000,), dtype="f8")
    made[...] = 1
    wrong = {
        "first": range(450), "last": range(50, 500), "all": range(500),
        "every other one": range(0, 500, 2),
    }[bad]  # fmt: skip

    def login(sent: Sent) -> None:
        if of_a_chunk(sent.path) and int(sent.path.rpartition("/")[2]) in wrong:
            sent.body = b"<html>log in first</html>"
            sent.headers["Content-Length"] = str(len(sent.body))

    ended = Future[object]()

    def run(url: str) -> None:
        try:
            ended.set_result(cf.reduce(url, on_bad_chunk="skip" if skips else "stop"))
        except BaseException as error:  # noqa: BLE001 # it is looked at below
            ended.set_result(error)

    with served(tmp_path, changing=login) as web:
        threading.Thread(target=run, args=(f"{web.url}/a",), daemon=True).start()
        found = ended.result(60)
        if skips:
            assert found == 1000 * (500 - len(wrong))
        else:
            assert isinstance(found, cf.ChunkError)
        given_back = time.monotonic() + 10  # by blocks that end while another one's error is told
        while flight()._held and time.monotonic() < given_back:
            flight().waited(nothing)  # what was given back is counted there
        assert flight()._held == 0


@pytest.mark.parametrize("layout", ["shards", "uncompressed"])
@pytest.mark.parametrize("change", ["ETag", "Last-Modified", "size", "gone"])
def test_an_object_that_changes_between_its_answers_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, change: str
):
    monkeypatch.setattr(fetching, "PIECE_BYTES", 300)
    stored(tmp_path, layout)
    name = "shard" if layout == "shards" else "chunk"
    lock, answered = threading.Lock(), set[str]()

    def rewritten(sent: Sent) -> None:
        with lock:
            later = sent.path in answered
            answered.add(sent.path)
        if not of_a_chunk(sent.path) or not sent.asked:
            return
        sent.headers["ETag"] = '"two"' if later and change == "ETag" else '"one"'
        if change != "ETag":
            del sent.headers["ETag"]
        if later and change == "Last-Modified":
            sent.headers["Last-Modified"] = "Fri, 02 Jan 1970 00:00:00 GMT"
        if later and change == "size":
            sent.headers["Content-Range"] += "0"
        if later and change == "gone":
            sent.code, sent.body, sent.headers = 404, b"", {"Content-Length": "0"}

    with served(tmp_path, changing=rewritten) as web:
        with pytest.raises(ChangedError, match=rf"{name} 'c/\d+/\d+' changed while it was read"):
            cf.reduce(f"{web.url}/a")
        answered.clear()
        web.changing = lambda sent: sent.headers.update(ETag='W/"one"')
        assert cf.reduce(f"{web.url}/a") == cf.reduce(tmp_path / "a")

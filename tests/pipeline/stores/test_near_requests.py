"""Threads ask near servers themselves: each object once, and what fails goes to the event loop."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.errors import ChangedError
from chunkfold.stores import near_requests
from chunkfold.stores.addresses import located
from chunkfold.stores.near_requests import NEAR_BYTES, NearServer
from tests.web import Sent, Web, served

pytestmark = pytest.mark.unoptimised
VALUES = np.random.default_rng(0).standard_normal((40, 100))
LATE_S = near_requests.TIMEOUT.total_seconds() + 0.3


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every server is near that answers within the time of a request."""
    monkeypatch.setattr(near_requests, "_LOOP_S", 10.0)


@pytest.fixture
def asked_now(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the bytes of each object that a thread asked for by itself."""
    own, found = NearServer.request, list[int]()

    def request(server: NearServer, nbytes: int, most: int):
        found.append(nbytes)
        return own(server, nbytes, most)

    monkeypatch.setattr(NearServer, "request", request)
    return found


def stored(folder: Path, **given: object) -> None:
    zarr.create_array(str(folder / "a"), data=VALUES, chunks=(4, 50), **given)


def chunks_asked(web: Web) -> list[int]:
    return [n for path, n in web.asked.items() if path.rpartition("/")[2].isdigit()]


@pytest.mark.parametrize("codecs", ["auto", None])
def test_each_chunk_is_asked_for_once_and_counted(
    tmp_path: Path, codecs: object, asked_now: list[int]
):
    stored(tmp_path, compressors=codecs)
    with served(tmp_path) as web:
        run = cf.submit(f"{web.url}/a", axis=0)
        assert np.array_equal(run.result(), cf.reduce(tmp_path / "a", axis=0))
        assert chunks_asked(web) == [1] * 20
    assert len(asked_now) == 20
    assert run.requests.made >= 20


@pytest.mark.parametrize("failure", ["503", "cut", "close"])
def test_what_a_thread_is_not_given_is_asked_for_again(tmp_path: Path, failure: str):
    stored(tmp_path)
    with served(tmp_path) as web:
        web.failing = lambda path, before: failure if path.endswith("/1") and not before else ""
        assert cf.reduce(f"{web.url}/a") == cf.reduce(tmp_path / "a")
        assert max(chunks_asked(web)) == 2


def test_a_late_answer_is_asked_for_again(tmp_path: Path):
    stored(tmp_path)
    with served(tmp_path) as web:

        def late(sent: Sent) -> None:
            if sent.path.endswith("c/3/1") and web.asked[sent.path] == 1:
                time.sleep(LATE_S)

        web.changing = late
        assert cf.reduce(f"{web.url}/a") == cf.reduce(tmp_path / "a")
        assert max(chunks_asked(web)) == 2


def test_a_far_server_is_asked_for_many_objects_at_once(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(near_requests, "_LOOP_S", 0.0)
    zarr.create_array(str(tmp_path / "a"), data=VALUES, chunks=(1, 10))
    with served(tmp_path, delay_s=0.1) as web:
        assert cf.reduce(f"{web.url}/a") == cf.reduce(tmp_path / "a")
        assert web.most_busy >= 60
        assert chunks_asked(web) == [1] * 400


@pytest.mark.parametrize("status", [404, 403])
def test_missing_chunks_are_asked_for_once(tmp_path: Path, status: int):
    stored(tmp_path, fill_value=7.0)
    for n in range(0, 10, 2):
        (tmp_path / "a" / "c" / str(n) / "1").unlink()
    options = {} if status == 404 else {"missing_status": [status]}
    with served(tmp_path, missing=(status, b"")) as web:
        with pytest.warns(cf.MissingWarning):
            assert cf.reduce(f"{web.url}/a", "max", storage_options=options) == 7.0
        assert chunks_asked(web) == [1] * 20


def test_an_answer_that_another_would_contradict_is_believed(tmp_path: Path):
    stored(tmp_path)

    def rewritten_once(sent: Sent) -> None:
        if sent.path.endswith("c/3/1") and web.asked[sent.path] == 1:
            sent.headers["Last-Modified"] = "Fri, 01 Jan 2100 00:00:00 GMT"

    with served(tmp_path, changing=rewritten_once) as web:
        with pytest.raises(ChangedError, match="after the run was planned"):
            cf.reduce(f"{web.url}/a")
        assert max(chunks_asked(web)) == 1


def test_a_timeout_that_users_give_holds(tmp_path: Path):
    stored(tmp_path)
    with served(tmp_path) as web:
        for options in ({}, {"client_options": {"TIMEOUT": "5s"}}):
            found, _ = located(f"{web.url}/a", options)
            assert (found.near is None) == bool(options)


def test_missing_chunks_are_fill_and_changed_ones_are_refused(tmp_path: Path):
    stored(tmp_path, fill_value=7.0)
    (tmp_path / "a" / "c" / "0" / "1").unlink()
    with served(tmp_path) as web:
        with pytest.warns(cf.MissingWarning):
            assert cf.reduce(f"{web.url}/a", "max") == 7.0

        def rewritten(sent: Sent) -> None:
            if sent.path.endswith("c/3/1"):
                sent.headers["Last-Modified"] = "Fri, 01 Jan 2100 00:00:00 GMT"

        web.changing = rewritten
        with pytest.raises(ChangedError, match="after the run was planned"):
            cf.reduce(f"{web.url}/a")


def test_no_more_requests_are_in_flight_than_allowed():
    server = NearServer()
    with server.request(1, most=1) as first, server.request(1, most=1) as second:
        assert (first, second) == (True, False)
    with server.request(1, most=1) as third:
        assert third
    assert (server.taken(), server.taken()) == (2, 0)


def test_a_slow_server_is_left_to_the_event_loop_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
):
    server = NearServer()
    assert server.is_asked(NEAR_BYTES)
    assert not server.is_asked(NEAR_BYTES + 1)
    with pytest.raises(OSError, match="reset"), server.request(1, most=1):
        raise OSError("reset")
    assert server.is_asked(1)  # it may take 10 s a core
    monkeypatch.setattr(near_requests, "_LOOP_S", 0.0)
    with pytest.raises(OSError, match="reset"), server.request(1, most=1):
        raise OSError("reset")
    server.begin()
    assert not server.is_asked(1)
    monkeypatch.setattr(near_requests, "_FAR_S", 0.0)
    server.begin()
    assert server.is_asked(1)

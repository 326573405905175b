"""A server that says when it wants to be asked again is not asked before."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import dask
import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.stores import requests, servers
from chunkfold.stores.retry_after import wait_of

pytestmark = pytest.mark.unoptimised
DATE = "Sun, 06 Nov 1994 08:49:30 GMT"
WAIT_S = 1


class Closing(ThreadingHTTPServer):
    """Serves a folder; once it was asked for some chunks it refuses them, and says how long."""

    daemon_threads = True
    request_queue_size = 256
    folder: Path
    answer = 503
    after: str | None = ""
    """What it says of when; empty: what `says` makes of the time."""
    redirect = ""
    behind = 3
    """Chunks that it gives away before."""

    def __init__(self, folder: Path, says: str = "seconds") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.says = folder, says
        self.lock = threading.Lock()
        self.asked, self.early, self.refused = 0, 0, 0
        self.told = self.opens = 0.0
        self.headers: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Closing

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if "/c/" in path and self._refused():
            return
        file = self.server.folder / path.lstrip("/").removeprefix("bucket/")
        found = file.read_bytes() if file.is_file() else None
        self._send(404 if found is None else 200, found or b"")

    def _refused(self) -> bool:
        server, now = self.server, time.time()
        with server.lock:
            server.asked += 1
            server.headers.append(dict(self.headers) | {"path": self.path})
            if server.asked <= server.behind or (server.opens and now >= server.opens):
                return False
            server.opens = server.opens or int(now) + 1 + WAIT_S
            server.refused += 1
            # What was on its way, as it was said first, could not know.
            server.early += bool(server.told) and now > server.told + 0.3
            after = server.after
            if after == "":
                left = server.opens - now
                date = formatdate(server.opens, usegmt=True)
                after = date if server.says == "date" else str(int(left) + 1)
                if "Python" in self.headers["User-Agent"] or "bytes=0-0" in str(
                    self.headers["Range"]
                ):
                    server.told = server.told or now
        self._send(server.answer, b"", {} if after is None else {"Retry-After": after})
        return True

    def _send(self, code: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Last-Modified", self.date_time_string(0))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def closing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Closing]:
    """A server of an array of forty chunks."""
    made = zarr.create_array(str(tmp_path / "a"), shape=(400,), chunks=(10,), dtype="i4")
    made[:] = np.arange(400)
    monkeypatch.setattr(servers, "BACKOFF_S", (0.005, 0.02))
    server = Closing(tmp_path)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(params=["http", "s3"])
def url(closing: Closing, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "http":
        return f"{closing.url.replace('//', '//me:hush@')}/a"
    for name, value in {
        "ENDPOINT_URL": closing.url, "ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "hush",
        "REGION": "us-east-1",
    }.items():  # fmt: skip
        monkeypatch.setenv(f"AWS_{name}", value)
    return "s3://bucket/a"


@pytest.mark.parametrize(("says", "answer"), [("seconds", 503), ("date", 429)])
def test_no_request_comes_before_a_server_wants_it(
    closing: Closing, url: str, says: str, answer: int
):
    closing.says, closing.answer = says, answer
    requests._kept.clear()  # with what other tests left
    run = cf.submit(url)
    assert run.result() == 400 * 399 // 2
    assert closing.told
    assert closing.early == 0
    assert run.requests.waits == 1
    assert 0 < run.requests.longest_wait_s <= WAIT_S + 2
    assert closing.asked - closing.refused == 40  # each chunk is given once
    assert run.requests.again <= closing.refused
    assert any("Retry-After" in said for said in run.remarks())
    # What was asked by another client had the same credentials, and needs no others.
    probe = next(sent for sent in closing.headers if sent.get("Range") == "bytes=0-0")
    signed = "X-Amz-Signature=" in probe["path"]
    assert signed or probe["Authorization"].startswith("Basic ")


@pytest.mark.parametrize("after", ["soon", "-5", "", "1.5", None, "Sun, 99 Nov 1994"])
def test_what_says_nothing_is_not_waited_for(closing: Closing, after: str | None):
    closing.after = after or None
    began = time.monotonic()
    run = cf.submit(f"{closing.url}/a")
    assert run.result() == 400 * 399 // 2
    assert run.requests.waits == 0
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("after", ["3600", "Fri, 31 Dec 2999 23:59:59 GMT", "9" * 400])
def test_a_wait_that_is_too_long_ends_at_once(closing: Closing, url: str, after: str):
    closing.after, closing.behind = after, 0
    began = time.monotonic()
    for terms in ({}, {"on_bad_chunk": "skip"}):
        closing.opens = 0.0
        with (
            dask.config.set({"chunkfold.remote.retry": "20 s"}),
            pytest.raises(cf.SourceError, match=r"a pause of .* s \(Retry-After\)") as got,
        ):
            cf.reduce(url, **terms)
        assert "again for 20 s" in str(got.value)
        assert "chunkfold.remote.retry" in str(got.value)
        assert "hush" not in str(got.value)
        requests._kept.clear()  # as another process would
    assert time.monotonic() - began < 10


def test_nobody_else_is_told_what_is_for_the_server(closing: Closing, tmp_path: Path):
    """A redirect is not followed: the credentials are not for whom it names."""
    heard: list[str] = []

    class Other(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            heard.append(str(self.headers["Authorization"]))
            self.send_error(503)

    other = ThreadingHTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=other.serve_forever, args=(0.05,), daemon=True).start()
    closing.answer = 503
    send = _Handler._send

    def elsewhere(self: _Handler, code: int, body: bytes, headers: dict | None = None) -> None:
        if code == 503 and self.headers["Range"] == "bytes=0-0":
            code, headers = 302, {"Location": f"http://127.0.0.1:{other.server_port}/x"}
        send(self, code, body, headers)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Handler, "_send", elsewhere)
        assert cf.reduce(f"{closing.url.replace('//', '//me:hush@')}/a") == 400 * 399 // 2
    other.shutdown()
    assert not heard


@pytest.mark.parametrize(
    ("given", "date", "seconds"),
    [
        ("120", None, 120), (" 7 ", None, 7), ("0", None, 0), ("-1", None, 0), ("+1", None, 0),
        ("1e3", None, 0), ("١٢", None, 0), ("later", None, 0), ("", None, 0), (None, None, 0),
        ("Sun, 06 Nov 1994 08:49:37 GMT", DATE, 7),
        ("Sunday, 06-Nov-94 08:49:37 GMT", DATE, 7),
        ("Sun Nov  6 08:49:37 1994", DATE, 7),
        ("Sun, 06 Nov 1994 08:49:20 GMT", DATE, 0),
        ("Sun, 06 Nov 1994 08:49:37 GMT", "garbage", 0),
        ("Sun, 06 Nov 1994 08:49:37 GMT", None, 0),
    ],
)  # fmt: skip
def test_waits_are_read_as_http_writes_them(given: str | None, date: str | None, seconds: float):
    assert wait_of(given, date) == seconds

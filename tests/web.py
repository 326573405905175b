"""A web server of a folder, on loopback, that fails as it is told and counts what it was asked."""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Failing = Callable[[str, int], str]
"""Of a path, and how often it was asked for before: "", "503", "cut", "close" or "hang"; or a
status and the code that S3 gives it, as "400 ExpiredToken"."""


@dataclass
class Sent:
    """An answer, before it is sent."""

    path: str
    asked: str
    """The range that was asked for; empty if all was."""
    code: int
    headers: dict[str, str]
    """With `Date`, if another is wanted. Empty ones are not sent. With `Transfer-Encoding` the body
    goes in chunks; without `Content-Length` it ends with the connection."""
    body: bytes


@dataclass
class Web:
    """What is served, how it fails, and what happened."""

    folder: Path
    failing: Failing = lambda _path, _before: ""
    ranges: bool = True
    heads: bool = True
    """Whether requests for states of files are answered."""
    missing: tuple[int, bytes] = (404, b"")
    """Status and body of the answer for what there is not."""
    encoding: str = ""
    encode: Callable[[bytes], bytes] = lambda body: body
    """How what is served is encoded on its way, and what it is called."""
    changing: Callable[[Sent], None] = lambda _sent: None
    """Changes answers of files before they are sent."""
    delay_s: float = 0.0
    asked: Counter[str] = field(default_factory=Counter)
    spans: list[tuple[str, str]] = field(default_factory=list)
    """Path and range of every request that had one."""
    nbytes: int = 0
    busy: int = 0
    most_busy: int = 0
    port: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def web(self) -> Web:
        return self.server.web

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        if self.web.heads:
            self.do_GET()
        else:
            self._send(405, b"")

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(self.web.failing(self.path, 0) or "405 MethodNotAllowed")

    def do_GET(self) -> None:
        with self.web.lock:
            before = self.web.asked[self.path]
            self.web.asked[self.path] += 1
            self.web.busy += 1
            self.web.most_busy = max(self.web.most_busy, self.web.busy)
            if self.headers.get("Range"):
                self.web.spans.append((self.path, self.headers["Range"]))
        try:
            time.sleep(self.web.delay_s)
            self._answer(self.web.failing(self.path, before))
        finally:
            with self.web.lock:
                self.web.busy -= 1

    def _answer(self, failure: str) -> None:
        if failure == "hang":
            time.sleep(5)
            self.close_connection = True
            return
        if failure == "close":
            self.close_connection = True
            return
        if failure == "503":
            self._send(503, b"")
            return
        if " " in failure:
            status, code = failure.split()
            said = f"<Error><Code>{code}</Code><Message>said by {code}</Message></Error>"
            self._send(int(status), f'<?xml version="1.0" encoding="UTF-8"?>\n{said}'.encode())
            return
        file = self.web.folder / self.path.lstrip("/")
        if not file.is_file():
            self._send(*self.web.missing)
            return
        body, code, headers = self.web.encode(file.read_bytes()), 200, {}
        if self.web.encoding:
            headers["Content-Encoding"] = self.web.encoding
        found = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        headers["Last-Modified"] = self.date_time_string(0)
        if found and self.web.ranges:
            first, last = found.groups()
            start = int(first) if first else max(0, len(body) - int(last))
            stop = min(len(body), int(last) + 1) if first and last else len(body)
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(body)}"
            body, code = body[start:stop], 206
        headers["Content-Length"] = str(len(body))
        asked = self.headers.get("Range", "")
        sent = Sent(self.path, asked, code, headers, body)
        self.web.changing(sent)
        self._send(sent.code, sent.body, cut=failure == "cut", headers=sent.headers)

    def _send(
        self, code: int, body: bytes, *, cut: bool = False, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response_only(code)
        headers = {"Content-Length": str(len(body))} if headers is None else headers
        headers = {"Date": self.date_time_string()} | headers
        for name, value in headers.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        chunked = "Transfer-Encoding" in headers
        if self.command != "HEAD":
            with self.web.lock:
                self.web.nbytes += len(body)
            if chunked:
                parts = [part for part in (body[:9], body[9:]) if part]
                body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in [*parts, b""])
            self.wfile.write(body[: len(body) // 2] if cut else body)
        unended = not chunked and "Content-Length" not in headers
        self.close_connection = self.close_connection or cut or unended


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    web: Web

    def handle_error(self, *asked: Any) -> None:
        """Say nothing where a client has gone: it may, at any time, and another test would hear."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(*asked)


@contextlib.contextmanager
def served(folder: Path, **kwargs) -> Iterator[Web]:
    """Serve a folder for a while."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.web = Web(folder, port=server.server_port, **kwargs)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield server.web
    finally:
        server.shutdown()
        server.server_close()

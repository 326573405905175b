"""A proxy before a real server, on loopback, that lets some requests fail: which, a seed says."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FAULTS = ("lost", "dropped", "late", "cut", "503", "429", "500")
"""The request, or its answer, is lost with the connection; or the answer is late, or ends early; or
the server refuses. Another is "short": half of an answer, as if that were all."""
LATE_S = 0.5
_OWN = {"connection", "transfer-encoding", "content-length", "keep-alive"}
"""Headers of a connection, which has two in its place."""


@dataclass
class Faulty:
    """A proxy, its faults, and what came of them."""

    behind: int
    """Port of the server."""
    seed: int
    share: float = 0.05
    kinds: Sequence[str] = FAULTS
    only: str = ""
    """A part of the line of requests that may fail, as "PUT /bucket"."""
    first: int = 0
    """Requests that fail in any case, before chance has a say."""
    port: int = 0
    made: Counter[str] = field(default_factory=Counter)
    """Requests by method, path and range."""
    faults: list[tuple[str, str]] = field(default_factory=list)
    """Each fault, and its request."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fault(self, request: str) -> str:
        """Say how a request fails; the order in which they come does not matter."""
        with self.lock:
            self.made[request] += 1
            rng = random.Random(f"{self.seed} {request} {self.made[request]}")
            passes = len(self.faults) >= self.first and rng.random() >= self.share
            if passes or self.only not in request:
                return ""
            self.faults.append((rng.choice(self.kinds), request))
            return self.faults[-1][0]

    def failed(self, request: str) -> int:
        """Count the faults after which some requests must be made again."""
        return sum(kind not in ("late", "short") and request in one for kind, one in self.faults)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def _pass_on(self) -> None:
        proxy: Faulty = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = proxy.fault(f"{self.command} {self.path} {self.headers.get('Range', '')}")
        if fault == "lost":
            self.close_connection = True
            return
        if fault.isdigit():
            self._answer(int(fault), {}, b"")
            return
        if fault == "late":
            time.sleep(LATE_S)
        code, headers, content = self._asked(proxy.behind, body)
        if fault == "dropped" or (fault == "cut" and not content):
            self.close_connection = True
            return
        if fault == "short":
            content = content[: len(content) // 2]
        self._answer(code, headers, content, cut=fault == "cut")

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on

    def _asked(self, port: int, body: bytes) -> tuple[int, dict[str, str], bytes]:
        with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=30)) as server:
            server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in _OWN - {"content-length"}:
                    server.putheader(name, value)
            server.endheaders(body)
            found = server.getresponse()
            content = found.read()
            sent = {
                name: value for name, value in found.headers.items() if name.lower() not in _OWN
            }
            if self.command == "HEAD":
                sent["Content-Length"] = found.headers.get("Content-Length", "0")
            return found.status, sent, content

    def _answer(
        self, code: int, headers: dict[str, str], content: bytes, *, cut: bool = False
    ) -> None:
        self.send_response_only(code)
        for name, value in ({"Content-Length": str(len(content))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if cut else content)
        self.close_connection = self.close_connection or cut


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    proxy: Faulty

    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that went away."""


@contextlib.contextmanager
def faulty(behind: int, seed: int, **given) -> Iterator[Faulty]:
    """Stand before a server for a while."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.proxy = Faulty(behind, seed, port=server.server_port, **given)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield server.proxy
    finally:
        server.shutdown()
        server.server_close()

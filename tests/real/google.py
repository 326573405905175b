"""A stand-in for Google's servers, under their own names: it wants tokens, and passes on to Ceph.

Clients come through a proxy and trust an authority of the test's own, as behind many a firewall.
"""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

from tests.processes import finished
from tests.real.servers import run

_STORAGE, _ACCOUNTS = "storage.googleapis.com", "accounts.google.com"
_USER = {"client_id": "an-id", "client_secret": "of-the-client", "refresh_token": "of-the-user"}
_TOKEN = "given-for-an-hour"


@dataclass
class Google:
    """Where its clients' files are, and how requests showed who they are from."""

    folder: Path
    behind: int
    """Port of the server that has the objects."""
    port: int = 0
    shown: Counter[str] = field(default_factory=Counter)

    def environment(self, kind: str) -> dict[str, str]:
        """Return the variables of a client: `kind` is what Google calls its type of credentials."""
        given = _USER
        if kind == "service_account":
            private = (self.folder / "account.key").read_text()
            given = {"client_email": "a@b", "private_key_id": "1", "private_key": private}
        file = self.folder / f"{kind}.json"
        file.write_text(json.dumps({"type": kind, **given}))
        return {
            "GOOGLE_APPLICATION_CREDENTIALS": str(file),
            "HTTPS_PROXY": f"http://127.0.0.1:{self.port}",
            "SSL_CERT_FILE": str(self.folder / "authority.pem"),
        }

    def who(self, authorization: str) -> str:
        """Return whose token a request bears: "user", "account", or nobody's, ""."""
        token = authorization.removeprefix("Bearer ")
        if token == _TOKEN:
            return "user"
        signed, _, signature = token.rpartition(".")
        where = self.folder
        (where / "signed").write_text(signed)
        (where / "signature").write_bytes(base64.urlsafe_b64decode(signature + "=="))
        words = ["dgst", "-sha256", "-verify", where / "account.pub"]
        words += ["-signature", where / "signature", where / "signed"]
        return "account" if finished(["openssl", *words], 60).returncode == 0 else ""


@contextlib.contextmanager
def google(folder: Path, behind: int) -> Iterator[Google]:
    """Make keys, and answer on loopback."""
    _make_keys(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    made = Google(folder, behind, server.server_port)
    server.google, server.context, server.lock = made, context, threading.Lock()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_CONNECT(self) -> None:
        """Be the server that a client wants to be connected to."""
        self.send_response(200)
        self.end_headers()
        self.connection = self.server.context.wrap_socket(self.connection, server_side=True)
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)
        self.close_connection = False

    def do_POST(self) -> None:
        """Give a token to who has refreshed his, as OAuth 2 does."""
        asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        right = {key: [value] for key, value in _USER.items()}
        right["grant_type"] = ["refresh_token"]
        if self.headers["Host"] != _ACCOUNTS or asked != right:
            self._send(403, b"")
            return
        token = {"access_token": _TOKEN, "expires_in": 3600, "token_type": "Bearer"}
        self._send(200, json.dumps(token).encode())

    def do_GET(self) -> None:
        """Pass a request on, if it bears a token."""
        google = self.server.google
        with self.server.lock:
            who = google.who(self.headers.get("Authorization", ""))
            google.shown[who] += 1
        if self.headers["Host"] != _STORAGE or not who:
            self._send(401, b"")
            return
        passed = {"Range": self.headers["Range"]} if self.headers["Range"] else {}
        request = urllib.request.Request(
            f"http://127.0.0.1:{google.behind}{self.path}", headers=passed, method=self.command
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=60) as answer:
                self._send(answer.status, answer.read(), answer.headers)
        except urllib.error.HTTPError as error:
            self._send(error.code, error.read())

    do_HEAD = do_GET

    def _send(self, status: int, body: bytes, told: object = None) -> None:
        self.send_response(status)
        for name in ("Content-Range", "Content-Type", "ETag", "Last-Modified"):
            if told is not None and told[name]:
                self.send_header(name, told[name])
        length = told["Content-Length"] if self.command == "HEAD" and told else len(body)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _make_keys(folder: Path) -> None:
    """Make an authority, a server's certificate under Google's names, and an account's keys."""

    def made(name: str, said: str, *words: object) -> None:
        files = ["-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem"]
        new = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"]
        run(["openssl", *new, "-addext", f"basicConstraints=critical,CA:{said}", *words, *files])

    made("authority", "TRUE")
    by = ["-CA", folder / "authority.pem", "-CAkey", folder / "authority.key"]
    made("server", "FALSE", "-addext", f"subjectAltName=DNS:{_STORAGE},DNS:{_ACCOUNTS}", *by)
    run(["openssl", "genrsa", "-out", folder / "account.key", "2048"])
    words = ["-in", folder / "account.key", "-pubout", "-out", folder / "account.pub"]
    run(["openssl", "rsa", *words])

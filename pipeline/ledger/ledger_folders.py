"""Places of ledgers: a local folder, or a prefix of an object store. Files are written once."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from chunkfold.errors import LedgerError
from chunkfold.kernels.cache.entries import TEMPORARY, TO_READ, put_whole
from chunkfold.kernels.cache.trusted import UntrustedError, is_private, owner_of, private_folder
from chunkfold.redaction import shown_address
from chunkfold.stores.addresses import array_around, zarr_node
from chunkfold.stores.listing import listed
from chunkfold.stores.obstore_clients import LISTED, open_store
from chunkfold.stores.remote import message_of, said_shortly

SUFFIX = ".safetensors"
ABANDONED_S = 3600.0
"""Age of a temporary file from which on its writer is taken to be dead, in seconds."""
_URL = re.compile(r"(\w+)://")


class Folder(Protocol):
    """A place of files that have names, are written whole, and are never changed."""

    name: str
    """The name that messages use, without secrets."""

    def names(self) -> dict[str, int]:
        """Return the names of all segments, and their bytes."""

    def read(self, name: str, start: int, size: int) -> bytes:
        """Return a span of a file, or what there is of it.

        Raises
        ------
        OSError
            If it cannot be read.
        """

    def write(self, name: str, content: bytes) -> None:
        """Write a file, which readers see whole or not at all.

        Raises
        ------
        OSError
            If it cannot be written.
        """

    def remove(self, name: str) -> None:
        """Remove a file; one that is gone is no error."""

    def abandoned(self) -> list[str]:
        """Return the names of files whose writers were killed before they were whole."""


class LocalFolder:
    """A folder of this host that nobody else may write to, unless it is trusted.

    The first file that is written makes it.
    """

    def __init__(self, path: Path, *, trusted: bool, create: bool) -> None:
        self.name, self._trusted = str(path), trusted
        try:
            there, folder = path.exists(), path.is_dir()
            if there and not folder:
                raise LedgerError(f"{path} is a file, and a ledger is a folder: name another place")
            if not create and not folder:
                raise LedgerError(f"{path} is not a ledger: the folder does not exist")
            self._path = self._usable(path, make=False)
        except UntrustedError as error:
            raise LedgerError(
                f"the ledger {path} is not trusted, since {error}; its partials would become "
                "results: use another folder, or give trust_ledger=True"
            ) from None
        except OSError as error:
            reason = error.strerror or error
            raise LedgerError(f"the ledger {path} cannot be used: {reason}") from error

    def _usable(self, path: Path, *, make: bool) -> Path:
        if not self._trusted:
            return private_folder(path, make=make)
        if make:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = path.resolve()
        there = next(one for one in (path, *path.parents) if one.exists())
        if not os.access(there, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, f"{there} is not this user's to write")
        return path

    def names(self) -> dict[str, int]:
        """Return the names of all segments, and their bytes; none before it is made."""
        return {name: found.st_size for name, found in self._files() if name.endswith(SUFFIX)}

    def _files(self) -> Iterator[tuple[str, os.stat_result]]:
        try:
            entries = os.scandir(self._path)
        except FileNotFoundError:
            return
        with entries:
            for entry in entries:
                try:
                    found = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if not stat.S_ISDIR(found.st_mode):
                    yield entry.name, found

    def abandoned(self) -> list[str]:
        """Return the names of temporary files that nobody can still be writing."""
        before = time.time() - ABANDONED_S
        old = (name for name, found in self._files() if found.st_mtime < before)
        return [name for name in old if name.startswith(TEMPORARY)]

    def read(self, name: str, start: int, size: int) -> bytes:
        """Return a span of a file of this user's; of anybody's if the folder is trusted."""
        descriptor = os.open(self._path / name, TO_READ)
        with os.fdopen(descriptor, "rb") as file:
            state = os.fstat(descriptor)
            if not stat.S_ISREG(state.st_mode):
                raise OSError(errno.EINVAL, "it is no file")
            if not (self._trusted or is_private(state)):
                raise OSError(errno.EPERM, f"it is {owner_of(state)}'s, or others may write to it")
            file.seek(start)
            return file.read(size)

    def write(self, name: str, content: bytes) -> None:
        """Write a file that outlives the host."""
        try:
            self._path = self._usable(self._path, make=True)
        except UntrustedError as error:
            raise OSError(errno.EPERM, f"it is not trusted, since {error}") from None
        put_whole(self._path / name, content, synced=True)

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self._path / name).unlink(missing_ok=True)


class StoreFolder:
    """A prefix of an object store; whoever may write there is trusted."""

    def __init__(self, url: str) -> None:
        self.name = shown_address(url)
        try:
            self._store = open_store(url)
        except ImportError as error:
            raise LedgerError(
                f"the ledger {self.name} needs another package ({error}): "
                "pip install 'chunkfold[remote]'"
            ) from error
        except Exception as error:  # noqa: BLE001 # obstore has dozens
            raise LedgerError(f"the ledger {self.name}: {message_of(error)}") from None

    def names(self) -> dict[str, int]:
        """Return the names of all segments, and their bytes."""
        with said_shortly():
            return {key: size for key, size, _ in listed(self._store, "") if key.endswith(SUFFIX)}

    def read(self, name: str, start: int, size: int) -> bytes:
        """Return a span of an object."""
        import obstore

        if not size:
            return b""
        with said_shortly():
            content = bytes(obstore.get_range(self._store, name, start=start, length=size))
        if len(content) < size:  # objects are whole: their listing says so
            raise OSError(f"{len(content):,} of {size:,} bytes came")
        return content

    def write(self, name: str, content: bytes) -> None:
        """Put an object."""
        import obstore

        with said_shortly():
            obstore.put(self._store, name, content)

    def remove(self, name: str) -> None:
        """Delete an object."""
        import obstore

        with contextlib.suppress(FileNotFoundError), said_shortly():
            obstore.delete(self._store, name)

    def abandoned(self) -> list[str]:
        """Return no names: a store has whole objects alone."""
        return []


def _refuse_zarr(folder: Path) -> None:
    """Refuse a Zarr array or group, and what is in an array."""
    around = array_around(folder)
    if zarr_node(folder) is not None or around is not None:
        what = "a Zarr" if around is None else f"in the Zarr array {around}"
        raise LedgerError(f"the ledger {folder} is {what}: give a separate folder")


def folder_at(place: str, *, trusted: bool, create: bool) -> Folder:
    """Return the folder of a path or a URL.

    Parameters
    ----------
    trusted
        True if others may write to a local folder.
    create
        True if a folder that does not exist is one that the first file makes.

    Raises
    ------
    LedgerError
        If it can be no ledger.
    """
    url = _URL.match(place)
    if not place:
        raise LedgerError("the ledger is '': give the path of a folder, or a URL")
    if url is None or url[1].lower() == "file":
        path = place if url is None else unquote(urlsplit(place).path)
        if url is not None and urlsplit(place).netloc not in ("", "localhost"):
            raise LedgerError(f"the ledger {place} is on another host: give a path, as file:///l")
        try:
            local = Path(path).expanduser() if url is None else Path(path)
        except RuntimeError as error:
            raise LedgerError(
                f"the ledger {place} names the folder of an unknown user: {error}"
            ) from None
        if create:
            _refuse_zarr(local)
        return LocalFolder(local, trusted=trusted, create=create)
    if url[1].lower() not in LISTED:
        raise LedgerError(
            f"the ledger {shown_address(place)} has the scheme {url[1]}, which cannot be written: "
            f"name a folder, or a URL of {', '.join(LISTED)}"
        )
    return StoreFolder(place)

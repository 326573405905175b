"""Folders in which a driver keeps what it compiled, sealed: PoCL loads what it finds, as code.

A seal is an entry beside the folder with the SHA-256 of each file. Whoever holds the slot breaks it
when it begins: what is not as it was sealed goes, and PoCL compiles it again. What was compiled and
not sealed, since the process was killed, goes too: nobody could tell whether it is whole.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from chunkfold.kernels.cache.entries import drop, read_entry, write_entry
from chunkfold.kernels.cache.trusted import is_private

_UNSEALED = ("last_accessed", "tempfile_")
"""How files begin that PoCL does not read: written at each use, or left behind."""


class SealedFolder:
    """A folder of this process, open for a driver from now on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seal = folder.parent / f"{folder.name}.seal"
        self._process = os.getpid()
        self._sealed = _parsed(read_entry(self._seal))
        self._sums = self._left()
        atexit.register(self.seal)

    def seal(self) -> None:
        """Seal what is there by now; only what is new or was written since is read."""
        if os.getpid() != self._process:
            return
        sums, whole = dict[str, _Sum](), f"{self._folder}/"
        for path in self._files():
            if path.rpartition("/")[2].startswith(_UNSEALED):
                continue
            with suppress(OSError):
                before = self._sums.get(path)
                if before is None or before.when != os.lstat(path).st_mtime_ns:
                    before = _sum(path)
                sums[path] = before
        self._sums = sums
        sealed = {path.removeprefix(whole): one.text for path, one in sums.items()}
        if sealed != self._sealed:
            write_entry(self._seal, json.dumps(sealed).encode())
            self._sealed = sealed

    def _left(self) -> dict[str, _Sum]:
        """Remove what is not as it was sealed; return the sums of what is."""
        sums = {}
        for name, text in self._sealed.items():
            path = f"{self._folder}/{name}"
            found = _whole(path, text)
            if found is not None:
                sums[path] = found
            elif os.path.lexists(path):
                drop(self._folder / Path(name).parts[0], "is damaged")
        for path in set(self._files()) - sums.keys():
            with suppress(OSError):
                Path(path).unlink()
        for place, *_ in os.walk(self._folder, topdown=False):
            with suppress(OSError):  # something is in it
                Path(place).rmdir()
        self._folder.mkdir(mode=0o700, exist_ok=True)
        return sums

    def _files(self) -> Iterator[str]:
        """Yield files, and what is neither file nor folder: there may be ten thousand."""
        left = [str(self._folder)]
        while left:
            with suppress(OSError), os.scandir(left.pop()) as found:
                for one in found:
                    if one.is_dir(follow_symlinks=False):
                        left.append(one.path)
                    else:
                        yield one.path


@dataclass(frozen=True)
class _Sum:
    text: str
    """Bytes and SHA-256."""
    when: int
    """When it was written, in nanoseconds."""


def _parsed(content: bytes | None) -> dict[str, str]:
    return {} if content is None else json.loads(content)


def _whole(path: str, sealed: str) -> _Sum | None:
    """Return the sum of a file if it is what was sealed."""
    try:
        found = os.lstat(path)
        # The length first: a file may have grown so large that reading it would take hours.
        if not is_private(found) or not sealed.startswith(f"{found.st_size} "):
            return None
        made = _sum(path)
    except OSError:
        return None
    return made if made.text == sealed else None


def _sum(path: str) -> _Sum:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return _Sum(f"{found.st_size} {digest}", found.st_mtime_ns)

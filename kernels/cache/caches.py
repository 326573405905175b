"""Cache folders of this process: a slot for each process that compiles, sealed between uses.

Drivers' own compile caches have raced where processes shared them (PoCL's), and caches named by
process would start cold each time. So a process claims the lowest free slot, and keeps what drivers
keep there; a restart finds a warm one. A child of the process uses its parent's.

PoCL loads the files that it finds as code. So a seal, an entry next to the folder, has the SHA-256
of each file. The process that claims the slot checks it: files that differ from it, or are not in
it, are removed, and PoCL compiles them again.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pyopencl as cl

from chunkfold.kernels.cache.entries import (
    drop,
    open_problem,
    read_entry,
    say_unkept,
    write_entry,
)
from chunkfold.kernels.cache.folders import (
    cache_folder,
    check_room,
    folder_in,
    temporary_folder,
)
from chunkfold.kernels.cache.trusted import is_private

_VARIABLE = "CHUNKFOLD_SLOT"
_MOST = 4096
_TO_LOCK = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_held: list[int] = []
"""Descriptors of locks: the kernel releases them when the process ends, however it ends."""


@cache
def slot_folder() -> Path:
    """Return this process's cache folder; one that goes with it if there is no room for another."""
    parents = _parents_slot()
    if parents is not None:
        return parents
    slots = cache_folder("slots")
    try:
        slot = _claimed(slots)
        check_room(slot)
    except OSError as error:
        say_unkept(slots, error)
        return folder_in(temporary_folder(), "slots", f"process-{os.getpid()}")
    return slot


def _parents_slot() -> Path | None:
    """Return the slot of the process that started this one, if that is to be used."""
    owner, _, folder = os.environ.get(_VARIABLE, "").partition(":")
    return Path(folder) if folder and owner == str(os.getppid()) else None


def _claimed(slots: Path) -> Path:
    """Lock the lowest free slot; return its folder.

    Raises
    ------
    OSError
        If none can be locked.
    """
    for candidate in range(_MOST):
        descriptor = _opened(slots / f"{candidate}.lock")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        except OSError:  # as of some network file systems
            os.close(descriptor)
            break
        _held.append(descriptor)
        return folder_in(slots, str(candidate))
    raise OSError("no slot there can be locked")


def _opened(path: Path) -> int:
    """Open a file to lock; what else is in its place goes."""
    try:
        descriptor = os.open(path, _TO_LOCK, 0o600)
    except OSError as error:
        drop(path, open_problem(error))
        return os.open(path, _TO_LOCK, 0o600)
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and is_private(found):
        return descriptor
    os.close(descriptor)
    drop(path, "is not a lock of this user")
    return os.open(path, _TO_LOCK, 0o600)


def cache_in_slot(name: str) -> Path:
    """Return a folder of this process's slot, made if need be."""
    return folder_in(slot_folder(), name)


@cache
def _sealed(name: str) -> SealedFolder | None:
    """Remove from a folder of this process's slot what it did not seal; a child's parent has."""
    folder = cache_in_slot(name)
    return SealedFolder(folder) if _parents_slot() is None else None


def sealed_in_slot(name: str) -> Path:
    """Return a folder of this process's slot for a driver that keeps there what it compiles."""
    _sealed(name)
    return cache_in_slot(name)


def seal(name: str) -> None:
    """Seal what a driver has compiled by now, for the next process."""
    sealed = _sealed(name)
    if sealed is not None:
        sealed.seal()


def why_no_room() -> str:
    """Say why compilers cannot write to this process's slot; nothing if they can."""
    try:
        check_room(slot_folder())
    except OSError as error:
        return f"{slot_folder()} cannot be written ({error.strerror})"
    return ""


@cache
def keep_launchers_in_memory() -> None:
    """Make pyopencl keep the code for launches in memory, and make it in each process.

    By itself it unpickles what it finds in the user's cache, and fails where it cannot write there.
    """
    before = cl._PYOPENCL_NO_CACHE
    cl._PYOPENCL_NO_CACHE = True  # while it is imported: it would open its files
    try:
        invoker: Any = import_module("pyopencl.invoker")
    finally:
        cl._PYOPENCL_NO_CACHE = before
    invoker.invoker_cache = _Launchers()


class _Launchers(dict[Hashable, Any]):
    """Pyopencl's cache of launchers, in memory."""

    def store_if_not_present(self, key: Hashable, value: Any) -> None:
        self.setdefault(key, value)


def child_environment() -> dict[str, str]:
    """Return what a child of this process needs to use this process's slot."""
    return {_VARIABLE: f"{os.getpid()}:{slot_folder()}"}


_UNSEALED = ("last_accessed", "tempfile_")
"""Prefixes of files that PoCL does not read: written at each use, or left behind."""


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

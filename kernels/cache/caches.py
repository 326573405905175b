"""A number of its own for each process of this user that compiles kernels.

Drivers' own compile caches have raced where processes shared them (PoCL's), and caches named by
process would start cold each time. So a process claims the lowest free slot, and keeps what drivers
keep there; a restart finds a warm one. A child of the process uses its parent's.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Hashable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pyopencl as cl

from chunkfold.kernels.cache.entries import drop, why_not
from chunkfold.kernels.cache.folders import cache_folder, check_room, folder_in, temporary_folder
from chunkfold.kernels.cache.said_once import say_unkept
from chunkfold.kernels.cache.sealed import SealedFolder
from chunkfold.kernels.cache.trusted import is_private

_VARIABLE = "CHUNKFOLD_SLOT"
_MOST = 4096
_TO_LOCK = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_held: list[int] = []
"""Descriptors of held locks: the kernel drops them when the process ends, however it ends."""


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
        drop(path, why_not(error))
        return os.open(path, _TO_LOCK, 0o600)
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and is_private(found):
        return descriptor
    os.close(descriptor)
    drop(path, "is no lock of this user's")
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
    """Let pyopencl make the code for launches anew in each process.

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
    """What pyopencl's own cache does, in memory."""

    def store_if_not_present(self, key: Hashable, value: Any) -> None:
        self.setdefault(key, value)


def child_environment() -> dict[str, str]:
    """Return what a child of this process needs to use this process's slot."""
    return {_VARIABLE: f"{os.getpid()}:{slot_folder()}"}

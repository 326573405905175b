"""A number of its own for each process of this user that compiles kernels.

Compile caches shared by processes have raced (PoCL), and caches named by process would start cold
each time. So a process claims the lowest free slot, and keeps its caches there; a restart finds a
warm one. A child of the process uses its parent's.
"""

from __future__ import annotations

import fcntl
import os
from functools import cache
from importlib import import_module
from pathlib import Path

from chunkfold.kernels.folders import cache_folder

_VARIABLE = "CHUNKFOLD_SLOT"
_CACHE_HOME = "XDG_CACHE_HOME"
_MOST = 4096
_held: list[int] = []
"""Descriptors of held locks: the kernel drops them when the process ends, however it ends."""


@cache
def slot_folder() -> Path:
    """Return this process's cache folder."""
    inherited = os.environ.get(_VARIABLE, "")
    owner, _, number = inherited.partition(":")
    if number and owner == str(os.getppid()):
        return cache_folder("slots", number)
    locks = cache_folder("slots")
    for candidate in range(_MOST):
        descriptor = os.open(locks / f"{candidate}.lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            continue
        _held.append(descriptor)
        return cache_folder("slots", str(candidate))
    return cache_folder("slots", f"process-{os.getpid()}")


def cache_in_slot(name: str) -> Path:
    """Return a folder of this process's slot, made if need be."""
    folder = slot_folder() / name
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@cache
def keep_launchers_in_slot() -> None:
    """Let pyopencl keep the code that it makes for launches in this process's slot.

    By itself it takes the home, and fails where that cannot be written, as in many containers.
    """
    before = os.environ.get(_CACHE_HOME)
    os.environ[_CACHE_HOME] = str(cache_in_slot("launchers"))
    try:
        import_module("pyopencl.invoker")
    finally:
        del os.environ[_CACHE_HOME]
        if before is not None:
            os.environ[_CACHE_HOME] = before


def child_environment() -> dict[str, str]:
    """Return what a child of this process needs to use this process's slot."""
    return {_VARIABLE: f"{os.getpid()}:{slot_folder().name}"}

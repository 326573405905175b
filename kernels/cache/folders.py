"""Folders of the cache, which holds compiled kernels, verdicts, and a sample."""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

import platformdirs

from chunkfold.kernels.cache.entries import drop, is_full, say_once, say_unkept
from chunkfold.kernels.cache.trusted import UntrustedError, is_private, owner_of, private_folder

_PLACE = "CHUNKFOLD_CACHE"
_ROOM = 16 << 20
"""Bytes that a cache must have left to be used: compilers write there, and some fail if they
cannot."""


def cache_folder(*parts: str) -> Path:
    """Return a private folder below the cache, made if need be.

    CHUNKFOLD_CACHE overrides the place. Where the home cannot be written, a folder of this
    process's user in the temporary directory serves. Where others could change what lies there,
    one of this process does, and that is said once.
    """
    given = os.environ.get(_PLACE)
    place = Path(given) if given else Path(platformdirs.user_cache_dir("chunkfold"))
    for base in (place, Path(tempfile.gettempdir()) / f"chunkfold-{os.getuid()}"):
        try:
            return folder_in(private_folder(base), *parts)
        except UntrustedError as untrusted:
            say_once(
                "untrusted",
                f"the cache in {base} is not used, because {untrusted}: compiled kernels are kept "
                "for this process only; set CHUNKFOLD_CACHE to a folder that only you can "
                "change, as well as all folders above it",
            )
            break
        except OSError as error:
            if is_full(error):
                say_unkept(base, error)
    return folder_in(temporary_folder(), *parts)


def folder_in(base: Path, *parts: str) -> Path:
    """Return a folder below a private one, made if missing; others' folders and files are removed.

    Raises
    ------
    OSError
        If it cannot be made.
    """
    for part in parts:
        base /= part
        with suppress(FileExistsError):
            base.mkdir(mode=0o700)
        found = base.lstat()
        if not stat.S_ISDIR(found.st_mode):
            drop(base, f"is {'a link' if stat.S_ISLNK(found.st_mode) else 'no folder'}")
        elif not is_private(found):
            mode = stat.S_IMODE(found.st_mode)
            drop(base, f"may have been changed by others ({owner_of(found)}'s, mode {mode:04o})")
        else:
            continue
        with suppress(FileExistsError):
            base.mkdir(mode=0o700)
        found = base.lstat()
        if not (stat.S_ISDIR(found.st_mode) and is_private(found)):
            raise PermissionError(f"{base} cannot be replaced")
    return base


@cache
def temporary_folder() -> Path:
    """Return a folder of this process and those that it starts; it goes when this process ends."""
    try:
        made = tempfile.mkdtemp(prefix="chunkfold-")
    except OSError:  # where all disks are full, memory may not be
        made = tempfile.mkdtemp(prefix="chunkfold-", dir="/dev/shm")
    atexit.register(_remove, made, os.getpid())
    os.environ[_PLACE] = made
    return Path(made)


def _remove(folder: str, owner: int) -> None:
    """Remove a folder, unless this is a fork of the process that made it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def check_room(folder: Path) -> None:
    """Find out whether a folder has room for what compilers leave in it.

    Raises
    ------
    OSError
        If not.
    """
    with tempfile.TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, _ROOM)
        else:
            file.write(bytes(_ROOM))
            file.flush()

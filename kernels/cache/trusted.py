"""Checks that nobody else can change a folder: the owner and mode of its whole path.

Compiled programs are loaded as code. So a cache is used only if nobody but this user and root can
write to it or replace it, as OpenSSH requires of its files (StrictModes). Folders above it may have
the sticky bit, as /tmp has: only owners remove and rename there.
"""

from __future__ import annotations

import os
import pwd
import stat
from contextlib import suppress
from functools import cache
from pathlib import Path

_MOST_LINKS = 40
"""Links that Linux follows in one path."""
_TO_WALK = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class UntrustedError(Exception):
    """Somebody else could put things into a folder; says which part of its path is whose."""


def private_folder(path: Path, *, make: bool = True) -> Path:
    """Return a folder that only this user and root can change, made if need be (mode 0700).

    The path returned has no links. Links in the path given are followed if they are this user's or
    root's. Without `make` it is only seen that it could be made.

    Raises
    ------
    UntrustedError
        If others can change it, or a part of its path.
    OSError
        If it cannot be made, or written.
    """
    ahead = list(reversed((Path.cwd() / path).parts[1:]))
    walked, links = ["/"], 0
    here = os.open("/", _TO_WALK)
    try:
        _check(os.fstat(here), Path("/"))
        while ahead:
            name = ahead.pop()
            there = Path(*walked, name)
            target = _link(name, here, there)
            if target is not None:
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(f"{path} has too many links in it")
                ahead += reversed(Path(target).parts)
                continue
            # The root of a link's target, and what is above a folder, have names of their own.
            walked = _names(walked, name)
            if not make and _missing(name, here, there.parent):
                return Path(*walked, *reversed(ahead))
            here = _entered(name, here, Path(*walked))
        _check_last(os.fstat(here), Path(*walked))
    finally:
        os.close(here)
    return Path(*walked)


def _names(walked: list[str], name: str) -> list[str]:
    if name == "/":
        return ["/"]
    return (walked[:-1] or ["/"]) if name == ".." else [*walked, name]


def _link(name: str, here: int, there: Path) -> str | None:
    """Return where a name of a folder points, if it is a link."""
    with suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=here, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            if found.st_uid not in _trusted():
                raise UntrustedError(f"the link {there} belongs to {owner_of(found)}")
            return os.readlink(name, dir_fd=here)
    return None


def _missing(name: str, here: int, folder: Path) -> bool:
    """Return True if a folder has no such name, and this user may make it."""
    try:
        os.stat(name, dir_fd=here, follow_symlinks=False)
    except FileNotFoundError:
        if os.access(folder, os.W_OK | os.X_OK):
            return True
        raise PermissionError(f"{folder} is not this user's to write") from None
    return False


def _entered(name: str, here: int, there: Path) -> int:
    """Open a folder in a folder, made if need be; close that, unless it is refused."""
    try:
        below = os.open(name, _TO_WALK, dir_fd=here)
    except FileNotFoundError:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=here)
        below = os.open(name, _TO_WALK, dir_fd=here)
    try:
        _check(os.fstat(below), there)
    except BaseException:
        os.close(below)
        raise
    os.close(here)
    return below


def _check(found: os.stat_result, path: Path) -> None:
    """Refuse a folder in which others could put another one in the place of what is below."""
    if found.st_uid not in _trusted():
        raise UntrustedError(f"{path} belongs to {owner_of(found)}")
    if found.st_mode & _OTHERS and not found.st_mode & stat.S_ISVTX:
        raise UntrustedError(_writable(found, path))


def _check_last(found: os.stat_result, path: Path) -> None:
    if found.st_mode & _OTHERS:
        raise UntrustedError(_writable(found, path))
    if found.st_uid != os.geteuid() or not os.access(path, os.W_OK | os.X_OK):
        raise PermissionError(f"{path} is not this user's to write")


def _writable(found: os.stat_result, path: Path) -> str:
    mode = stat.S_IMODE(found.st_mode)
    return f"others may write to {path} ({owner_of(found)}'s, mode {mode:04o}: chmod go-w)"


def _trusted() -> frozenset[int]:
    return _roots() | {os.geteuid()}


@cache
def _roots() -> frozenset[int]:
    """Return the numbers that root has here.

    In a user namespace without a root, as Apptainer makes one, the host's root is shown by the
    number of those who have none there.
    """
    try:
        maps = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
        if all(int(first) for first, *_ in maps):
            return frozenset({int(Path("/proc/sys/kernel/overflowuid").read_text())})
    except (OSError, ValueError):  # not Linux
        pass
    return frozenset({0})


def owner_of(found: os.stat_result) -> str:
    """Return the name of whom something belongs to, or the number where it has none."""
    try:
        return pwd.getpwuid(found.st_uid).pw_name
    except KeyError:
        return f"user {found.st_uid}"


def is_private(found: os.stat_result) -> bool:
    """Return True for a file or folder of this user's that nobody else may write to."""
    return found.st_uid == os.geteuid() and not found.st_mode & _OTHERS

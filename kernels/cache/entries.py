"""Entries of caches: a file each, with its version and a checksum, read only if it is whole.

Each begins with a line: "chunkfold-cache", the version, the length of what follows in bytes, and
the SHA-256 of the entry's name and what follows: a renamed one is refused. A file that is no
entry is removed, with one warning, and made again.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from chunkfold.kernels.cache.trusted import is_private, owner_of

VERSION = 1
"""Version of entries."""
_FIRST = b"chunkfold-cache"
_LONGEST_HEAD = 120
_MOST_BYTES = 256 << 20
"""No compiled program comes near it."""
TO_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""A FIFO would be waited for otherwise."""
TEMPORARY = ".new-"
"""The begin of names of files that are not whole yet."""


class _BadEntryError(Exception):
    """Says what is wrong with an entry."""


def write_entry(path: Path, content: bytes) -> None:
    """Write an entry, which readers see whole or not at all; log a failure once."""
    try:
        put_whole(path, _head(path.name, content) + content)
    except OSError as error:
        say_unkept(path.parent, error)


def read_entry(path: Path) -> bytes | None:
    """Return an entry's content; None if it is missing or damaged."""
    try:
        return _read(path)
    except FileNotFoundError:
        return None
    except _BadEntryError as bad:
        drop(path, str(bad))
    except OSError as error:
        drop(path, open_problem(error))
    return None


def drop(path: Path, why: str) -> None:
    """Remove a file or folder that is no entry, and log once why."""
    aside = path.parent / f".bad-{os.urandom(8).hex()}"
    try:
        path.rename(aside)  # two processes may meet it: one moves it, and says so
    except FileNotFoundError:
        return
    except OSError:
        aside = path
    say_once("bad", f"{path} in the cache {why}: it is dropped and made again")
    if aside.is_dir() and not aside.is_symlink():
        shutil.rmtree(aside, ignore_errors=True)
    else:
        with suppress(OSError):
            aside.unlink()


def open_problem(error: OSError) -> str:
    """Say why something in the cache could not be opened."""
    return "is a link" if error.errno == errno.ELOOP else f"cannot be opened ({error.strerror})"


def _head(name: str, content: bytes) -> bytes:
    digest = hashlib.sha256(name.encode() + b"\0" + content).hexdigest()
    return b"%s %d %d %s\n" % (_FIRST, VERSION, len(content), digest.encode())


def _read(path: Path) -> bytes:
    descriptor = os.open(path, TO_READ)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _BadEntryError("is no file")
        if not is_private(found):
            mode = stat.S_IMODE(found.st_mode)
            raise _BadEntryError(f"may be another user's ({owner_of(found)}'s, mode {mode:04o})")
        if found.st_size > _MOST_BYTES:
            raise _BadEntryError(f"has {found.st_size:,} bytes, more than any entry")
        head = file.readline(_LONGEST_HEAD)
        words = head.split()
        if words[:1] == [_FIRST] and words[1:2] != [b"%d" % VERSION]:
            raise _BadEntryError("is of another version")
        content = file.read()
    if head != _head(path.name, content):
        raise _BadEntryError("is damaged")
    return content


def put_whole(path: Path, content: bytes, *, synced: bool = False) -> None:
    """Write a file that readers see whole or not at all; `synced` if it is to outlive the host.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=TEMPORARY)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            if synced:
                file.flush()
                os.fsync(handle)
        Path(temporary).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(temporary).unlink()
        raise


_SAID = "CHUNKFOLD_CACHE_SAID"
"""Variable with the kinds of warnings logged: workers, which inherit it, meet the same cache."""
_LOG = logging.getLogger("chunkfold")
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def say_once(kind: str, sentence: str) -> None:
    """Log a warning, unless one of its kind was logged."""
    said = os.environ.get(_SAID, "").split()
    if kind not in said:
        os.environ[_SAID] = " ".join([*said, kind])
        _LOG.warning("%s", sentence)


def say_unkept(place: Path, error: OSError) -> None:
    """Log that a cache cannot be written, the result, and the remedy."""
    remedy = "make room there" if error.errno in _FULL else "see to that"
    say_once(
        "unkept",
        f"the cache in {place} cannot be written ({error.strerror or error}): compiled kernels "
        f"are not kept for the next run; {remedy}, or set CHUNKFOLD_CACHE to another folder",
    )


def is_full(error: OSError) -> bool:
    """Return True for errors of a full disk."""
    return error.errno in _FULL

"""Read local files that somebody else put there: regular ones, and no more of them than asked for.

A pipe would wait for a writer, a device has no end, and opening some does something.
"""

from __future__ import annotations

import os
import stat

from chunkfold.errors import SourceError

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_SPECIAL = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
_AT_ONCE = 1 << 30
"""Bytes that are asked for in one call, at most."""
_UNSAID = 1 << 16
"""Bytes that are asked for in one call of a file that does not say its size."""


def special(path: str | os.PathLike[str]) -> str:
    """Say what is at a path, links followed, if it is no file and no folder; else empty."""
    try:
        return _SPECIAL.get(stat.S_IFMT(os.stat(path).st_mode), "")  # noqa: PTH116 # a name or a path
    except (OSError, ValueError):  # nothing, or no name of anything: whoever opens it says so
        return ""


def refuse_special(path: str | os.PathLike[str]) -> None:
    """Refuse what is no file and no folder.

    Raises
    ------
    SourceError
        If that is what there is.
    """
    if kind := special(path):
        raise SourceError(f"{os.fspath(path)}: is {kind}, not a regular file: it is not read")


def read_regular(
    path: str, start: int = 0, stop: int | None = None, most: int | None = None
) -> bytes:
    """Read a regular file from an offset (from the end, if negative) to another.

    Raises
    ------
    SourceError
        If it is no regular file, or has more than `most` bytes.
    OSError
        If it cannot be read; a folder is an IsADirectoryError.
    """
    refuse_special(path)
    descriptor = os.open(path, _FLAGS)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(path)
            raise SourceError(f"{path}: is not a regular file: it is not read")  # it was one before
        if start < 0:
            start = max(0, status.st_size + start)
        # Some files, as those of /proc, say 0 and have more.
        left = max(status.st_size - start, _UNSAID)
        found = _read(descriptor, start, stop if most is None else most + 1, min(left, _AT_ONCE))
    finally:
        os.close(descriptor)
    if most is not None and len(found) > most:
        raise too_large(path, most)
    return found


def too_large(name: str, most: int) -> SourceError:
    """Return what to raise of metadata that are larger than they may be."""
    return SourceError(
        f"{name}: has more than {most:,} bytes, which is more than metadata may have; if that is "
        "right, set chunkfold.store.metadata-bytes in Dask's configuration "
        "(DASK_CHUNKFOLD__STORE__METADATA_BYTES)"
    )


def _read(descriptor: int, start: int, stop: int | None, at_once: int) -> bytes:
    pieces = []
    while stop is None or start < stop:
        piece = os.pread(descriptor, at_once if stop is None else min(at_once, stop - start), start)
        if not piece:
            break
        pieces.append(piece)
        start += len(piece)
    return b"".join(pieces)

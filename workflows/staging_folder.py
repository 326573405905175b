"""Folders in which outputs are made, beside their place; what killed commands left is removed."""

from __future__ import annotations

import fcntl
import glob
import hashlib
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_UNLOCKED_S = 60.0
"""An empty folder of a living process that is younger may be about to be locked."""


@contextmanager
def staging_folder(path: Path) -> Iterator[Path]:
    """Make a folder beside an output, which is locked for as long as something is made in it.

    It stays: whoever asks for it removes it.
    """
    folder = Path(tempfile.mkdtemp(dir=path.parent, prefix=f"{_prefix(path)}{os.getpid()}-"))
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _lock(descriptor)
        yield folder
    finally:
        os.close(descriptor)


def before_of(folder: Path, path: Path) -> Path:
    """Return where an output is set aside while another takes its place."""
    return folder / f"{path.name}.before"


def clear_staging(path: Path) -> None:
    """Remove folders of an output in which commands were killed, on this machine.

    What was set aside in one of them is put back, if nothing has taken its place.
    """
    for folder in path.parent.glob(f"{glob.escape(_prefix(path))}*"):
        with suppress(OSError):  # it went meanwhile, or is another's
            _clear(folder, path)


def _clear(folder: Path, path: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        locked = _lock(descriptor)
        young = time.time() - os.fstat(descriptor).st_mtime < _UNLOCKED_S
        unknown = locked is None or (young and not any(folder.iterdir()))
        if locked is False or (unknown and not _maker_has_ended(folder, path)):
            return
        before = before_of(folder, path)
        if os.path.lexists(before) and not os.path.lexists(path):
            before.rename(path)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)


def _maker_has_ended(folder: Path, path: Path) -> bool:
    """Return True if the process that made a folder has ended, by the number in its name."""
    number = folder.name.removeprefix(_prefix(path)).partition("-")[0]
    if not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # another user's, or no such number
        return False
    return False


def _lock(descriptor: int) -> bool | None:
    """Lock a folder until it is closed, or the process ends; False if another has locked it.

    None where the file system knows no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _prefix(path: Path) -> str:
    """Return what names of an output's folders begin with, on this machine.

    Locks of another machine need not be seen on this one.
    """
    machine = ""
    with suppress(OSError):
        machine = Path("/etc/machine-id").read_text()
    known = f"{machine}|{platform.node()}|{path.name}"
    return f".{path.name[:100]}.{hashlib.sha256(known.encode()).hexdigest()[:8]}-"

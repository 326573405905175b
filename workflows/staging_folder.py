"""Folders in which outputs are made, beside their place: those of commands that were killed go."""

from __future__ import annotations

import fcntl
import glob
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NEW_S = 60.0
"""A folder that is younger may be about to be locked."""


@contextmanager
def staging_folder(path: Path) -> Iterator[Path]:
    """Make a folder beside an output, which is locked for as long as something is made in it.

    It stays: whoever asks for it removes it. What commands left that were killed on this machine,
    of the same output, is removed first.
    """
    clear_staging(path)
    folder = Path(tempfile.mkdtemp(dir=path.parent, prefix=_prefix(path)))
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
    """Remove folders of an output in which nobody makes anything any more.

    What was set aside in one of them is put back, if nothing has taken its place.
    """
    for folder in path.parent.glob(f"{glob.escape(_prefix(path))}*"):
        with suppress(OSError):  # it went meanwhile, or is another's
            _clear(folder, path)


def _clear(folder: Path, path: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if time.time() - os.fstat(descriptor).st_mtime < _NEW_S or not _lock(descriptor):
            return
        before = before_of(folder, path)
        if os.path.lexists(before) and not os.path.lexists(path):
            before.rename(path)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock a folder until it is closed, or the process ends; say whether it is."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another has it, or the file system knows no locks
        return False
    return True


def _prefix(path: Path) -> str:
    """Return what names of an output's folders begin with, on this machine since it was started.

    Locks of another machine need not be seen on this one.
    """
    try:
        machine = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    except OSError:
        machine = f"{uuid.getnode():012x}"[-8:]
    return f".{path.name}.{machine}-"

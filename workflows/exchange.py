"""Exchange two names of one file system in one call, where the system has such a call (Linux)."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

_HERE = -100
"""AT_FDCWD: relative paths are below the working directory."""
_EXCHANGE = 2
"""RENAME_EXCHANGE of linux/fs.h."""
_CANNOT = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM}
"""Errors by which kernels, file systems and sandboxes say that they have no such call."""


def exchanged(one: Path, other: Path) -> bool:
    """Exchange the targets of two names; return False if one call cannot do it.

    Both exist at every moment, whatever they are: files, folders or links.

    Raises
    ------
    OSError
        If one of them does not exist, or may not be renamed.
    """
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))

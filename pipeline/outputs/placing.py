"""Move what was made into its place, so that one who reads meanwhile finds the old or the new."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

from chunkfold.errors import PlanError
from chunkfold.outputs.staging_folder import before_of

_TAKEN = {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR}
"""Errors by which the system says that a name is taken."""
_AT_FDCWD = -100
"""AT_FDCWD of fcntl.h: relative paths are below the working directory."""
_RENAME_EXCHANGE = 2
"""RENAME_EXCHANGE of linux/fs.h."""
_CANNOT = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM}
"""Errors by which kernels, file systems and sandboxes say that they have no such call."""


def put(made: Path, path: Path, *, overwrite: bool) -> None:
    """Move what was made into its place, where something may be that goes.

    Raises
    ------
    PlanError
        If something came there meanwhile that is not to go.
    """
    if overwrite:
        # A file takes the place of another by itself; folders do not.
        aside = os.path.lexists(path) and (path.is_dir() or made.is_dir())
        move(made, path, before_of(made.parent, path) if aside else None)
    elif not _put_new(made, path):
        raise PlanError(f"output {path} was created meanwhile: it is not overwritten")


def _put_new(made: Path, path: Path) -> bool:
    """Move what was made into its place, unless something is there: then say so."""
    if os.path.lexists(path):
        return False
    try:
        if made.is_dir():
            made.rename(path)  # only an empty folder would make room
        else:
            _link(made, path)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True


def _link(made: Path, path: Path) -> None:
    """Give a file a name that is free: a rename would replace a file that came meanwhile."""
    try:
        os.link(made, path)
    except OSError as error:
        if error.errno in _TAKEN:
            raise
        made.rename(path)  # the file system has no links


def move(made: Path, path: Path, before: Path | None) -> None:
    """Move what was made into its place; what is to go to `before` may end in the other's place.

    Where names cannot be exchanged it is set aside first, and put back if that fails; should the
    process be killed between the two, the next command puts it back.
    """
    if before is not None and exchanged(made, path):
        return
    try:
        if before is not None:
            path.rename(before)
        made.replace(path)
    except BaseException:
        # An interrupt is raised behind the call in which it came: that one may have done its work.
        if before is not None and os.path.lexists(before) and not os.path.lexists(path):
            before.rename(path)
        raise


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
    if call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))

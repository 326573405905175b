"""Look at many files at once, natively where that was built."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

import numpy as np

from chunkfold.kernels.device.native_library import native_library
from chunkfold.kernels.feed.commands import joined
from chunkfold.kernels.feed.native import native

NONE = -1
"""Size and time where there is no file."""


def file_states(names: Sequence[str]) -> np.ndarray:
    """Return size and time of each file, in nanoseconds since 1970: int64, (files, 2).

    Links are followed. Folders are no files.

    Raises
    ------
    OSError
        If one cannot be looked at.
    """
    if native_library() is None:
        return np.array([_state(name) for name in names], np.int64).reshape(-1, 2)
    text, begins = joined(names)
    states = np.empty((len(names), 2), np.int64)
    error = native().states(
        *(text, len(text), begins.ctypes.data, len(names)),
        *(states.ctypes.data, len(os.sched_getaffinity(0))),
    )
    if error:
        raise OSError(error, os.strerror(error))
    return states


def _state(name: str) -> tuple[int, int]:
    try:
        found = os.stat(name)  # noqa: PTH116 # a Path would take as long
    except (FileNotFoundError, NotADirectoryError):
        return NONE, NONE
    return (NONE, NONE) if stat.S_ISDIR(found.st_mode) else (found.st_size, found.st_mtime_ns)

"""The native part of feeding, if it was built, called without Python's lock."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_int, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyopencl as cl

from chunkfold.kernels.device.capabilities import native_library
from chunkfold.kernels.feed.commands import zero_terminated

_FUNCTIONS = (
    "clEnqueueWriteBuffer", "clWaitForEvents", "clRetainEvent", "clReleaseEvent", "clFlush",
    "clGetEventProfilingInfo",
)  # fmt: skip


class CommandList(ctypes.Structure):
    """`struct commands`."""

    _fields_: ClassVar[list[tuple[str, Any]]] = [
        ("buffer", c_void_p),
        ("buffer_bytes", c_int64),
        ("names", c_char_p),
        ("names_bytes", c_int64),
        ("files", c_void_p),
        ("file_count", c_int64),
        ("runs", c_void_p),
        ("run_count", c_int64),
        ("pieces", c_void_p),
        ("piece_count", c_int64),
        ("after", c_void_p),
        ("after_count", c_int64),
    ]


class FeedOutcome(ctypes.Structure):
    """`struct outcome`."""

    _fields_: ClassVar[list[tuple[str, Any]]] = [
        ("run", c_int64),
        ("detail", c_int64),
    ]


class Native:
    """The functions of `feed.c`, and those of OpenCL that they call."""

    def __init__(self, library: Path) -> None:
        loaded = ctypes.CDLL(str(library))
        self.open, self.close = loaded.chf_open, loaded.chf_close
        self.feed, self.uploaded_ns = loaded.chf_feed, loaded.chf_uploaded_ns
        self.states = loaded.chf_states
        self.states.argtypes = [c_char_p, c_int64, c_void_p, c_int64, c_void_p, c_int]
        self.open.argtypes = [c_void_p, c_int, c_void_p, c_int64, c_int64, c_void_p]
        self.feed.argtypes = [c_void_p, POINTER(CommandList), POINTER(FeedOutcome)]
        self.uploaded_ns.argtypes = self.close.argtypes = [c_void_p]
        self.open.restype, self.feed.restype = c_void_p, c_int
        self.uploaded_ns.restype, self.close.restype = c_int64, None
        loader = ctypes.CDLL(cl._cl.__file__)
        pointers = (ctypes.cast(getattr(loader, name), c_void_p).value for name in _FUNCTIONS)
        self.opencl = (c_void_p * len(_FUNCTIONS))(*pointers)


@cache
def native() -> Native:
    """Return the native functions, of a build that has them: capability `native_feed`."""
    library = native_library()
    assert library is not None
    return Native(library)


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
    text, begins = zero_terminated(names)
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

"""Standard streams, and what comes of it where they fail: commands need not know."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TextIO, cast


class UnreadError(Exception):
    """Whoever read standard output has gone. Not an OSError, to which click has its own answer."""


class _Stream:
    """A standard stream, and what is to come of it where it fails."""

    def __init__(self, stream: TextIO, failed: Callable[[OSError], None]) -> None:
        self._stream, self._failed = stream, failed

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
        except OSError as error:
            self._failed(error)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._failed(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _cannot_print(error: OSError) -> None:
    raise (UnreadError() if isinstance(error, BrokenPipeError) else error) from error


def _go_on(_: OSError) -> None:
    """What is told beside the results is not worth a run."""


def open_streams() -> None:
    """See that there are standard streams, and that their failures are seen to."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:  # it is closed: the next file that is opened would be it
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 # until the end
    sys.stdout = cast("TextIO", _Stream(sys.stdout, _cannot_print))
    sys.stderr = cast("TextIO", _Stream(sys.stderr, _go_on))

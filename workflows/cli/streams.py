"""Standard streams, and what comes of it where they fail: commands need not know."""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from collections.abc import Callable
from typing import Any, TextIO, cast


class UnreadError(Exception):
    """Whoever read standard output has gone. Not an OSError, to which click has its own answer."""


class _Stream:
    """A standard stream, and what is to come of it where it fails."""

    buffer = None
    """None: click would go round this to the bytes below, where a terminal knows ASCII alone."""

    def __init__(
        self, stream: TextIO, failed: Callable[[OSError], None], *, closed: bool = False
    ) -> None:
        self._stream, self._failed, self._closed = stream, failed, closed

    def write(self, text: str) -> int:
        try:
            if self._closed and text:
                raise OSError(errno.EBADF, "standard output is closed: results cannot be printed")
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
    """Ignore the error: a lost message must not end a run."""


_DRAWN: dict[str, str] = dict(zip("▁▂▃▄▅▆▇█━╸╺…µ×°", "_.:-=+*#---.ux*", strict=True))  # noqa: RUF001
"""What stands for characters that we draw with where they cannot be written: one for each."""
_SPELLED = "chunkfold.spelled"
"""Name of `_spelled`, as streams know it."""


def _spelled(error: UnicodeError) -> tuple[str, int]:
    r"""Write what a stream's encoding does not have: drawn alike, or as Python and shells spell it.

    Names of files may have bytes that are no UTF-8, which Python has as surrogates.

    >>> "█ é n\udcffm".encode("ascii", _SPELLED)
    b'# \\u00e9 n\\xffm'
    """
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    return "".join(_DRAWN.get(one) or _code(ord(one)) for one in text), error.end


def _code(point: int) -> str:
    if 0xDC80 <= point <= 0xDCFF:
        return f"\\x{point - 0xDC00:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


codecs.register_error(_SPELLED, _spelled)


def open_streams() -> None:
    """See that there are standard streams, and that their failures are seen to."""
    closed = set()
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:  # it is closed: the next file that is opened would be it
            os.open(os.devnull, os.O_RDWR)
            closed.add(name)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 # until the end
    see_to_streams(closed="stdout" in closed)


def see_to_streams(*, closed: bool = False) -> None:
    """See to failures of the two streams that are written to, of which the first may be closed."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_SPELLED)
    sys.stdout = cast("TextIO", _Stream(sys.stdout, _cannot_print, closed=closed))
    sys.stderr = cast("TextIO", _Stream(sys.stderr, _go_on))

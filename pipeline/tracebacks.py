"""Errors and warnings of chunkfold end where its user called it, without chunkfold's own frames."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from types import FrameType
from typing import Any, TypeVar, cast

from chunkfold.errors import ChunkfoldError

TRACEBACK = "CHUNKFOLD_TRACEBACK"
"""A variable: where it is set, errors show where in chunkfold they were raised."""
F = TypeVar("F", bound=Callable[..., Any])


def traceback_cut(function: F) -> F:
    """Leave chunkfold's frames, and what caused an error, out of what Python shows of it.

    The cause is the error's `__context__`. Where `CHUNKFOLD_TRACEBACK` is set all is shown.
    """

    @wraps(function)
    def chunkfold(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # IPython and pytest leave this frame out, too
        try:
            return function(*args, **kwargs)
        except ChunkfoldError as error:
            if os.environ.get(TRACEBACK):
                raise
            error.__context__ = error.__cause__ or error.__context__
            raise error.with_traceback(None) from None

    return cast("F", chunkfold)


def warn_caller(one: Warning) -> None:
    """Warn where the caller's own code called chunkfold."""
    level, frame = 1, cast("FrameType | None", sys._getframe())
    while frame is not None and f"{frame.f_globals.get('__name__')}.".startswith("chunkfold."):
        level, frame = level + 1, frame.f_back
    warnings.warn(one, stacklevel=level)

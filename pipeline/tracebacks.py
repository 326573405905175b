"""Errors of chunkfold end where its user called it: a traceback without chunkfold's own frames."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from chunkfold.errors import TRACEBACK, ChunkfoldError

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

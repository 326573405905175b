"""Find the library that the build makes of `kernels/feed/feed.c`, where it finds a C compiler."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

_FOLDER = Path(__file__).parents[1] / "feed"


def native_library() -> Path | None:
    """Return the library's path; None if it was not built."""
    each = (_FOLDER / f"_feed{suffix}" for suffix in EXTENSION_SUFFIXES)
    return next((path for path in each if path.exists()), None)

"""Where chunkfold keeps what it can make again: compiled kernels, verdicts, driver lists."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path

import platformdirs


def cache_folder(*parts: str) -> Path:
    """Return a private folder below the cache, made if need be.

    CHUNKFOLD_CACHE overrides the place. Where the home cannot be written, a folder of this
    process's user in the temporary directory serves.
    """
    given = os.environ.get("CHUNKFOLD_CACHE")
    base = Path(given) if given else Path(platformdirs.user_cache_dir("chunkfold"))
    try:
        return _private(base.joinpath(*parts))
    except OSError:
        return _private(_fallback().joinpath(*parts))


@cache
def _fallback() -> Path:
    """Return a folder in the temporary directory: this user's, or else this process's."""
    try:
        return _private(Path(tempfile.gettempdir()) / f"chunkfold-{os.getuid()}")
    except OSError:
        return Path(tempfile.mkdtemp(prefix="chunkfold-"))


def _private(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or not os.access(folder, os.W_OK):
        raise PermissionError(f"{folder} belongs to somebody else")
    return folder


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that readers see the old text or the new, never a part."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink()
        raise

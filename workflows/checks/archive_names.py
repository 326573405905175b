"""Names of archives and of their arrays: in messages, and as patterns meet them."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Sequence
from typing import Any

from chunkfold.redaction import shown_address
from chunkfold.sources.opening import Unopened
from chunkfold.sources.source import Source


def is_called(name: str, pattern: str, root: str) -> bool:
    """Return True if a pattern is met by an array's address, path in the archive, or last name."""
    names = (name, path_within(name, root), name.rpartition("/")[2])
    return any(fnmatch.fnmatchcase(one, pattern) for one in names)


def path_within(name: str, root: str) -> str:
    """Return the path of an array in an archive, by the names of both; of the only one its name."""
    return name.removeprefix(root).strip("/") or name


def archive_name(source: Any, every: Sequence[Source | Unopened]) -> str:
    """Return what messages call an archive, whose arrays were opened."""
    if isinstance(source, (str, os.PathLike)):
        return shown_address(os.path.expanduser(os.fspath(source))).rstrip("/")  # noqa: PTH111
    return str(getattr(source, "store_path", every[0].name))  # zarr's groups have one

"""References to chunks that lie in other files, as kerchunk and VirtualiZarr write them.

A file of them, `refs.json`, or a folder of tables, `refs.parquet`, is a group: `refs.json/air`.
fsspec opens them; none of what is in them is run.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from chunkfold.stores.regular_files import read_regular, special

_LOOKED_AT = 4096
"""Bytes at a file's beginning that tell what it is."""
_BEGINS = re.compile(rb'\s*\{.*"(refs|\.zgroup|\.zattrs|zarr\.json)"\s*:', re.DOTALL)
"""The beginning of a file of references."""
TABLES = ".zmetadata"
"""The file at the top of a folder of tables, next to their folders."""
_MOSTTABLES = 64 << 20
"""Bytes of that, beyond which it is something else."""
_CHAINED = re.compile(r"(?s)reference://(?P<inner>(?:(?!::).)*)::(?P<target>(?:(?!::).)+)")
_IN_FILES = re.compile(r"(?i)^(?:file|local):(?://)?")
_OF_ZARR = ("zarr.json", ".zarray", ".zgroup")
_ON_THE_WAY = re.compile(
    r"(?P<file>[\w+]+://[^?#]+?\.(?:json|parq|parquet)(?<!/zarr\.json))(?:/(?P<inner>[^?#]*))?",
    re.IGNORECASE,
)


def references_in(path: Path) -> tuple[str, str] | None:
    """Return the references on the way of a local path, and what is meant in them; None if none.

    The address of the references is absolute.
    """
    for found in (path, *path.parents):
        if are_references(found):
            inner = "" if found == path else path.relative_to(found).as_posix()
            return os.path.abspath(found), inner  # noqa: PTH100 # resolve() would follow links
        if found.is_file():
            return None
    return None


def references_at(url: str) -> tuple[str, str] | None:
    """Return the references that a URL names, and what is meant in them; None if it names none.

    By its name alone: nobody is asked.

    >>> references_at("s3://bucket/refs.json/air"), references_at("https://host/a.zarr/air")
    (('s3://bucket/refs.json', 'air'), None)
    """
    if "::" in url or (found := _ON_THE_WAY.fullmatch(url)) is None:
        return None
    return found["file"], (found["inner"] or "").strip("/")


def are_references(path: Path) -> bool:
    """Return True if a path is a file of references, or a folder of tables of references."""
    if path.is_dir():
        return _are_tables(path)
    if special(path) or not path.is_file():
        return False
    try:
        return _BEGINS.match(read_regular(str(path), 0, _LOOKED_AT)) is not None
    except OSError:
        return False


def _are_tables(folder: Path) -> bool:
    """Return True if a folder has tables: a group of format 2 has its metadata there, too."""
    tables = folder / TABLES
    if not tables.is_file() or any((folder / name).exists() for name in _OF_ZARR):
        return False
    try:
        return "record_size" in json.loads(read_regular(str(tables), 0, _MOSTTABLES))
    except (OSError, ValueError, TypeError):
        return False


def chained(target: str, inner: str) -> str:
    """Return the address of what is in references as fsspec chains it."""
    return f"reference://{inner}::{target}"


def tables_in(address: str) -> tuple[str, str] | None:
    """Return the tables of references that a chain names, and what is meant; None if it does not.

    >>> tables_in("reference://air::s3://bucket/refs.parquet"), tables_in("reference://a::refs.json")
    (('s3://bucket/refs.parquet', 'air'), None)
    """
    found = _CHAINED.fullmatch(address)
    if found is None:
        return None
    target = found["target"].rstrip("/")
    folder = Path(_IN_FILES.sub("", target))
    if target.endswith((".parq", ".parquet")) or (folder.is_dir() and _are_tables(folder)):
        return target, found["inner"].strip("/")
    return None

"""Addresses: which store one names, and what in it. Paths, archives, URLs, chains of fsspec's.

A chain names what lies in something before what that is, with `::` between: `zip://air::s.zip`,
`reference://air::refs.json`. An archive on a local disk or in an object store is a folder, too:
`s.zip/air`, `s3://bucket/s.zip/air`; so are references, `refs.json/air`, and the repositories of
Icechunk, `repo/air`, `icechunk:///data/repo/air?tag=v1`.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from zarr.storage import ZipStore

from chunkfold.errors import PlanError
from chunkfold.redaction import without_secrets
from chunkfold.settings import ALLOWED, StorageOptions, allowed_targets, missing_statuses
from chunkfold.stores.archives import archive_at, archive_in
from chunkfold.stores.chains import chain
from chunkfold.stores.icechunk_store import repository_at, repository_in
from chunkfold.stores.near_requests import TIMEOUT
from chunkfold.stores.obstore_clients import SCHEMES, open_store
from chunkfold.stores.references import (
    chained,
    references_at,
    references_in,
)
from chunkfold.stores.remote import said_shortly
from chunkfold.stores.remote_store import RemoteStore

Folder: TypeAlias = "Path | zipfile.Path"
"""A folder, or one in an archive; a file likewise."""
NO_OPTIONS: StorageOptions = {}
_IN_FILES = re.compile(r"(?i)(?:file|local)://")
_ARCHIVE = re.compile(
    r"zip://(?P<inner>(?:(?!::).)*)(?:::(?P<outer>.*))?", re.IGNORECASE | re.DOTALL
)
_PARTS = re.compile(
    r"(?s)(?P<caches>(?:\w+::)*)(?P<place>.*?)"
    r"(?P<outer>::.*|\?(?:branch|tag|snapshot)=.*)?"
)
"""A chain's names of caches, what says where in it something lies, and what that is in; of what is
in a repository, which version of that."""


def within(address: str, key: str) -> str:
    """Return the address of what a group at an address calls `key`.

    >>> within("s.zarr", "air"), within("zip://deep::s.zip", "air"), within("reference://::r", "a")
    ('s.zarr/air', 'zip://deep/air::s.zip', 'reference://a::r')
    """
    caches, place, outer = _parts(address)
    return f"{caches}{place}{'' if place.endswith('/') else '/'}{key}{outer}"


def below(address: str, other: str) -> str:
    """Return what a group at an address calls `other`; empty if that is the address itself.

    >>> below("zip://deep::s.zip", "zip://deep/air::s.zip"), below("s.zarr/", "s.zarr/air")
    ('air', 'air')
    """
    return _parts(other)[1][len(_parts(address)[1]) :].strip("/")


def neighbour_address(address: str, name: str) -> str:
    """Return the address of a name in the group that an address is in; empty if it is in none.

    >>> neighbour_address("s.zarr/air", "lat"), neighbour_address("a", "b")
    ('s.zarr/lat', '')
    >>> neighbour_address("reference://air::refs.json", "lat")
    'reference://lat::refs.json'
    """
    caches, place, outer = _parts(address)
    folder, slash, _ = place.rstrip("/").rpartition("/")
    return f"{caches}{folder}{slash}{name}{outer}" if folder else ""


def last_of(address: str) -> str:
    """Return the name that an address ends in; of a chain that of what lies in it, if it has one.

    >>> last_of("s.zarr/air/"), last_of("zip://deep/air::s.zip"), last_of("zip://::d/s.zip")
    ('air', 'air', 's.zip')
    """
    _, place, outer = _parts(address)
    found = place.rstrip("/").rpartition("/")[2]
    return found if not outer or not found.endswith(":") else last_of(outer[2:])


def _parts(address: str) -> tuple[str, str, str]:
    found = _PARTS.fullmatch(address)
    assert found is not None
    return found["caches"], found["place"], found["outer"] or ""


def local_path(address: str) -> Path | None:
    """Return the path that an address names, into an archive too; None if it is on no local disk.

    >>> str(local_path("zip://air::/data/s.zip")), local_path("s3://bucket/s.zip")
    ('/data/s.zip/air', None)
    """
    if found := _IN_FILES.match(address):
        address = address[found.end() :]
    elif zipped := _zipped(address):
        outer = local_path(zipped[0])
        return outer and outer / zipped[1]
    if "://" in address or "::" in address:
        return None
    return Path(os.path.expanduser(address))  # noqa: PTH111 # pathlib refuses "~" of nobody


def _zipped(address: str) -> tuple[str, str] | None:
    """Return what a chain of one archive names: that, and the path in it."""
    found = _ARCHIVE.fullmatch(address)
    if found is None or "::" in (found["outer"] or ""):
        return None
    if found["outer"] is None:  # as zarr's own messages name what is in an archive
        return found["inner"], ""
    return found["outer"], found["inner"].strip("/")


def on_disk(path: Path) -> Folder | None:
    """Return what is at a local path, or in an archive on the way; None if there is nothing."""
    if path.exists():
        return zipfile.Path(path) if path.is_file() and zipfile.is_zipfile(path) else path
    file = next((parent for parent in path.parents if parent.exists()), None)
    if file is None or not file.is_file() or not zipfile.is_zipfile(file):
        return None
    found = zipfile.Path(file) / path.relative_to(file).as_posix()
    return found if found.exists() else None


def is_zarr(folder: Folder) -> bool:
    """Return True if a folder is a Zarr array or group."""
    return any((folder / name).exists() for name in ("zarr.json", ".zarray", ".zgroup"))


def node_type(folder: Path) -> Any:
    """Return "array" or "group", as the metadata of format 3 in a folder say; None without them."""
    try:
        found = json.loads((folder / "zarr.json").read_text())
    except (OSError, ValueError):
        return None
    return found.get("node_type") if isinstance(found, dict) else None


def zarr_node(folder: Path) -> str | None:
    """Return "array" or "group", as the metadata of either format say; None without them."""
    older = {"array": folder / ".zarray", "group": folder / ".zgroup"}
    named = (kind for kind, path in older.items() if os.path.exists(path))  # noqa: PTH110 # of any length
    found = node_type(folder)
    return found if isinstance(found, str) else next(named, None)


def array_around(path: Path) -> Path | None:
    """Return the Zarr array that a path lies in, as it is named or as links lead, if any."""
    for folder in (*path.absolute().parents, *path.resolve().parents):
        if zarr_node(folder) == "array":
            return folder
    return None


def is_packed(path: Path) -> bool:
    """Return True if a local path leads into reference files, or into an Icechunk repository."""
    return references_in(path) is not None or repository_in(path) is not None


def refuse_options(address: str, options: StorageOptions) -> None:
    """Refuse options of an address that takes none.

    Raises
    ------
    PlanError
        If there are some.
    """
    if others := [name for name in options if name != ALLOWED]:
        raise PlanError(
            f"storage_options are given ({', '.join(others)}), but {without_secrets(address)!r} "
            f"is not a URL of {', '.join(SCHEMES)}: omit them"
        )


def located(address: str, options: StorageOptions = NO_OPTIONS) -> tuple[Any, str]:
    """Return the store, or what zarr takes for one, that an address names, and the path in it.

    `options` are of stores that obstore opens, or Icechunk; `allow_targets` of references.

    Raises
    ------
    PlanError
        If options are wrong, or there are some of another kind of address.
    ImportError
        If it takes a package that is not installed.
    Exception
        Whatever the libraries raise.
    """
    path, zipped = local_path(address), _zipped(address)
    allowed = allowed_targets(options)
    options = {name: value for name, value in options.items() if name != ALLOWED}
    if repository := repository_at(address, options):
        return repository.opened(), repository.inner
    if path is not None or zipped is not None or not _by_obstore(address):
        refuse_options(address, options)
    if path is not None:
        return _on_disk(path, allowed)
    if referred := references_at(address):
        refuse_options(address, options)
        return chain(chained(*referred), allowed), ""
    missing = missing_statuses(options)
    if _by_obstore(address if zipped is None else zipped[0]):
        with said_shortly():
            if zipped is not None:
                return archive_at(zipped[0]), zipped[1]
            return archive_in(address) or (_remote(address, options, missing), "")
    return chain(address, allowed) if "::" in address else address, ""


def _on_disk(path: Path, allowed: tuple[str, ...]) -> tuple[Any, str]:
    """Return the store of a local path, absolute as it travels, and the path in it."""
    found = on_disk(path)
    if isinstance(found, zipfile.Path):
        archive = os.path.abspath(str(found.root.filename))  # noqa: PTH100 # links stay
        return ZipStore(archive), found.at.strip("/")
    if found is None or not is_zarr(found):
        if referred := references_in(path):
            return chain(chained(*referred), allowed), ""
        if repository := repository_in(path):
            return repository.opened(), repository.inner
    return os.path.abspath(path), ""  # noqa: PTH100 # links stay


def _remote(url: str, options: StorageOptions, missing: Collection[int]) -> RemoteStore:
    others = {name: value for name, value in options.items() if name != "missing_status"}
    once: dict[str, Any] = others | {"retry_config": {"max_retries": 0}}
    near, client = None, others.get("client_options", {})
    if "timeout" not in map(str.lower, client):
        client = {**client, "timeout": TIMEOUT}
        near = partial(open_store, url, **(once | {"client_options": client}))
    hasty = open_store(url, **once)
    return RemoteStore(open_store(url, **others), hasty=hasty, near=near, missing=missing)


def _by_obstore(url: str) -> bool:
    return "::" not in url and url.partition("://")[0].lower() in SCHEMES

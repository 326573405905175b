"""Icechunk repositories: of one a snapshot is read, whatever is committed meanwhile.

`icechunk:///data/repo/air` is the array `air` of the repository in `/data/repo`; a URL of S3 or
Google may stand behind the scheme. `?branch=`, `?tag=` or `?snapshot=` says which version, which is
the tip of `main` otherwise. A local folder that is a repository needs no scheme.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from zarr.abc.store import Store
from zarr.storage import WrapperStore

from chunkfold.errors import PlanError, SourceError
from chunkfold.settings import StorageOptions
from chunkfold.stores.guarded_stores import in_time, opened_in_time

SCHEME = "icechunk://"
_MAIN = ("branch", "main")
_ADDRESS = re.compile(
    r"icechunk://(?P<place>(?:(?P<scheme>\w+)://)?[^?#]*)(?:\?(?P<query>.*))?", re.IGNORECASE
)
_VERSIONS = {"branch": "branch", "tag": "tag", "snapshot": "snapshot_id"}
"""Keys that a query may have, and Icechunk's names for them."""


@dataclass(frozen=True)
class Repository:
    """The place of a repository, a version of it, and a path in it."""

    place: str
    """A local folder, absolute, or a URL."""
    inner: str
    version: tuple[str, str] = _MAIN
    options: tuple[tuple[str, Any], ...] = ()

    def opened(self) -> Snapshot:
        """Open the snapshot that the version is now.

        Raises
        ------
        ImportError
            If Icechunk is not installed.
        SourceError
            If there is no such version, or it cannot be opened in time.
        """
        kind, named = self.version
        with _said_shortly(f"{self.place}, {kind} {named}"):
            return opened_in_time(self.place, self._open)

    def _open(self) -> Snapshot:
        repository = icechunk().Repository.open(_storage(self.place, dict(self.options)))
        kind, named = self.version
        session = repository.readonly_session(**{_VERSIONS[kind]: named})
        return Snapshot(session.store, self.place)


class Snapshot(WrapperStore[Store]):
    """A snapshot of a repository, which nothing changes. Pickles small, with its id."""

    def __init__(self, store: Any, place: str = "") -> None:
        super().__init__(store)
        self.place = place or "an Icechunk repository"

    def _with_store(self, store: Any) -> Snapshot:
        return Snapshot(store, self.place)

    @property
    def snapshot(self) -> str:
        """Return the id of the snapshot."""
        return str(self._store.session.snapshot_id)  # type: ignore[attr-defined]

    @property
    def travels(self) -> bool:
        """Return True if others can open it: changes without a commit are in this process alone."""
        return bool(self._store.session.read_only)  # type: ignore[attr-defined]

    @property
    def local(self) -> str | None:
        """Its folder; None if it is elsewhere."""
        return self.place if self.place.startswith("/") else None

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """Read an object, or a part of one; None if there is none."""
        return await in_time(f"{self.place}/{key}", super().get(key, prototype, byte_range))

    def chunks_of(self, path: str) -> Iterator[tuple[int, ...]]:
        """Yield the places of the stored chunks of an array.

        Raises
        ------
        SourceError
            If they cannot be listed.
        """
        from zarr.core.sync import sync

        async def found() -> list[tuple[int, ...]]:
            session = self._store.session  # type: ignore[attr-defined]
            return [tuple(place) async for place in session.chunk_coordinates(f"/{path}")]

        with _said_shortly(f"{self.place}/{path}"):
            yield from sync(found())

    def __str__(self) -> str:
        return f"{self.place} ({'snapshot' if self.travels else 'session upon'} {self.snapshot})"

    def __repr__(self) -> str:
        return f"Snapshot({str(self)!r})"

    __hash__ = None  # type: ignore[assignment] # as of other stores


def as_snapshot(store: Any) -> Any:
    """Return a store of Icechunk's as a snapshot of it, another as it is."""
    if type(store).__module__.partition(".")[0] != "icechunk":
        return store
    return Snapshot(store)


def repository_at(address: str, options: StorageOptions) -> Repository | None:
    """Return the repository that an address names; None if it names none.

    Raises
    ------
    PlanError
        If its query names no version.
    SourceError
        If there is no repository where it says.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None:
        return None
    version, place = _version(found["query"], address), found["place"]
    if found["scheme"] is None:
        here = repository_in(Path(os.path.expanduser(place)))  # noqa: PTH111 # pathlib refuses "~" of nobody
        if here is None:
            raise SourceError(f"{address}: no folder of its path is an Icechunk repository")
        return Repository(here.place, here.inner, version)
    if found["scheme"].lower() not in _STORAGES:
        raise SourceError(
            f"{address}: Icechunk repositories are read from a path, or {', '.join(_STORAGES)}"
        )
    return _remote(place.rstrip("/"), version, options)


def repository_in(path: Path) -> Repository | None:
    """Return the repository that a local path is in; None if it is in none."""
    for folder in (path, *path.parents):
        if is_repository(folder):
            inner = "" if folder == path else path.relative_to(folder).as_posix()
            return Repository(os.path.abspath(folder), inner)  # noqa: PTH100 # links stay
    return None


def is_repository(folder: Path) -> bool:
    """Return True if a folder is an Icechunk repository, of format 1 or 2, by its top entries."""
    tips = (folder / "refs").is_dir() or (folder / "repo").is_file()
    return tips and (folder / "snapshots").is_dir()


def _version(query: str | None, address: str) -> tuple[str, str]:
    """Return what kind of version a query names, and which.

    >>> _version("tag=v1.0", ""), _version(None, "")
    (('tag', 'v1.0'), ('branch', 'main'))
    """
    if not query:
        return _MAIN
    kind, _, named = query.partition("=")
    if kind not in _VERSIONS or not named or "&" in named:
        raise PlanError(
            f"{address}: {query!r} is not a version of an Icechunk repository; use one of "
            f"{', '.join(f'?{known}=NAME' for known in _VERSIONS)}"
        )
    return kind, unquote(named)


def _remote(url: str, version: tuple[str, str], options: StorageOptions) -> Repository:
    """Find which part of a URL is the repository: the longest that is one."""
    given = tuple(sorted(options.items()))
    head, _, path = url.partition("://")
    parts = path.split("/")
    with _said_shortly(url):
        for count in range(len(parts), 0, -1):
            place = f"{head}://{'/'.join(parts[:count])}"
            storage = _storage(place, dict(options))
            if opened_in_time(place, lambda at=storage: icechunk().Repository.exists(at)):  # type: ignore[misc]
                return Repository(place, "/".join(parts[count:]), version, given)
    raise SourceError(f"{SCHEME}{url}: no folder of its path is an Icechunk repository")


def _storage(place: str, options: Mapping[str, Any]) -> Any:
    """Return Icechunk's storage of a place; its options are Icechunk's own."""
    scheme, found, path = place.partition("://")
    if not found:
        return icechunk().local_filesystem_storage(place)
    bucket, _, prefix = path.partition("/")
    given: dict[str, Any] = {"from_env": True, **options}
    return _STORAGES[scheme.lower()](bucket=bucket, prefix=prefix or None, **given)


def _s3(**given: Any) -> Any:
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        plain, path = endpoint.startswith("http://"), True
        given = {"endpoint_url": endpoint, "allow_http": plain, "force_path_style": path, **given}
    if os.environ.get("AWS_SKIP_SIGNATURE", "").lower() == "true" or given.get("anonymous"):
        given = {**given, "anonymous": True, "from_env": None}
    return icechunk().s3_storage(**given)


def _gcs(**given: Any) -> Any:
    return icechunk().gcs_storage(**given)


_STORAGES: Mapping[str, Callable[..., Any]] = {"s3": _s3, "gs": _gcs}
"""Kinds of URLs for which Icechunk's functions take a bucket and a prefix."""


@cache
def icechunk() -> Any:
    """Return the package, which warns no more of writers: here are none.

    Raises
    ------
    ImportError
        If it is not installed.
    """
    import icechunk as package

    if "ICECHUNK_LOG" not in os.environ:
        package.set_logs_filter("error")
    return package


@contextmanager
def _said_shortly(name: str) -> Iterator[None]:
    """Say in one sentence, which names where, what Icechunk raises."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ != "IcechunkError":
            raise
        lines = [line.strip(" |x\u00d7\u2502") for line in str(error).splitlines()]
        first = next((line for line in lines if line), "no reason is given")
        raise SourceError(f"{name}: cannot be read by Icechunk ({first})") from error

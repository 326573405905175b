"""Stores of fsspec's chains, whose links are minded: special files, and references."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection
from contextlib import suppress
from typing import Any

from chunkfold.errors import SourceError
from chunkfold.redaction import without_secrets
from chunkfold.stores.guarded_stores import CarefulFsspec, opened_in_time
from chunkfold.stores.references import tables_in
from chunkfold.stores.regular_files import refuse_special

_LINKS = "::"
"""Between the links of a chained URL."""
_IN_FILES = re.compile(r"(?i)^(?:file|local):(?://)?")
_REFERENCES = re.compile(r"(?is)reference(?:://(?P<inner>.*))?")
_ROUND = ("blockcache", "filecache", "simplecache")
"""Links that may stand round references: they keep what they bring."""


class ChainStore(CarefulFsspec):
    """A store of a chain."""

    def check_references(self, path: str) -> None:
        """Check the references to what is at a path, before any of it is read.

        Raises
        ------
        TargetError
            If one is malformed, or leads where it may not lead.
        """
        files = getattr(self.fs, "sync_fs", self.fs)
        if hasattr(files, "targets"):
            files.check("/".join(part for part in (self.path.strip("/"), path) if part))

    @property
    def led_to(self) -> Collection[str]:
        """The paths and URLs that references lead to which were checked."""
        files = getattr(self.fs, "sync_fs", self.fs)
        return files.led_to if hasattr(files, "targets") else ()

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield names in a folder: with no path of its own the base class takes none off theirs."""
        path = "/".join(part for part in (self.path.rstrip("/"), prefix.strip("/")) if part)
        with suppress(FileNotFoundError, NotADirectoryError):
            for name in await self.fs._ls(path, detail=False):
                yield name.rstrip("/").rpartition("/")[2]


def chain(address: str, allowed: tuple[str, ...]) -> ChainStore:
    """Return a store of a chain, whose links are made as for those who do not know of asyncio.

    Made as zarr makes them, `reference` refuses what it refers to on web servers, and `dir` all.
    References may lead to what is `allowed`, beside their own origin or folder.

    Raises
    ------
    SourceError
        If a link is a special file, or references are not read in such a place.
    Exception
        Whatever fsspec raises.
    """
    from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

    for link in address.split(_LINKS):
        refuse_special(_IN_FILES.sub("", link))  # what is no path is none
    made, path = opened_in_time(address, lambda: _files_of(address, allowed))
    return ChainStore(AsyncFileSystemWrapper(made, asynchronous=True), read_only=True, path=path)


def _files_of(address: str, allowed: tuple[str, ...]) -> tuple[Any, str]:
    """Return fsspec's file system of a chain, and the path in it."""
    from fsspec.core import filesystem, url_to_fs

    link, _, target = address.partition(_LINKS)
    if target and (found := _REFERENCES.fullmatch(link)):
        return _references(address, target, (found["inner"] or "").strip("/"), allowed)
    others = target.split(_LINKS)
    if not any(_REFERENCES.fullmatch(other) for other in others):
        made, path = url_to_fs(address)
        return made, path
    if link.partition("://")[0] not in _ROUND:
        raise SourceError(
            f"{without_secrets(address)}: references are read at the beginning of a chain, or "
            f"after {', '.join(_ROUND)}: omit {without_secrets(link)!r}"
        )
    made, path = _files_of(target, allowed)
    return filesystem(link.partition("://")[0], fs=made), path


def _references(address: str, target: str, inner: str, allowed: tuple[str, ...]) -> tuple[Any, str]:
    if tables := tables_in(address):
        from chunkfold.stores.reference_tables import TabledReferences

        return TabledReferences(tables[0], allowed), inner
    from chunkfold.stores.reference_files import ReferenceFile

    return ReferenceFile(target, allowed), inner

"""fsspec's file systems of what references lead to: each read is of a target that was checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fsspec import filesystem
from fsspec.core import split_protocol
from fsspec.implementations.local import LocalFileSystem

from chunkfold.stores.regular_files import read_regular
from chunkfold.stores.targets import Targets


class TargetFiles(dict[str | None, Any]):
    """The file systems of targets by their protocols, made when they are needed."""

    def __init__(self, targets: Targets) -> None:
        super().__init__()
        self._targets = targets

    def __missing__(self, protocol: str | None) -> Any:
        if protocol is None:
            made: Any = _RegularFiles()
        elif protocol.lower() in ("http", "https"):
            from chunkfold.stores.web_files import web_files  # it takes aiohttp

            made = web_files(self._targets)
        else:
            made = filesystem(protocol)
        self[protocol] = made
        return made

    def __iter__(self) -> Iterator[str | None]:
        return iter(list(super().__iter__()))


class _RegularFiles(LocalFileSystem):  # type: ignore[misc] # fsspec has no annotations
    """Local files, of which regular ones are read."""

    cachable = False

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        return read_regular(path, start or 0, end)


def protocol_of(target: str) -> str | None:
    """Return how a target is reached; None if it is a local path."""
    protocol: str | None = split_protocol(target)[0]
    return protocol

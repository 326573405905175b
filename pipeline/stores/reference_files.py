"""Files of references: fetched once, parsed once, checked, and read as a folder.

fsspec is given what was parsed and checked, never the address: a server may answer otherwise the
second time.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Iterator
from typing import Any

from fsspec import filesystem
from fsspec.core import split_protocol, url_to_fs
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.reference import ReferenceFileSystem, ReferenceNotReachable

from chunkfold.errors import ChangedError, SourceError, TargetError
from chunkfold.redaction import without_secrets
from chunkfold.settings import metadata_bytes
from chunkfold.stores.reference_texts import parsed, problem_of, shown
from chunkfold.stores.regular_files import read_regular, too_large
from chunkfold.stores.targets import Targets, file_of, last_link

_BASE64 = "base64:"


class CheckedReferences(ReferenceFileSystem):  # type: ignore[misc] # fsspec has no annotations
    """The files that references make up; a target is checked whenever it is read."""

    cachable = False  # others may have written them anew

    def __init__(self, targets: Targets, references: Any, **options: Any) -> None:
        super().__init__({}, fs={}, **options)
        self.targets = targets
        self.references = references
        self.fss = TargetFiles(targets)
        self._checked: set[str] = set()
        self.led_to: set[str] = set()
        """Targets that `check` has seen."""

    def check(self, prefix: str) -> None:
        """Check all references below a path, before any chunk is read.

        Raises
        ------
        TargetError
            If one is malformed, or leads where it may not lead.
        """
        if prefix in self._checked:
            return
        for key, to in self.references.items():
            if key.startswith(f"{prefix}/" if prefix else ""):
                self._refuse_malformed(key, to)
                if isinstance(to, list) and to[0] not in self.led_to:
                    self.led_to.add(self.targets.checked(to[0]))
        self._checked.add(prefix)

    def _refuse_malformed(self, key: str, to: Any) -> None:
        if problem := problem_of(to):
            raise self._malformed(key, problem)

    def _malformed(self, key: str, problem: str) -> TargetError:
        return TargetError(
            f"{self.targets.shown}: its reference {key!r} {problem}; a reference is a text, "
            "[address] or [address, offset, size]: write the references again"
        )

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Say what is at a path, without asking for targets."""
        name = self._strip_protocol(path)
        if self.references.get(name) is None:
            self.ls(name)  # which raises if there is nothing
            return {"name": name, "type": "directory", "size": 0}
        return {"name": name, "type": "file", "size": None}

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        return self.info(path)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        """Read what a reference is of.

        Raises
        ------
        TargetError
            If it is malformed, or leads where it may not lead.
        ReferenceNotReachable
            If its target cannot be read.
        """
        found, first, last = self._cat_common(path, start, end)
        if isinstance(found, bytes):
            return found[start:end]
        try:
            read: bytes = self.fss[protocol_of(found)].cat_file(found, start=first, end=last)
        except SourceError:
            raise
        except Exception as error:
            raise ReferenceNotReachable(path, without_secrets(found)) from error
        return read

    async def _cat_file(self, path: str, *given: Any, **more: Any) -> bytes:
        return await asyncio.to_thread(self.cat_file, path, *given, **more)

    def _cat_common(self, path: str, start: int | None = None, end: int | None = None) -> Any:
        """Return the bytes of a reference, or its target and which bytes of that."""
        path = self._strip_protocol(path)
        try:
            to = self.references[path]
        except KeyError as error:
            raise FileNotFoundError(path) from error
        self._refuse_malformed(path, to)
        if isinstance(to, str) and to.startswith(_BASE64):
            try:
                return base64.b64decode(to[len(_BASE64) :], validate=True), None, None
            except ValueError:
                raise self._malformed(path, f"is {shown(to)}, which is not base64") from None
        if isinstance(to, (str, bytes)):
            try:
                return to.encode() if isinstance(to, str) else to, None, None
            except UnicodeEncodeError:
                raise self._malformed(path, f"is {shown(to)}, which is not text") from None
        target = self.targets.checked(to[0])
        if len(to) == 1:
            return target, start, end
        first, last = to[1], to[1] + to[2]
        begin = first if start is None else (first if start >= 0 else last) + start
        stop = last if end is None else (first if end >= 0 else last) + end
        return target, max(first, min(begin, last)), max(first, min(stop, last))


class ReferenceFile(CheckedReferences):
    """The files that a file of references makes up. Pickles as its address.

    Parameters
    ----------
    address
        The file of references, which may be a chain.
    allowed
        Prefixes to which they may lead, beside their own origin or folder.
    digest
        Of the content, where it was read before.

    Raises
    ------
    SourceError
        If they are too large, or no references.
    ChangedError
        If the content is another.
    """

    def __init__(
        self, address: str, allowed: tuple[str, ...] = (), digest: str = "", **options: Any
    ) -> None:
        targets = Targets(last_link(address), allowed)
        content = fetched(*files_of(address, targets), targets.shown)
        self.digest = hashlib.sha256(content).hexdigest()
        if digest not in ("", self.digest):
            raise ChangedError(f"{targets.shown}: the references changed; run it again")
        super().__init__(targets, parsed(content, targets.shown), **options)
        self.address, self.allowed = address, allowed

    def __reduce__(self) -> Any:
        return ReferenceFile, (self.address, self.allowed, self.digest)


def files_of(address: str, targets: Targets) -> tuple[Any, str]:
    """Return the file system of an address, and the path in it."""
    if last_link(address) != address:
        return _by_fsspec(address)
    if (path := file_of(address)) is not None:
        return TargetFiles(targets)[None], path
    if protocol_of(address) in ("http", "https"):
        from chunkfold.stores.web_files import web_files  # it takes aiohttp

        return web_files(targets, anywhere=True), address
    return _by_fsspec(address)


def _by_fsspec(address: str) -> tuple[Any, str]:
    files, path = url_to_fs(address)
    return files, path


def fetched(files: Any, path: str, name: str) -> bytes:
    """Read a file, once, and no more of it than metadata may have.

    Raises
    ------
    SourceError
        If it has more.
    """
    most = metadata_bytes()
    content: bytes = files.cat_file(path, start=0, end=most + 1)
    if len(content) > most:
        raise too_large(name, most)
    return content


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

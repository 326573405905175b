"""Stores of zarr that mind what they read: regular files, metadata of a bound, in bounded time.

Both bounds are of Dask's configuration: `chunkfold.store.deadline` of a single read, and
`chunkfold.store.metadata-bytes`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import Any, TypeVar

from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.buffer import default_buffer_prototype
from zarr.storage import FsspecStore, LocalStore, ObjectStore, ZipStore

from chunkfold.deadline import in_background
from chunkfold.errors import SourceError
from chunkfold.redaction import without_secrets
from chunkfold.settings import metadata_bytes, store_seconds
from chunkfold.stores.content_encoding import decoded, encoding_of
from chunkfold.stores.regular_files import read_regular, refuse_special, too_large

METADATA = frozenset({"zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata"})
"""Names of objects that say what others are."""

T = TypeVar("T")


def careful(store: Any) -> Any:
    """Return a store that minds what it reads in the place of one, or of an address.

    Its path is absolute: workers have other working folders.

    Raises
    ------
    SourceError
        If it is in a special file.
    Exception
        Whatever fsspec raises.
    """
    if isinstance(store, (str, Path)):
        address = str(store)
        if "://" not in address:
            return CarefulFiles(Path(address).absolute(), read_only=True)
        return opened_in_time(address, lambda: CarefulFsspec.from_url(address, read_only=True))
    if type(store) is LocalStore:
        return CarefulFiles(store.root.absolute(), read_only=store.read_only)
    if type(store) is ObjectStore:
        folder = folder_of(store)
        if folder is not None:  # obstore reads files in small pieces
            return CarefulFiles(folder, read_only=store.read_only)
        return CarefulObjects(store.store, read_only=store.read_only)
    if type(store) is ZipStore and (store.read_only or not store._is_open):
        refuse_special(store.path)
        return CarefulZip(Path(store.path).absolute())
    return store


def folder_of(store: ObjectStore[Any]) -> Path | None:
    """Return the folder whose files obstore reads; None if it reads something else."""
    from obstore.store import LocalStore as LocalObjects  # who has an ObjectStore has obstore

    local = type(store.store) is LocalObjects
    return Path(store.store.prefix or "/").absolute() if local else None


def opened_in_time(address: str, call: Callable[[], T]) -> T:
    """Run a call that reads of what an address names.

    Raises
    ------
    SourceError
        If it does not end in time.
    """
    opening = in_background(call)
    try:
        return opening.result(store_seconds())
    except FutureTimeoutError:
        if opening.done():
            raise
        raise _late(without_secrets(address)) from None


class CarefulFiles(LocalStore):
    """A local folder, of which regular files are read."""

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:
        """Read a file; None if there is none."""
        start, stop = _cut(byte_range)
        try:
            found = read_regular(str(self.root / key), start, stop, _most_of(key))
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None
        return (prototype or default_buffer_prototype()).buffer.from_bytes(found)

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        """Run `get_sync` in a thread."""
        if not self._is_open:
            await self._open()
        read = asyncio.to_thread(self.get_sync, key, prototype=prototype, byte_range=byte_range)
        return await in_time(str(self.root / key), read)

    async def get_partial_values(
        self, prototype: Any, key_ranges: Iterable[tuple[str, Any]]
    ) -> list[Any]:
        """Read parts of files."""
        reads = [self.get(key, prototype, byte_range) for key, byte_range in key_ranges]
        return list(await asyncio.gather(*reads))


class CarefulZip(ZipStore):
    """A ZIP file, whose metadata are not unpacked if they are large."""

    def _get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        if not self._is_open:
            self._sync_open()
        most, info = _most_of(key), self._zf.NameToInfo.get(key)
        if most is not None and info is not None and info.file_size > most:
            raise too_large(f"{self}/{key}", most)
        return super()._get(key, prototype, byte_range)

    def _locked(self, key: str, prototype: Any, byte_range: Any) -> Any:
        with self._lock:
            return self._get(key, prototype, byte_range)

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """Read a member, or a part of one; None if there is none."""
        read = asyncio.to_thread(self._locked, key, prototype, byte_range)
        return await in_time(f"{self}/{key}", read)

    def _sync_open(self) -> None:
        refuse_special(self.path)
        super()._sync_open()


class CarefulObjects(ObjectStore[Any]):
    """A store of obstore's."""

    @property
    def asked(self) -> Any:
        """The store that is asked for whole objects."""
        return self.store

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """Read an object, or a part of one; None if there is none."""
        name, most = f"{self.store}/{key}", _most_of(key)
        if byte_range is not None:
            return await in_time(name, super().get(key, prototype, byte_range))
        found = await in_time(name, self._whole(key, name, most))
        return None if found is None else prototype.buffer.from_bytes(found)

    async def _whole(self, key: str, name: str, most: int | None) -> Any:
        import obstore

        try:
            answer = await obstore.get_async(self.asked, key)
        except FileNotFoundError:
            return None
        encoding = encoding_of(answer.attributes)
        if most is None:
            content = await answer.bytes_async()
            return decoded(bytes(content), encoding) if encoding else content
        found = bytearray()
        async for piece in answer.stream():
            found += piece
            if len(found) > most:
                raise too_large(without_secrets(name), most)
        return decoded(bytes(found), encoding, most)


class CarefulFsspec(FsspecStore):
    """A store of fsspec's."""

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """Read an object, or a part of one; None if there is none."""
        name, most = f"{self.path}/{key}", _most_of(key)
        if most is None or byte_range is not None:
            return await in_time(name, super().get(key, prototype, byte_range))
        part = RangeByteRequest(0, most + 1)
        found = await in_time(name, super().get(key, prototype, part))
        if found is not None and len(found) > most:
            raise too_large(without_secrets(name), most)
        return found


async def in_time(name: str, read: Awaitable[T]) -> T:
    """Wait for a read of what a name is of.

    Raises
    ------
    SourceError
        If it does not end in time.
    """
    reading = asyncio.ensure_future(read)
    try:
        async with asyncio.timeout(store_seconds()) as waited:
            return await reading
    except TimeoutError:
        if not waited.expired():
            raise
        raise _late(without_secrets(name)) from None
    finally:
        reading.cancel()


def _late(name: str) -> SourceError:
    return SourceError(
        f"{name}: is not read after {store_seconds():g} s: its store does not answer; "
        "chunkfold.store.deadline in Dask's configuration says how long to wait"
    )


def _cut(asked: Any) -> tuple[int, int | None]:
    """Return where a part that zarr asks for begins, and ends."""
    if isinstance(asked, RangeByteRequest):
        return asked.start, asked.end
    if isinstance(asked, SuffixByteRequest):
        return -asked.suffix, None
    return (asked.offset if isinstance(asked, OffsetByteRequest) else 0), None


def _most_of(key: str) -> int | None:
    """Return the bytes that an object may have; None if it may have any number."""
    return metadata_bytes() if key.rpartition("/")[2] in METADATA else None

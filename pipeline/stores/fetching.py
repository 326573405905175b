"""Bring objects from behind a network, whole or in part: many at once, through `flight`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

from chunkfold.stores.content_encoding import decoded, encoding_of
from chunkfold.stores.expected import ObjectState
from chunkfold.stores.listing import nanoseconds
from chunkfold.stores.objects import Span, StoredObject
from chunkfold.stores.requests import RemoteRequest, Response, flight
from chunkfold.stores.retry_after import wait_wanted
from chunkfold.stores.transient_faults import fault_of

PIECE_BYTES = 8 << 20
"""Objects larger than two of these are brought in pieces, several at once."""
_APART = 64 << 10
"""Ranges that lie no farther apart are brought as one."""
SpansOf = Callable[[StoredObject], Sequence[Span]]
"""Says, by an object of which the index is there, what else is wanted of it."""


@dataclass(frozen=True)
class ServerStore:
    """A store of obstore's, and by what requests to its server are counted."""

    store: Any
    name: str

    async def ask(self, path: str, request: RemoteRequest[Response], **given: Any) -> Response:
        """Make a request for an object, as `Flight.ask`."""

        def wanted(error: BaseException) -> Awaitable[float]:
            return wait_wanted(self.store, path, error)

        return await flight().ask(
            self.name, request, wanted=wanted, **({"passing": fault_of} | given)
        )

    async def get(self, path: str, **options: Any) -> tuple[ObjectState, Any, str]:
        """Return an object's state, its bytes or a range of them, and how they are encoded."""
        import obstore

        async def request() -> tuple[ObjectState, Any, str]:
            result = await obstore.get_async(self.store, path, options=cast("Any", options) or None)
            content = await result.bytes_async()
            return state_of(result.meta), content, encoding_of(result.attributes)

        return await self.ask(path, request)

    async def ranges(self, path: str, spans: Sequence[Span]) -> dict[Span, memoryview]:
        """Return spans of an object; such as lie side by side are brought as one."""
        found: dict[Span, memoryview] = {}
        joined = _joined(spans)
        parts = await asyncio.gather(*(self._range(path, *whole) for whole, _ in joined))
        for (whole, inner), part in zip(joined, parts, strict=True):
            for at, nbytes in inner:
                found[at, nbytes] = memoryview(part)[at - whole[0] : at - whole[0] + nbytes]
        return found

    async def _range(self, path: str, start: int, nbytes: int) -> Any:
        import obstore

        async def request() -> Any:
            return await obstore.get_range_async(self.store, path, start=start, length=nbytes)

        return await self.ask(path, request)

    async def head(self, path: str) -> ObjectState:
        """Return an object's state."""
        import obstore

        async def request() -> ObjectState:
            return state_of(await obstore.head_async(self.store, path))

        return await self.ask(path, request)


def server_store_of(store: Any, hasty: Any = None) -> ServerStore:
    """Return the server of a store of obstore's; `hasty` is the same, which tries nothing again."""
    told = getattr(store, "config", {})
    url = getattr(store, "url", "") or told.get("endpoint", "")
    name = urlsplit(str(url)).netloc or told.get("bucket", "")
    return ServerStore(hasty or store, f"{type(store).__name__} {name}")


def state_of(meta: Any) -> ObjectState:
    """Return what obstore tells of an object."""
    return ObjectState(meta["size"], nanoseconds(meta["last_modified"]))


def _joined(spans: Sequence[Span]) -> list[tuple[Span, list[Span]]]:
    """Join spans that lie side by side; return each whole, and what is in it.

    >>> _joined([(0, 4), (1 << 20, 8), (6, 2)])
    [((0, 8), [(0, 4), (6, 2)]), ((1048576, 8), [(1048576, 8)])]
    """
    joined: list[tuple[Span, list[Span]]] = []
    for at, nbytes in sorted(spans):
        if joined and at - sum(joined[-1][0]) <= _APART:
            (start, length), inner = joined[-1]
            joined[-1] = (start, max(length, at + nbytes - start)), [*inner, (at, nbytes)]
        else:
            joined.append(((at, nbytes), [(at, nbytes)]))
    return joined


@dataclass
class Fetched:
    """An object behind a network, and what was brought of it: a `StoredObject`."""

    server: ServerStore
    path: str
    size: int
    modified: int
    """When it had been written, by the first answer: nanoseconds since 1970."""
    encoded: int | None = None
    """Bytes that it has in the store, where it comes encoded otherwise than it is."""
    held: dict[Span, Any] = field(default_factory=dict)
    """What was brought of it."""
    answers: int = 1
    """That this is made of: with the later ones another version may have come."""

    def state(self) -> ObjectState:
        """Ask again, if it was brought by several requests."""
        if self.answers == 1:
            return ObjectState(self.size if self.encoded is None else self.encoded, self.modified)
        return flight().waited(lambda: self.server.head(self.path))

    def fetch(self, spans: Sequence[Span]) -> None:
        """Bring spans, but those that are there."""
        flight().waited(lambda: self.bring(spans))

    async def bring(self, spans: Sequence[Span]) -> None:
        """Bring spans, but those that are there."""
        wanted = [span for span in spans if span not in self.held and span[1]]
        if (0, self.size) not in self.held and wanted:
            self.held = {**self.held, **await self.server.ranges(self.path, wanted)}
            self.answers += 1

    def read(self, span: Span) -> memoryview:
        """Return a span's bytes."""
        whole = self.held.get((0, self.size))
        if whole is not None:
            return memoryview(whole)[span[0] : sum(span)]
        if span[1] and span not in self.held:
            self.fetch([span])
        return memoryview(self.held[span]) if span[1] else memoryview(b"")

    def read_into(self, pieces: Sequence[memoryview], offset: int) -> None:
        """Fill memory with what stands from an offset on."""
        wanted = sum(piece.nbytes for piece in pieces)
        found = self.read((offset, wanted))
        if len(found) != wanted:
            raise ValueError(f"it ends after {len(found):,} of {wanted:,} bytes: it was cut")
        for piece in pieces:
            piece[:], found = found[: piece.nbytes], found[piece.nbytes :]


async def fetched(
    server: ServerStore, path: str, whole: int, index: Span | None, spans_of: SpansOf | None
) -> Fetched:
    """Bring an object, or its index and what is wanted besides; parameters as `Objects.open`."""
    from obstore.exceptions import NotSupportedError

    if index is None and whole <= 2 * PIECE_BYTES:
        return await _whole(server, path)
    offset, nbytes = index or (0, PIECE_BYTES)
    wanted: Any = {"suffix": nbytes} if offset < 0 else (offset, offset + nbytes)
    try:
        (size, modified), first, encoding = await server.get(path, range=wanted)
    except NotSupportedError:  # Azure knows no suffixes, plain servers no ranges
        return await _whole(server, path)
    if encoding:  # of which no part can be decoded
        return await _whole(server, path)
    at = size - len(first) if offset < 0 else offset
    found = Fetched(server, path, size, modified, held={(at, len(first)): first})
    if index is None:
        starts = range(len(first), size, PIECE_BYTES)
        rest = await asyncio.gather(
            *(server.ranges(path, [(start, min(PIECE_BYTES, size - start))]) for start in starts)
        )
        pieces = [memoryview(first), *(part for one in rest for part in one.values())]
        found.held, found.answers = {(0, size): b"".join(pieces)}, len(pieces)
    elif spans_of is not None:
        spans: Sequence[Span] = []
        with contextlib.suppress(Exception):  # whoever decodes a damaged one says what is wrong
            spans = spans_of(found)
        await found.bring([span for span in spans if sum(span) <= size])
    return found


async def _whole(server: ServerStore, path: str) -> Fetched:
    (_, modified), content, encoding = await server.get(path)
    encoded = len(content) if encoding else None
    if encoding:
        content = decoded(bytes(content), encoding)
    size = len(content)
    return Fetched(server, path, size, modified, encoded, {(0, size): content})

"""Bring objects from behind a network, whole or in part: many at once, through `flight`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from chunkfold.errors import ChangedError
from chunkfold.http_denials import MISSING, denial, status_of
from chunkfold.stores.expected import UNTOLD, ObjectState
from chunkfold.stores.hedged_requests import Response
from chunkfold.stores.object_answers import ObjectAnswer, TooLargeError, answer_of, state_at
from chunkfold.stores.objects import Span, StoredObject
from chunkfold.stores.requests import RemoteRequest, flight
from chunkfold.stores.retry_after import wait_wanted
from chunkfold.stores.transient_faults import fault_of

PIECE_BYTES = 8 << 20
"""Objects larger than two of these are brought in pieces, several at once."""
_APART = 64 << 10
"""Ranges that lie no farther apart are brought as one."""
SpansOf = Callable[[StoredObject], Sequence[Span]]
"""Says, by an object of which the index is there, what else is wanted of it. It waits for nothing:
the event loop calls it."""


@dataclass(frozen=True)
class ServerStore:
    """A store of obstore's, and by what requests to its server are counted."""

    store: Any
    name: str
    planned: int = UNTOLD
    """The time when the run was planned, by the server's clock: later writes are refused."""

    async def ask(self, path: str, request: RemoteRequest[Response], **given: Any) -> Response:
        """Make a request for an object, as `Flight.ask`."""

        def wanted(error: BaseException) -> Awaitable[float]:
            return wait_wanted(self.store, path, error)

        return await flight().ask(
            self.name, request, wanted=wanted, **({"passing": fault_of} | given)
        )

    async def get(self, path: str, most: int, span: Span | None = None) -> ObjectAnswer:
        """Return an answer for an object or a span of it, as `answer_of`.

        Raises
        ------
        ChangedError
            If it was written after the run was planned.
        """
        answer = await self.ask(path, lambda: answer_of(self.store, path, most, span))
        answer.state.refuse_later(self.planned)
        return answer

    async def spans(
        self, path: str, spans: Sequence[Span], first: ObjectState
    ) -> dict[Span, memoryview]:
        """Return spans of an object; such as lie side by side are brought as one.

        Raises
        ------
        ChangedError
            If it is not what it was when it was asked for first.
        """
        found: dict[Span, memoryview] = {}
        joined = _joined(spans)
        try:
            parts = await asyncio.gather(*(self.get(path, whole[1], whole) for whole, _ in joined))
        except Exception as error:
            if not (isinstance(error, FileNotFoundError) or status_of(error) in MISSING):
                raise
            now = denial(error) or "it is gone"
            raise ChangedError(f"the first request found it, and now {now}") from error
        for (whole, inner), part in zip(joined, parts, strict=True):
            first.refuse_other(part.state)
            for at, nbytes in inner:
                found[at, nbytes] = memoryview(part.content)[at - whole[0] :][:nbytes]
        return found

    async def head(self, path: str) -> ObjectState:
        """Return an object's state; it raises as `get`."""
        state = await self.ask(path, lambda: state_at(self.store, path))
        state.refuse_later(self.planned)
        return state


def server_store_of(store: Any, hasty: Any = None, planned: int = UNTOLD) -> ServerStore:
    """Return the server of a store of obstore's; `hasty` is the same, which tries nothing again."""
    told = getattr(store, "config", {})
    url = getattr(store, "url", "") or told.get("endpoint", "")
    name = urlsplit(str(url)).netloc or told.get("bucket", "")
    return ServerStore(hasty or store, f"{type(store).__name__} {name}", planned)


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
    first: ObjectState
    """The state in the first answer; all other answers must have the same."""
    most: int
    """Bytes that all of it may have."""
    held: dict[Span, Any] = field(default_factory=dict)
    """The pieces that were fetched, by their spans."""

    def state(self) -> ObjectState:
        """Return its state."""
        return self.first

    def fetch(self, spans: Sequence[Span]) -> None:
        """Bring spans, but those that are there."""
        flight().waited(lambda: self.bring(spans))

    async def bring(self, spans: Sequence[Span]) -> None:
        """Bring spans, but those that are there; or all, where the server cannot send them."""
        from obstore.exceptions import NotSupportedError

        wanted = [span for span in spans if span not in self.held and span[1]]
        if (0, self.size) in self.held or not wanted:
            return
        try:
            found = await self.server.spans(self.path, wanted, self.first)
            self.held = {**self.held, **found}
        except NotSupportedError:
            whole = await _whole(self.server, self.path, self.most)
            self.first.refuse_other(whole.first)
            self.held = whole.held

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
        source = np.frombuffer(found, np.uint8)
        for piece in pieces:  # copied by NumPy, which lets other threads run
            np.copyto(np.frombuffer(piece, np.uint8), source[: piece.nbytes])
            source = source[piece.nbytes :]


async def fetched(
    server: ServerStore,
    path: str,
    whole: int,
    most: int,
    index: Span | None,
    spans_of: SpansOf | None,
) -> Fetched:
    """Bring an object, or its index and what is wanted besides; parameters as `Objects.open`.

    Raises
    ------
    TooLargeError
        If it is larger than `most`.
    ChangedError
        If it was written to between two answers, or after the run was planned.
    """
    from obstore.exceptions import NotSupportedError

    if index is None and whole <= 2 * PIECE_BYTES:
        return await _whole(server, path, most)
    try:
        first = await server.get(path, most, index or (0, PIECE_BYTES))
    except NotSupportedError:  # Azure knows no suffixes, plain servers no ranges
        return await _whole(server, path, most)
    if first.encoding:  # of which no part can be decoded
        return await _whole(server, path, most)
    size, nbytes = first.state.size, len(first.content)
    held = {(first.start, nbytes): memoryview(first.content)}
    found = Fetched(server, path, size, first.state, most, held)
    if index is None:
        if size > most:
            raise TooLargeError(size, most)
        starts = range(nbytes, size, PIECE_BYTES)
        spans = [(start, min(PIECE_BYTES, size - start)) for start in starts]
        await asyncio.gather(*(found.bring([span]) for span in spans))
        if (0, size) not in found.held:
            found.held = {(0, size): b"".join(found.held[span] for span in sorted(found.held))}
    elif spans_of is not None:
        wanted: Sequence[Span] = []
        with contextlib.suppress(Exception):  # whoever decodes a damaged one says what is wrong
            wanted = spans_of(found)
        await found.bring(wanted)
    return found


async def _whole(server: ServerStore, path: str, most: int) -> Fetched:
    return whole_of(server, path, await server.get(path, most), most)


def whole_of(server: ServerStore, path: str, answer: ObjectAnswer, most: int) -> Fetched:
    """Return an object that came whole."""
    content = answer.decoded(most)
    held = {(0, len(content)): content}
    return Fetched(server, path, len(content), answer.state, most, held)

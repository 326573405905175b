"""One request for an object: what came, no more than it may be, and as much as was said."""

from __future__ import annotations

import asyncio
import contextlib
import http
import http.client
import urllib.error
from dataclasses import dataclass
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any, cast

from chunkfold.deadline import in_background
from chunkfold.settings import stall_seconds
from chunkfold.stores.content_encoding import decoded, encoding_of
from chunkfold.stores.expected import UNTOLD, ObjectState
from chunkfold.stores.listing import nanoseconds
from chunkfold.stores.objects import Span
from chunkfold.stores.plain_requests import answered, url_of

_PIECE_BYTES = 1 << 20
_TRUSTED_BYTES = 1 << 30
"""Room that is made for an answer before it comes, at most."""
_NO_LENGTH = "Content-Length Header missing"
"""obstore's message for an answer in chunks, or one that ends with its connection."""


class TooLargeError(ValueError):
    """An object has more bytes than it may have."""

    def __init__(self, nbytes: int, most: int, *, counted: bool = False) -> None:
        more = " or more" if counted else ""
        super().__init__(
            f"it has {nbytes:,} bytes{more}, more than {most:,}: it cannot be this chunk"
        )


@dataclass(frozen=True)
class ObjectAnswer:
    """An answer of a server that has the content of an object."""

    state: ObjectState
    """Its size is that in the store, where it comes encoded."""
    start: int
    """Offset of the first byte that came."""
    content: memoryview
    encoding: str
    """The content encoding; empty if there is none."""

    def decoded(self, most: int) -> memoryview:
        """Return the content as it is.

        Raises
        ------
        ValueError
            If it has more bytes than `most`, or cannot be decoded.
        """
        return memoryview(decoded(self.content, self.encoding, most))


async def answer_of(store: Any, path: str, most: int, span: Span | None = None) -> ObjectAnswer:
    """Ask a store of obstore's once for an object, or a span of it.

    A span that begins before 0 is at the end. Sizes are looked at before bytes are asked for: to
    make room for what a server only says that it has may end the process.

    Raises
    ------
    TooLargeError
        If there are more bytes than `most`.
    ValueError
        If they are not as many as the server said.
    NotSupportedError
        If the server knows no such spans, or does not tell the length of one.
    """
    import obstore
    from obstore.exceptions import GenericError, NotSupportedError

    wanted: Any = None
    if span is not None:
        wanted = {"range": {"suffix": span[1]} if span[0] < 0 else (span[0], sum(span))}
    try:
        result = await obstore.get_async(store, path, options=wanted)
    except GenericError as error:
        if _NO_LENGTH not in str(error):
            raise
        if span is not None:
            raise NotSupportedError(str(error)) from error
        return await _without_length(store, path, most, error)
    start, end = _range_of(result, most)
    if _ends(store, end - start):
        content = memoryview(await result.bytes_async())
    else:  # one piece is all of it, but where a server sends more
        stream = aiter(result.stream(min_chunk_size=end - start + 1))
        content = memoryview(await anext(stream, b""))
    return _answer(result, content)


def answer_now(store: Any, path: str, most: int) -> ObjectAnswer:
    """Ask for a whole object as `answer_of`, and wait: other threads run meanwhile."""
    import obstore

    result = obstore.get(store, path)
    start, end = _range_of(result, most)
    if _ends(store, end - start):
        return _answer(result, memoryview(result.bytes()))
    stream = iter(result.stream(min_chunk_size=end - start + 1))
    return _answer(result, memoryview(next(stream, b"")))


def _ends(store: Any, nbytes: int) -> bool:
    """Return True if an answer may be taken whole: without a copy, and without a look at its end.

    Object stores send as much as they say. Web servers can send without end what they said is
    short: chunks (RFC 9112, 7.1), or another length than that of a range.
    """
    return not is_web_server(store) and nbytes <= _TRUSTED_BYTES


def is_web_server(store: Any) -> bool:
    """Return True for obstore's store of plain HTTP, which has no listings."""
    return type(store).__name__ == "HTTPStore"


def _range_of(result: Any, most: int) -> tuple[int, int]:
    """Return where what comes begins and ends in the object, before it comes."""
    start, end = result.range
    if end - start > most:
        raise TooLargeError(end - start, most)
    return start, end


def _answer(result: Any, content: memoryview) -> ObjectAnswer:
    start, end = result.range
    if len(content) != end - start:
        more = "or more " if len(content) > end - start else ""
        raise ValueError(f"the server sent {len(content):,} {more}bytes of {end - start:,}")
    return ObjectAnswer(state_of(result.meta), start, content, encoding_of(result.attributes))


async def state_at(store: Any, path: str) -> ObjectState:
    """Ask a store of obstore's once for an object's state, whose size is 0 if it is not told."""
    import obstore
    from obstore.exceptions import GenericError

    try:
        return state_of(await obstore.head_async(store, path))
    except GenericError as error:
        if _NO_LENGTH not in str(error):
            raise
        return (await _without_length(store, path, 0, error, "HEAD")).state


async def server_time(store: Any, path: str) -> int:
    """Ask a server what time it is, by a request for the state of an object.

    It is the object's own time where that is later: clocks of servers and of disks may differ.

    Returns
    -------
    Nanoseconds since 1970; `UNTOLD` if the server does not tell, or not in time.
    """
    options, seconds = getattr(store, "client_options", None) or {}, stall_seconds()
    if not (url := await url_of(store, path)):
        return UNTOLD
    with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
        asked = in_background(lambda: _told_time(url, options, seconds))
        return await asyncio.wait_for(asyncio.wrap_future(asked), seconds)
    return UNTOLD


def _told_time(url: str, options: Any, seconds: float) -> int:
    """Return the time that an answer tells, or a refusal, but one that names another server."""
    told: Message
    try:
        with answered(url, options, seconds, method="HEAD") as response:
            told = response.headers
    except urllib.error.HTTPError as refused:
        with refused:
            told = refused.headers
            if refused.code < http.HTTPStatus.BAD_REQUEST:
                return UNTOLD
    if not (date := _time(told["Date"])):
        return UNTOLD
    age = int(told["Age"] or 0)  # since caches have the answer, whose date is of before
    return max(date + age * 1_000_000_000, _time(told["Last-Modified"]))


def state_of(meta: Any) -> ObjectState:
    """Return what obstore tells of an object."""
    tag = (meta["e_tag"] or "").removeprefix("W/")
    return ObjectState(meta["size"], nanoseconds(meta["last_modified"]), tag)


async def _without_length(
    store: Any, path: str, most: int, error: Exception, method: str = "GET"
) -> ObjectAnswer:
    """Read an answer of which only its end tells the size: obstore refuses those."""
    url = await url_of(store, path)
    if not url:
        raise error
    options = getattr(store, "client_options", None) or {}
    return await asyncio.wrap_future(in_background(lambda: _read(url, options, most, method)))


def _read(url: str, options: Any, most: int, method: str) -> ObjectAnswer:
    """Request an object as `_without_length` does, with errors like obstore's.

    Raises
    ------
    OSError
        If the server refuses, or its answer is cut.
    """
    found = bytearray()
    try:
        with answered(url, options, stall_seconds(), method=method) as response:
            told = response.headers
            while piece := response.read(_PIECE_BYTES):
                found += piece
                if len(found) > most:
                    raise TooLargeError(len(found), most, counted=True)
    except urllib.error.HTTPError as refused:
        with refused:
            raise OSError(
                f"Server returned non-2xx status code: {refused.code} {refused.reason}"
            ) from None
    except http.client.HTTPException as error:
        raise OSError(f"the answer was cut: {error!r}") from error
    state = ObjectState(
        len(found), _time(told["Last-Modified"]), (told["ETag"] or "").removeprefix("W/")
    )
    return ObjectAnswer(state, 0, memoryview(found), encoding_of(cast("Any", told)))


def _time(date: str | None) -> int:
    """Return an HTTP date in nanoseconds since 1970; 0 where it is none."""
    try:
        return nanoseconds(parsedate_to_datetime(date or ""))
    except (ValueError, TypeError):
        return 0

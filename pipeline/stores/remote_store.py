"""A store behind a network as zarr reads it: what it refuses may be what is not there."""

from __future__ import annotations

import contextlib
import logging
import pickle
import sys
from collections.abc import Callable, Collection
from contextvars import ContextVar
from typing import Any

from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest

from chunkfold.http_denials import MISSING, refusal, status_of
from chunkfold.redaction import without_secrets
from chunkfold.settings import metadata_bytes, retry_seconds
from chunkfold.stores.fetching import server_store_of
from chunkfold.stores.guarded_stores import METADATA, CarefulObjects, in_time
from chunkfold.stores.object_answers import TooLargeError, answer_of
from chunkfold.stores.objects import Span
from chunkfold.stores.regular_files import too_large
from chunkfold.stores.requests import flight
from chunkfold.stores.transient_faults import Fault, fault_of

_LOG = logging.getLogger(__name__)
MOST_OF_CHUNK = ContextVar("chunkfold_most_of_chunk", default=sys.maxsize)
"""Bytes beyond which an object that zarr reads is none of the array that is read."""


class RemoteStore(CarefulObjects):
    """An object store, opened to be read.

    Of metadata a 403 or 410 counts as missing: an array has those of one format, and a server that
    may not be listed can refuse those of the other. Whoever opened none says what was refused.
    """

    def __init__(
        self,
        store: Any,
        *,
        read_only: bool = True,
        hasty: Any = None,
        near: Callable[[], Any] | None = None,
        missing: Collection[int] = (),
    ) -> None:
        super().__init__(store, read_only=read_only)
        self.hasty = store if hasty is None else hasty
        """The same store, which does not try again what fails: whoever asks it does."""
        self.near = near
        """Opens the same, which does not wait long either; None if that is not wanted."""
        self.missing = frozenset(missing)
        """Statuses of answers that mean of any object that it is not stored, beside 404."""
        self.refused: Exception | None = None
        """The last refusal of metadata, if there was one."""
        self.told = False
        """Whether it was said that requests are made again."""

    def __getstate__(self) -> dict[Any, Any]:
        return super().__getstate__() | {"hasty": pickle.dumps(self.hasty), "refused": None}

    def __setstate__(self, state: dict[Any, Any]) -> None:
        super().__setstate__(state | {"hasty": pickle.loads(state["hasty"])})

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """Return what is stored, or None if it is not there."""
        try:
            server, seconds = server_store_of(self.store, self.hasty), retry_seconds()
            return await flight().beside(
                lambda: server.ask(
                    key,
                    lambda: self._once(key, prototype, byte_range),
                    passing=self._passing,
                    retry_s=seconds,
                )
            )
        except Exception as error:
            status = status_of(error)
            metadata = status in MISSING and key.rpartition("/")[2] in METADATA
            if refusal(error) or not (metadata or status in self.missing):
                raise
            if metadata:
                self.refused = error
            return None

    async def _once(self, key: str, prototype: Any, byte_range: Any) -> Any:
        """Ask once for an object, or a part of one; None if it is not there."""
        name, metadata = f"{self.store}/{key}", key.rpartition("/")[2] in METADATA
        most = metadata_bytes() if metadata else MOST_OF_CHUNK.get()
        try:
            content = await in_time(name, self._content(key, most, byte_range))
        except FileNotFoundError:
            return None
        except TooLargeError:
            if not metadata:
                raise
            raise too_large(without_secrets(name), most) from None
        return prototype.buffer.from_bytes(content)

    async def _content(self, key: str, most: int, byte_range: Any) -> memoryview:
        from obstore.exceptions import NotSupportedError

        span = _span_of(byte_range)
        if span is not None:
            with contextlib.suppress(NotSupportedError):  # Azure knows no suffixes
                answer = await answer_of(self.hasty, key, most, span)
                if not answer.encoding:
                    return answer.content
        content = (await answer_of(self.hasty, key, most)).decoded(most)
        return content if span is None else content[span[0] :][: span[1]]

    def _passing(self, error: BaseException) -> Fault | None:
        """Return `fault_of` an error; log once that requests are repeated."""
        fault = fault_of(error)
        if fault is not None and not self.told:
            self.told = True
            said = without_secrets(str(error).partition("\n")[0])
            _LOG.warning("%s; it is tried again for %.0f s", said, retry_seconds())
        return fault


def _span_of(asked: Any) -> Span | None:
    """Return the span that zarr asks for; one at the end begins that far before it."""
    if isinstance(asked, RangeByteRequest):
        return asked.start, asked.end - asked.start
    if isinstance(asked, SuffixByteRequest):
        return -asked.suffix, asked.suffix
    if isinstance(asked, OffsetByteRequest):
        return asked.offset, sys.maxsize - asked.offset
    return None

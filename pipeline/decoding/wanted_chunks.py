"""Chunks that a read wants: stored objects of their own, or chunks within a shard."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakSet

import numpy as np

from chunkfold.decoding.decode_units import cells_of
from chunkfold.errors import MissingError
from chunkfold.stores.expected import Expected, ObjectState
from chunkfold.stores.fetching import Fetched
from chunkfold.stores.objects import LocalObjects, Span, StoredObject
from chunkfold.stores.remote import RemoteObjects, landed
from chunkfold.stores.requests import PendingResponse

if TYPE_CHECKING:
    from chunkfold.decoding.direct import Direct

DirectRegion = tuple[Sequence[slice], Expected | None]
"""A box of an array, and what is known of its objects."""
_STARTED = 256
"""Most objects that are requested before the first of them is decoded."""


class WantedObject(NamedTuple):
    """A stored object that a read wants: a chunk, or a shard."""

    of: Direct
    name: str
    """Name of the array in messages."""
    place: tuple[int, ...]
    key: str
    source: tuple[slice, ...]
    known: Expected | None
    landing: PendingResponse[Fetched | None] | None = None
    """The pending response, if the object was requested already."""

    @property
    def lacks(self) -> bool:
        """Tell whether the listing lacks it."""
        return self.known is not None and self.known.lacks(self.place)

    @property
    def listed(self) -> int:
        """Its size in bytes by the listing; 0 if it is not known."""
        return 0 if self.known is None else self.known.size_of(self.place)

    @property
    def nbytes(self) -> int:
        """Its stored bytes, or what its shape needs if they are not known."""
        return self.listed or self.of.nbytes

    def started(self, objects: RemoteObjects) -> WantedObject:
        """Return it with a pending response: the request is sent, and not waited for."""
        shards, size, nbytes = self.of.shards, self.listed, self.of.nbytes
        index = spans_of = None
        if shards is not None:
            cells = [inner for inner, _, _ in cells_of(self.source, self.of.shape)]
            nbytes *= len(cells)
            index, spans_of = shards.index_span, partial(self.of.spans_to_fetch, inner=cells)
        whole, room = size or self.of.nbytes, min(size or nbytes, nbytes)
        landing = objects.start(self.key, whole, index, room, spans_of, self.of.most_stored)
        return self._replace(landing=landing)

    def open(self) -> AbstractContextManager[StoredObject | None]:
        """Open it, or wait for its pending response."""
        if self.landing is not None:
            return landed(self.landing)
        index = None if self.of.shards is None else self.of.shards.index_span
        return self.of.objects.open(self.key, self.nbytes, index, self.of.most_stored)

    def check(self, found: ObjectState | None) -> None:
        """Check its state against the listing; raises as `Expected.check`."""
        if self.known is not None:
            self.known.check(self.place, found)

    def check_open(self, stored: StoredObject | None) -> None:
        """Check an opened object against the listing; raises as `Expected.check`."""
        if stored is None:
            self.check(None)
        elif self.compared is not None:
            self.compared(stored.state())

    def refuse_lacking(self, count: int) -> None:
        """Refuse a shard that lacks `count` wanted chunks, if each chunk is needed.

        Raises
        ------
        MissingError
            If `count` is above 0 and each chunk is needed.
        """
        if count and self.known is not None and self.known.needed:
            raise MissingError(f"lacks {count:,} of its chunks that are selected")

    @property
    def compared(self) -> Callable[[ObjectState], None] | None:
        """The function that checks its state against the listing; None if it was not listed."""
        known = self.known
        return None if known is None or not known.listed else partial(known.check, self.place)

    def read(self, memory: memoryview) -> int:
        """Read its stored bytes: see `batched.Chunk`."""
        assert isinstance(self.of.objects, LocalObjects)
        return self.of.objects.read_short(self.key, [memory], self.compared)

    def decode(self, target: np.ndarray) -> None:
        """Decode the taken part of it: see `batched.Chunk`."""
        try:
            self.of.read_object(self, target)
        except Exception as error:
            raise self.of.named(self.name, self.place, error) from error


Wanted = tuple[WantedObject, tuple[slice, ...]]
"""An object, and the place of its taken part in the region."""


def wanted_objects(
    of: Direct, name: str, regions: Iterable[DirectRegion]
) -> AbstractContextManager[Iterator[Wanted]]:
    """Return the objects of regions in turn; those behind a network are requested."""
    wanted = (
        (WantedObject(of, name, place, of.key(place), source, known), within)
        for region, known in regions
        for place, source, within in cells_of(region, of.object_shape)
    )
    if isinstance(of.objects, RemoteObjects):
        return _started(of.objects, wanted)
    return nullcontext(wanted)


@contextmanager
def _started(objects: RemoteObjects, wanted: Iterator[Wanted]) -> Iterator[Iterator[Wanted]]:
    """Request remote objects before their turn comes.

    At its end, also by an error, all pending responses are closed, those that were taken and not
    read too: other reads wait for their memory, and an error's frames would keep it.
    """
    begun = WeakSet[PendingResponse[Fetched | None]]()
    """Pending responses; weak, so that those that were read are freed."""

    def started(one: WantedObject) -> WantedObject:
        found = one.started(objects)
        if found.landing is not None:
            begun.add(found.landing)
        return found

    def in_turn() -> Iterator[Wanted]:
        waiting: deque[Wanted] = deque()
        for one, within in wanted:
            stored = not one.lacks
            now = stored and one.of.shards is None and objects.is_asked_now(one.nbytes)
            waiting.append((started(one) if stored and not now else one, within))
            while waiting and (now or len(waiting) >= _STARTED):
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()

    try:
        yield in_turn()
    finally:
        for landing in list(begun):
            landing.close()


class WantedInner(NamedTuple):
    """A chunk of a shard."""

    of: Direct
    stored: StoredObject
    place: tuple[int, ...]
    """Its place in the shard."""
    span: Span
    source: Sequence[slice]

    def read(self, memory: memoryview) -> int:
        """Read its stored bytes: see `batched.Chunk`."""
        at, nbytes = self.span
        if nbytes < memory.nbytes:
            self.stored.read_into([memory[:nbytes]], at)
        return nbytes

    def decode(self, target: np.ndarray) -> None:
        """Decode the taken part of it: see `batched.Chunk`."""
        try:
            if sum(self.span) > self.stored.size:
                raise ValueError(
                    f"its index says {self.span}, but the shard has {self.stored.size:,} bytes"
                )
            self.of.decoder.read(self.stored, self.span, self.source, target)
        except Exception as error:
            kind = type(error).__name__
            raise ValueError(f"inner chunk {self.place}: {kind}: {error}") from error

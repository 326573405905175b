"""A store behind a network as zarr reads it: what it refuses may be what is not there."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from chunkfold.careful import METADATA, CarefulObjects
from chunkfold.refusals import refusal, status_of

FORBIDDEN = 403
"""What servers answer that do not say what they do not have."""


class RemoteStore(CarefulObjects):
    """An object store, opened to be read.

    Of metadata a 403 counts as absent: an array has those of one format, and a server that may not
    be listed can refuse those of the other. Whoever opened none says what was refused.
    """

    def __init__(self, store: Any, *, read_only: bool = True, absent: Collection[int] = ()) -> None:
        super().__init__(store, read_only=read_only)
        self.absent = frozenset(absent)
        """Statuses of answers that mean of any object that it is not stored, beside 404."""
        self.refused: Exception | None = None
        """The last refusal of metadata, if there was one."""

    async def get(self, key: str, *given: Any, **more: Any) -> Any:
        """Return what is stored, or None if it is not there."""
        try:
            return await super().get(key, *given, **more)
        except Exception as error:
            status = status_of(error)
            metadata = status == FORBIDDEN and key.rpartition("/")[2] in METADATA
            if refusal(error) or not (metadata or status in self.absent):
                raise
            if metadata:
                self.refused = error
            return None

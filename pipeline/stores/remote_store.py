"""A store behind a network as zarr reads it: what it refuses may be what is not there."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Collection
from typing import Any

from chunkfold.redaction import without_secrets
from chunkfold.refusals import ABSENT, refusal, status_of
from chunkfold.settings import retry_seconds
from chunkfold.stores.fetching import server_store_of
from chunkfold.stores.guarded_stores import METADATA, CarefulObjects
from chunkfold.stores.requests import flight
from chunkfold.stores.transient_faults import Fault, fault_of

_LOG = logging.getLogger(__name__)


class RemoteStore(CarefulObjects):
    """An object store, opened to be read.

    Of metadata a 403 or 410 counts as absent: an array has those of one format, and a server that
    may not be listed can refuse those of the other. Whoever opened none says what was refused.
    """

    def __init__(
        self,
        store: Any,
        *,
        read_only: bool = True,
        hasty: Any = None,
        absent: Collection[int] = (),
    ) -> None:
        super().__init__(store, read_only=read_only)
        self.hasty = store if hasty is None else hasty
        """The same store, which does not try again what fails: whoever asks it does."""
        self.absent = frozenset(absent)
        """Statuses of answers that mean of any object that it is not stored, beside 404."""
        self.refused: Exception | None = None
        """The last refusal of metadata, if there was one."""
        self.told = False
        """Whether it was said that requests are made again."""

    @property
    def asked(self) -> Any:
        """The hasty one: `get` tries again."""
        return self.hasty

    def __getstate__(self) -> dict[Any, Any]:
        return super().__getstate__() | {"hasty": pickle.dumps(self.hasty), "refused": None}

    def __setstate__(self, state: dict[Any, Any]) -> None:
        super().__setstate__(state | {"hasty": pickle.loads(state["hasty"])})

    async def get(self, key: str, *given: Any, **more: Any) -> Any:
        """Return what is stored, or None if it is not there."""
        read = super().get
        try:
            server, seconds = server_store_of(self.store, self.hasty), retry_seconds()
            return await flight().beside(
                lambda: server.ask(
                    key, lambda: read(key, *given, **more), passing=self._passing, retry_s=seconds
                )
            )
        except Exception as error:
            status = status_of(error)
            metadata = status in ABSENT and key.rpartition("/")[2] in METADATA
            if refusal(error) or not (metadata or status in self.absent):
                raise
            if metadata:
                self.refused = error
            return None

    def _passing(self, error: BaseException) -> Fault | None:
        """As `fault_of`; and say once that requests are made again."""
        fault = fault_of(error)
        if fault is not None and not self.told:
            self.told = True
            said = without_secrets(str(error).partition("\n")[0])
            _LOG.warning("%s; it is tried again for %.0f s", said, retry_seconds())
        return fault

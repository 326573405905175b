"""A store behind a network as zarr reads it: what it refuses may be what is not there."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Collection
from typing import Any

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_delay,
    wait_random_exponential,
)

from chunkfold.careful import METADATA, CarefulObjects
from chunkfold.fetching import fault_of
from chunkfold.redaction import without_secrets
from chunkfold.refusals import ABSENT, refusal, status_of
from chunkfold.settings import retry_seconds

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
        try:
            return await self._again(retry_seconds())(super().get, key, *given, **more)
        except Exception as error:
            status = status_of(error)
            metadata = status in ABSENT and key.rpartition("/")[2] in METADATA
            if refusal(error) or not (metadata or status in self.absent):
                raise
            if metadata:
                self.refused = error
            return None

    def _again(self, seconds: float) -> AsyncRetrying:
        """Return what tries again what fails by the server's or the network's fault."""

        def tell(state: RetryCallState) -> None:
            error = state.outcome and state.outcome.exception()
            said = without_secrets(str(error).partition("\n")[0])
            if not self.told:
                self.told = True
                _LOG.warning("%s; it is tried again for %.0f s", said, seconds)

        return AsyncRetrying(
            retry=retry_if_exception(lambda error: fault_of(error) is not None),
            stop=stop_after_delay(seconds),
            wait=wait_random_exponential(multiplier=0.1, max=5),
            before_sleep=tell,
            reraise=True,
        )

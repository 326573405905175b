"""Failures that may pass: the network's, or those of servers that have too much to do."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    wait_random_exponential,
)

from chunkfold.http_denials import refusal, status_of
from chunkfold.settings import retry_seconds
from chunkfold.stores.retry_after import REFUSING, too_long, wait_of

_LATE = re.compile("(?<!retry_)timed? ?out|deadline", re.IGNORECASE)
"""obstore tells its own `retry_timeout` with every failure, of connections that were closed too."""
_OTHER_RANGE = re.compile(r"Requested \d+\.\.\d+, got \d")
"""obstore's message for a server that sends another range than requested."""
_LASTING = ("NotFoundError", "PermissionDeniedError", "NotSupportedError", "UnauthenticatedError")
"""Errors of obstore that another try would not mend."""
_OF_NETWORKS = ("obstore", "aiohttp", "botocore")
"""Packages whose errors are the network's, if no server answered."""


@dataclass(frozen=True)
class Fault:
    """A failure that may pass."""

    busy: bool
    """True if the server is overloaded, or did not answer in time."""
    answered: bool = False
    """True if the server said so: then it may also say how long to wait."""


def fault_of(error: BaseException) -> Fault | None:
    """Tell a failure that may pass, of a store of obstore's or fsspec's; None if it will not."""
    lasting = isinstance(error, (FileNotFoundError, PermissionError))
    if lasting or type(error).__name__ in _LASTING or refusal(error):
        return None
    if _OTHER_RANGE.search(str(error)):
        return None
    status = status_of(error) or getattr(error, "status", None)
    if not isinstance(status, int):  # nothing was answered, or not to the end
        passing = type(error).__module__.partition(".")[0] in _OF_NETWORKS
        passing |= isinstance(error, (OSError, TimeoutError))
        return Fault(busy=bool(_LATE.search(str(error)))) if passing else None
    if status in (408, 429) or status >= 500:
        return Fault(status in (408, 429, 503), answered=status in REFUSING)
    return None


def _told(error: BaseException | None) -> float:
    """Return how long a server wants to be left alone, by an error that has its headers."""
    headers = getattr(error, "headers", None) or {}
    return wait_of(headers.get("Retry-After"), headers.get("Date"))


def _pause(state: RetryCallState) -> float:
    wanted = _told(state.outcome.exception() if state.outcome else None)
    if wanted > retry_seconds():
        raise too_long(wanted, retry_seconds())
    return wanted + _PAUSES(state)


def may_pass(error: BaseException) -> bool:
    """Return True if a failure may pass and the store has not retried it itself."""
    return fault_of(error) is not None and "retries" not in str(error)


_PAUSES = wait_random_exponential(multiplier=0.2, max=10)
TRIES = Retrying(
    retry=retry_if_exception(may_pass), stop=stop_after_attempt(6), wait=_pause, reraise=True
)
"""Number and pauses of zarr's reads from stores other than `RemoteStore`."""

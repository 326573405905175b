"""Reads `Retry-After`, a server's request for a pause when it is overloaded (RFC 9110, 10.2.3).

obstore's errors have the status of an answer, but not its headers. So after a refusal a client that
reads headers requests one byte; if that is refused as well, its headers say how long to wait.
"""

from __future__ import annotations

import asyncio
import re
import time
import urllib.error
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

from chunkfold.deadline import in_background
from chunkfold.http_denials import RefusedError
from chunkfold.stores.plain_requests import answered, url_of

DEADLINE_S = 5.0
"""Longest time for the answer: the server has just given one."""
REFUSING = (429, 503)
"""Statuses by which a server says that it has too much to do, and may say until when."""


def wait_of(given: str | None, date: str | None = None) -> float:
    """Return the seconds that a server wants to be left alone; 0 where it says nothing of use.

    A date is compared with the answer's own, since this host's clock may be wrong.

    >>> wait_of("120"), wait_of("-3"), wait_of("soon"), wait_of(None)
    (120.0, 0.0, 0.0, 0.0)
    >>> wait_of("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:30 GMT")
    7.0
    """
    text = (given or "").strip()
    if re.fullmatch("[0-9]+", text):
        return float(text)
    until = _time_of(text)
    if until is None:
        return 0.0
    now = _time_of(date or "")
    return max(0.0, until - (time.time() if now is None else now))


def too_long(wanted: float, allowed: float, passed: float = 0.0) -> RefusedError:
    """Return what to raise where a server wants to be left alone for longer than may be waited."""
    so_far = f", of which {passed:.0f} s have passed" if passed >= 1 else ""
    return RefusedError(
        f"the server asks for a pause of {wanted:,.0f} s (Retry-After), and requests are "
        f"made again for {allowed:g} s{so_far}: run it later, or set chunkfold.remote.retry"
    )


def _time_of(date: str) -> float | None:
    try:
        found = parsedate_to_datetime(date)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


async def wait_wanted(store: Any, path: str, error: BaseException) -> float:
    """Ask a server that refused an object how long it wants to be left alone; 0 if it does not say.

    Whatever keeps it from being known is no error: there are pauses without it.
    """
    try:
        async with asyncio.timeout(DEADLINE_S):
            url = await url_of(store, path, error)
            given = getattr(store, "client_options", None) or {}
            return (
                await asyncio.wrap_future(in_background(lambda: _asked(url, given))) if url else 0.0
            )
    except Exception:  # noqa: BLE001 # stores, servers and networks have many
        return 0.0


def _asked(url: str, given: Mapping[str, Any]) -> float:
    """Ask for a byte."""
    try:
        with answered(url, given, DEADLINE_S, Range="bytes=0-0"):
            return 0.0
    except urllib.error.HTTPError as refused:
        with refused:
            if refused.code in REFUSING:
                return wait_of(refused.headers["Retry-After"], refused.headers["Date"])
    return 0.0

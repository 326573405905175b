"""When a server that has too much to do wants to be asked again: `Retry-After` (RFC 9110, 10.2.3).

obstore tells the status of an answer that failed, not its headers. So after a refusal one byte is
asked for by a client that shows them, and if that is refused as well it is known.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from chunkfold.deadline import in_background
from chunkfold.refusals import RefusedError

DEADLINE_S = 5.0
"""Longest time for the answer: the server has just given one."""
REFUSING = (429, 503)
"""Statuses by which a server says that it has too much to do, and may say until when."""
_SIGNED_FOR = timedelta(minutes=1)
_ASKED = re.compile(r"Error performing \w+ (https?://\S+) in ")
"""Where obstore's errors have the URL that it asked."""


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
        f"the server asks to be left alone for {wanted:,.0f} s (Retry-After), and requests are "
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
            url = await _url_of(store, path, error)
            given = getattr(store, "client_options", None) or {}
            return (
                await asyncio.wrap_future(in_background(lambda: _asked(url, given))) if url else 0.0
            )
    except Exception:  # noqa: BLE001 # stores, servers and networks have many
        return 0.0


async def _url_of(store: Any, path: str, error: BaseException) -> str:
    """Return a URL that may be asked by other clients: signed, where the store signs requests."""
    import obstore

    settings = getattr(store, "config", None)
    if settings is not None and str(settings.get("skip_signature")).lower() != "true":
        with contextlib.suppress(Exception):  # who has a token only cannot sign
            return await obstore.sign_async(store, "GET", path, _SIGNED_FOR)
    found = _ASKED.search(str(error))
    return found[1] if found else ""


class _Stays(urllib.request.HTTPRedirectHandler):
    """Follows nobody: what is sent is for one server."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _asked(url: str, given: Mapping[str, Any]) -> float:
    """Ask for a byte, as a store's own client would with its options."""
    headers = {
        name: value.decode("latin-1") if isinstance(value, bytes) else str(value)
        for name, value in (given.get("default_headers") or {}).items()
    }
    headers |= {"User-Agent": str(given.get("user_agent", "chunkfold")), "Range": "bytes=0-0"}
    opener = urllib.request.build_opener(
        _Stays, _proxies(url, given), urllib.request.HTTPSHandler(context=_tls(given))
    )
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 # of http or https
    try:
        opener.open(request, timeout=DEADLINE_S).close()
    except urllib.error.HTTPError as refused:
        with refused:
            if refused.code in REFUSING:
                return wait_of(refused.headers["Retry-After"], refused.headers["Date"])
    return 0.0


def _proxies(url: str, given: Mapping[str, Any]) -> urllib.request.ProxyHandler:
    """Return the proxies of a store, or else of the environment."""
    proxy, without = given.get("proxy_url"), {"no": str(given.get("proxy_excludes", ""))}
    if not proxy:
        return urllib.request.ProxyHandler()
    bypasses = urllib.request.proxy_bypass_environment  # type: ignore[attr-defined] # not in stubs
    if bypasses(urlsplit(url).netloc, without):
        return urllib.request.ProxyHandler({})
    return urllib.request.ProxyHandler({"http": proxy, "https": proxy})


def _tls(given: Mapping[str, Any]) -> ssl.SSLContext:
    """Return which certificates a store trusts."""
    context = ssl.create_default_context()
    for name in ("root_certificate", "proxy_ca_certificate"):
        if own := given.get(name):
            context.load_verify_locations(cadata=own.decode() if isinstance(own, bytes) else own)
    if str(given.get("allow_invalid_certificates")).lower() == "true":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context

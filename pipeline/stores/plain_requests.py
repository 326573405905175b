"""Requests that obstore cannot make, or tells too little of: by urllib, as its stores would."""

from __future__ import annotations

import contextlib
import http.client
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlsplit

_SIGNED_FOR = timedelta(minutes=1)
_ASKED = re.compile(r"Error performing \w+ (https?://\S+) in ")
"""The part of obstore's errors that has the requested URL."""


async def url_of(store: Any, path: str, error: BaseException | None = None) -> str:
    """Return an object's URL for other clients; empty if it is not known.

    It is signed, where the store signs requests. `error` is what obstore raised for the object.
    """
    import obstore

    settings = getattr(store, "config", None)
    if settings is not None and str(settings.get("skip_signature")).lower() != "true":
        with contextlib.suppress(Exception):  # who has a token only cannot sign
            return await obstore.sign_async(store, "GET", path, _SIGNED_FOR)
    if (found := _ASKED.search(str(error))) is not None:
        return found[1]
    base = urlsplit(str(getattr(store, "url", "")))
    if base.scheme not in ("http", "https"):
        return ""
    return base._replace(path=f"{base.path.rstrip('/')}/{quote(path)}").geturl()


class _Stays(urllib.request.HTTPRedirectHandler):
    """Follows nobody: what is sent is for one server."""

    def redirect_request(self, *_: Any) -> None:
        return None


@contextlib.contextmanager
def answered(
    url: str, options: Mapping[str, Any], seconds: float, method: str = "GET", **more: str
) -> Iterator[http.client.HTTPResponse]:
    """Ask for a URL as a store's own client would with its options; `more` are headers.

    An answer to a HEAD has no content.

    Raises
    ------
    urllib.error.HTTPError
        If the server refuses.
    OSError
        If it does not answer within so many seconds.
    """
    headers = {
        name: value.decode("latin-1") if isinstance(value, bytes) else str(value)
        for name, value in (options.get("default_headers") or {}).items()
    }
    headers |= {"User-Agent": str(options.get("user_agent", "chunkfold"))} | more
    proxies = _proxies(url, options)
    secure = any(str(one).startswith("https:") for one in (url, *proxies.values()))
    context = _tls(options) if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    opener = urllib.request.build_opener(
        _Stays, urllib.request.ProxyHandler(proxies), urllib.request.HTTPSHandler(context=context)
    )
    request = urllib.request.Request(url, headers=headers, method=method)  # noqa: S310 # of http or https
    with opener.open(request, timeout=seconds) as response:
        yield response


def _proxies(url: str, given: Mapping[str, Any]) -> dict[str, str]:
    """Return the proxies of a store, or else of the environment."""
    proxy, without = given.get("proxy_url"), {"no": str(given.get("proxy_excludes", ""))}
    if not proxy:
        return urllib.request.getproxies()
    bypasses = urllib.request.proxy_bypass_environment  # type: ignore[attr-defined] # not in stubs
    if bypasses(urlsplit(url).netloc, without):
        return {}
    return {"http": proxy, "https": proxy}


def _tls(given: Mapping[str, Any]) -> ssl.SSLContext:
    """Return which certificates a store trusts: to load those of the system takes long."""
    context = ssl.create_default_context()
    for name in ("root_certificate", "proxy_ca_certificate"):
        if own := given.get(name):
            context.load_verify_locations(cadata=own.decode() if isinstance(own, bytes) else own)
    if str(given.get("allow_invalid_certificates")).lower() == "true":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context

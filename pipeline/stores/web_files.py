"""Files of web servers to which references lead: redirects are checked, and hosts by addresses."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from fsspec.implementations.http import HTTPFileSystem
from yarl import URL

from chunkfold.stores.targets import Targets

_AT_ONCE = 1 << 20
"""Bytes of an answer that are taken at a time."""
_SPAN = re.compile(r"bytes (\d+)-\d+/.*")
_ENDS_BEFORE = 416


def web_files(targets: Targets, *, anywhere: bool = False) -> Any:
    """Return files of web servers.

    `anywhere`: redirects may lead to any public server, as for a file that the user named.
    """
    return _WebFiles(get_client=partial(_client, targets, anywhere=anywhere))


class _WebFiles(HTTPFileSystem):  # type: ignore[misc] # fsspec has no annotations
    """Files of web servers, of which no more is taken than was asked for."""

    cachable = False

    async def _cat_file(
        self, url: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        headers, first = {}, start or 0
        if start or end is not None:
            headers["Range"] = await self._process_limits(url, start, end)
        session = await self.set_session()
        async with session.get(self.encode_url(url), headers=headers) as answer:
            if answer.status == _ENDS_BEFORE:
                return b""
            self._raise_not_found_for_status(answer, url)
            span = _SPAN.match(answer.headers.get("Content-Range", ""))
            at = int(span[1]) if answer.status == 206 and span else 0
            if at > first:
                raise OSError(f"its server answers with bytes from {at:,} on, not {first:,}")
            found, skipped = bytearray(), first - at
            while piece := await answer.content.read(_AT_ONCE):
                found += piece[skipped:]
                skipped = max(0, skipped - len(piece))
                if end is not None and len(found) >= end - first:
                    break
            return bytes(found if end is None else found[: end - first])


async def _client(targets: Targets, *, anywhere: bool, **given: Any) -> aiohttp.ClientSession:
    async def on_redirect(_: Any, __: Any, told: aiohttp.TraceRequestRedirectParams) -> None:
        headers = told.response.headers
        if (where := headers.get("Location") or headers.get("URI")) is None:
            return
        url = told.response.url.join(URL(where))
        if anywhere:
            targets.check_host(url.host or "", url.port or 0, [url.host or ""])
        else:
            targets.check_url(str(url))

    redirects = aiohttp.TraceConfig()
    redirects.on_request_redirect.append(on_redirect)
    connector = aiohttp.TCPConnector(resolver=_Resolver(targets))
    return aiohttp.ClientSession(connector=connector, trace_configs=[redirects], **given)


class _Resolver(AbstractResolver):
    """Looks up hosts, and refuses those of inner networks."""

    def __init__(self, targets: Targets) -> None:
        self._targets = targets
        self._names = aiohttp.ThreadedResolver()

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[ResolveResult]:
        found = await self._names.resolve(host, port, family)
        self._targets.check_host(host, port, [one["host"] for one in found])
        return found

    async def close(self) -> None:
        await self._names.close()

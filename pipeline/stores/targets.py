"""Decide where the references of a file may lead: to its own origin or folder, and where leave is.

Somebody else wrote the references. Without this rule they could name any file of this host, or any
server that this host can reach.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote, urlsplit

from chunkfold.errors import PlanError, TargetError
from chunkfold.redaction import without_secrets
from chunkfold.stores.regular_files import special

_REMOTE = frozenset(
    {
        "abfs", "abfss", "adl", "az", "azure", "gcs", "gs", "http", "https", "oci", "oss", "s3",
        "s3a", "tos",
    }
)  # fmt: skip
"""Schemes of servers, to which local files of references may lead."""
_SAME = {"s3a": "s3", "gcs": "gs", "azure": "az", "abfs": "az", "abfss": "az", "adl": "az"}
"""Schemes that are other names of one."""
_PORTS = {"http": 80, "https": 443}
_SCHEME = re.compile(r"(?s)([A-Za-z][A-Za-z0-9+.-]+):(//)?(.*)")
_IN_FILES = ("file", "local")
_OLD = re.compile(r"(?i)(0x[0-9a-f]+|\d+)(\.(0x[0-9a-f]+|\d+))*")
_LOCALHOST = re.compile(r"(?i)(.*\.)?localhost\.?")
_LINKS = re.compile(r"::(?![^\[\]]*\])")
"""Between the links of a chain, not in an address of IPv6."""
Origin = tuple[str, str, int]
"""Scheme, host (or bucket) and port; 0 where there is none."""


def file_of(address: str) -> str | None:
    """Return the path of a local file that an address names, links followed; None if it is a URL.

    >>> file_of("file:///etc/../etc/hostname"), file_of("s3://bucket/key")
    ('/etc/hostname', None)
    """
    found = _SCHEME.fullmatch(address)
    if found is not None and found[1].lower() not in _IN_FILES:
        return None
    path = address if found is None else found[3]
    return os.path.realpath(os.path.expanduser(path))  # noqa: PTH111 # pathlib refuses "~nobody"


def origin_of(url: str) -> Origin:
    """Return the origin of a URL.

    >>> origin_of("HTTPS://Me:pw@Host/a"), origin_of("s3a://bucket/key"), origin_of("http://h:81/")
    (('https', 'host', 443), ('s3', 'bucket', 0), ('http', 'h', 81))

    Raises
    ------
    ValueError
        If it is no URL.
    """
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    if scheme in _PORTS:
        return scheme, (parts.hostname or "").rstrip("."), parts.port or _PORTS[scheme]
    return _SAME.get(scheme, scheme), parts.netloc.rpartition("@")[2] or parts.netloc, 0


def is_inner(host: str) -> bool:
    """Return True if an internet address, as text, is of this host or of an inner network.

    >>> is_inner("127.0.0.1"), is_inner("::ffff:10.0.0.1"), is_inner("169.254.169.254")
    (True, True, True)
    >>> is_inner("1.1.1.1"), is_inner("example.org")
    (False, False)
    """
    if _LOCALHOST.fullmatch(host):
        return True
    host = host.strip("[]").partition("%")[0]
    try:
        # Old spellings, as 127.1 or 0x7f000001, are addresses to some.
        old = _OLD.fullmatch(host) is not None
        found = ipaddress.ip_address(socket.inet_aton(host) if old else host)
    except (ValueError, OSError):
        return False
    if isinstance(found, ipaddress.IPv6Address):
        found = found.ipv4_mapped or found.sixtofour or found
    return not found.is_global or found.is_multicast


def addresses_of(host: str) -> list[str]:
    """Return the internet addresses of a host, which may be spelled in any way."""
    try:
        return [str(one[4][0]) for one in socket.getaddrinfo(host, None)]
    except (OSError, UnicodeError):  # whoever connects is told
        return []


def last_link(address: str) -> str:
    """Return the last link of a chain, which says where all of it is.

    >>> last_link("zip://r.json::s3://b/s.zip"), last_link("http://[::1]/r.json")
    ('s3://b/s.zip', 'http://[::1]/r.json')
    """
    return _LINKS.split(address)[-1]


def _is_odd(target: str) -> bool:
    """Return True if a target is a chain, or cannot be a name."""
    return "\0" in target or len(_LINKS.split(target)) > 1


@dataclass(frozen=True)
class Targets:
    """The places to which the references of a file may lead."""

    file: str
    """Address of the file of references, or of the folder of tables; in a chain the last link."""
    allowed: tuple[str, ...] = ()
    """Prefixes that the user allows, beside its own origin or folder."""
    what: str = "a reference"
    """The kind of link in messages."""

    @property
    def shown(self) -> str:
        """The file as messages name it."""
        return without_secrets(self.file)

    @cached_property
    def folder(self) -> str | None:
        """The folder that a local file is in, links followed; None if the file is remote."""
        path = file_of(self.file)
        return None if path is None else f"{os.path.dirname(path).rstrip('/')}/"  # noqa: PTH120

    @cached_property
    def origin(self) -> Origin | None:
        """The origin of a remote file; None if the file is local."""
        return origin_of(self.file) if self.folder is None else None

    @cached_property
    def _allowed_paths(self) -> tuple[str, ...]:
        paths = (file_of(one) for one in self.allowed)
        return tuple(path.rstrip("/") + "/" for path in paths if path is not None)

    @cached_property
    def _allowed_urls(self) -> tuple[tuple[Origin, str], ...]:
        urls = [one for one in self.allowed if file_of(one) is None]
        try:
            return tuple((origin_of(one), urlsplit(one).path.rstrip("/") + "/") for one in urls)
        except ValueError as error:
            raise PlanError(f"allow_targets is {urls}: one is not a URL ({error})") from None

    def checked(self, target: str) -> str:
        """Return what to open for a target: of a local one the path, links followed.

        Raises
        ------
        TargetError
            If references of this file may not lead there.
        """
        path = None if _is_odd(target) else file_of(target)
        if path is not None:
            places = [*self._allowed_paths, *filter(None, [self.folder])]
            if not any(f"{path}/".startswith(place) for place in places):
                raise self._refused(target, f"{os.path.dirname(path).rstrip('/')}/")  # noqa: PTH120
            if kind := special(path):
                raise TargetError(
                    f"{self.shown}: {self.what} leads to {path}, which is {kind}, not a regular "
                    "file: it is not read"
                )
            return path
        if _is_odd(target) or "://" not in target:
            raise TargetError(
                f"{self.shown}: {self.what} leads to {without_secrets(target)!r}, which is not a "
                "path or a URL: write it again"
            )
        self.check_url(target)
        return target

    def check_url(self, url: str) -> None:
        """Refuse a URL to which references of this file may not lead; redirects are such, too.

        Raises
        ------
        TargetError
            If it is one.
        """
        try:
            origin = origin_of(url)
        except ValueError:
            raise self._refused(url, url) from None
        if origin == self.origin or self._has_leave(url, origin):
            return
        scheme, host, port = origin
        if self.folder is None or scheme not in _REMOTE or is_inner(host):
            place = f"{host}:{port}" if port and port != _PORTS[scheme] else host
            raise self._refused(url, f"{scheme}://{place}/")

    def check_host(self, host: str, port: int, addresses: Sequence[str]) -> None:
        """Refuse a host whose addresses are of this host or an inner network, without leave.

        Raises
        ------
        TargetError
            If it is one.
        """
        places = {origin[1:] for origin, _ in self._allowed_urls}
        if self.origin is not None and self._is_inner:
            places.add(self.origin[1:])
        if (host, port) not in places and any(map(is_inner, addresses)):
            raise self._refused(f"{host}:{port}", f"http://{host}:{port}/")

    @cached_property
    def _is_inner(self) -> bool:
        """Return True if the file itself is on an inner server."""
        return self.origin is not None and any(map(is_inner, addresses_of(self.origin[1])))

    def _has_leave(self, url: str, origin: Origin) -> bool:
        path = unquote(urlsplit(url).path)
        if ".." in path.split("/") or "\\" in path:
            path = ""  # servers may take it for another
        return any(origin == own and f"{path}/".startswith(at) for own, at in self._allowed_urls)

    def _refused(self, target: str, prefix: str) -> TargetError:
        own = (
            f"only below {self.folder}, and to public servers"
            if self.folder
            else "only to its own server"
        )
        shown = without_secrets(prefix)
        return TargetError(
            f"{self.shown}: {self.what} leads to {without_secrets(target)}, but without "
            f"permission those of this file may lead {own}; if you trust it, allow the target: "
            f"allow_targets={shown!r}"
        )

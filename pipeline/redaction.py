"""Remove the secrets of URLs from texts: user, password, query and fragment.

Libraries write them in other forms than the caller, and without their URL. So the secrets of every
address that a message names are remembered, and removed wherever they appear.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus, unquote, unquote_plus

_QUERY = re.compile(r"(://[^\s'\"<>?#]*)[?#][^\s'\"<>]*")
"""A URL up to its path, and its query or fragment."""
_VERSION = re.compile(r"\?(?:branch|tag|snapshot)=[\w./-]+$")
"""The query of a repository: it names a version, which is no secret."""
_BARE = re.compile(r"[?&][\w.~%+$-]+=[^\s'\"<>]*")
"""A query without a URL: behind a path or a key."""
_ENCODED = re.compile(r"%3[Ff][\w.~%+-]+%3[Dd][^\s'\"<>]*")
"""A query that a library encoded as a part of a path."""
_USER = re.compile(r"(?<=//)(?:[^/\s'\"]*|[^/\s'\":]*:(?!:|\d+(?:/|$))(?:(?!://)[^\s'\"])*)@")
"""User and password. A password may have any character in it, also where it must not; a port has
digits only."""
_HEADER = re.compile(r"(authorization['\"]?\s*[:=]\s*['\"]?)(?:\w+ )?[^\s'\"]+", re.IGNORECASE)
_LEAST = 5
"""Least letters of `name=value` that are removed anywhere: fewer may be any text."""
_WORD = 24
"""Least letters of a text that can be no word."""
_REMEMBERED = 1000
"""Most secrets that are remembered: a process may name addresses for years."""
_secrets: tuple[str, ...] = ()


def without_secrets(text: str) -> str:
    """Remove user, password, query and fragment of every URL in a text, and remembered secrets.

    >>> without_secrets("GET https://me:hush@host:8/a.zarr/?token=hush failed")
    'GET https://host:8/a.zarr/ failed'
    >>> without_secrets("http://me:hu/s@h@host/a and s3://bucket/a@b")
    'http://host/a and s3://bucket/a@b'
    >>> without_secrets("zip://a.zarr::https://me:hush@host/b.zip?sig=hush is missing")
    'zip://a.zarr::https://host/b.zip is missing'
    """
    known = "|".join(map(re.escape, sorted(_secrets, key=len, reverse=True)))
    text = re.sub(f"[?&#;]*(?:{known})", "", text) if known else text
    text = _ENCODED.sub("", _BARE.sub("", _QUERY.sub(r"\1", text)))
    return _HEADER.sub(r"\1...", _USER.sub("", text))


def shown_address(address: str) -> str:
    """Return an address as messages name it, and remember its secrets.

    >>> shown_address("https://host/a b?sig=hu sh&x=1#y"), shown_address("/data/what?.zarr")
    ('https://host/a b', '/data/what?.zarr')
    >>> shown_address("icechunk:///data/repo/air?tag=v1")
    'icechunk:///data/repo/air?tag=v1'
    """
    return "::".join(_link(link) for link in address.split("::"))


def _link(link: str) -> str:
    """Return one link of a chain of URLs without its secrets."""
    scheme, found, rest = link.partition("://")
    if not found:
        return link
    user = _USER.match(f"//{rest}", 2)
    plain = rest[len(user[0]) :] if user else rest
    if scheme == "icechunk" and _VERSION.search(plain):
        return f"{scheme}://{plain}"
    path = re.split("[?#]", plain, maxsplit=1)[0]
    _remember(user[0][:-1] if user else "", plain[len(path) + 1 :])
    return f"{scheme}://{path}"


def _remember(user: str, query: str) -> None:
    global _secrets  # noqa: PLW0603 # one tuple for another, which other threads may be reading
    secrets = [query, *re.split("[&;#]", query)]
    name, colon, password = user.partition(":")
    if colon:  # without it, it may be a container of Azure
        secrets += [user, f"password={unquote(password)!r}", f"{unquote(name)}:{unquote(password)}"]
    forms = [form for one in secrets if _is_secret(one) for form in _forms(one)]
    _secrets = tuple(dict.fromkeys([*forms, *_secrets]))[:_REMEMBERED]


def _is_secret(text: str) -> bool:
    """Return whether a text belongs to one address only, and is no word of messages."""
    return len(text) >= _LEAST if re.search("[=:]", text) else len(text) >= _WORD


def _forms(secret: str) -> Iterator[str]:
    """Yield the forms in which libraries may write a secret."""
    yield from (secret, unquote(secret), unquote_plus(secret))
    for plain in (unquote(secret), unquote_plus(secret)):
        yield from (quote(plain, safe="=&"), quote_plus(plain, safe="=&"), quote(plain, safe=""))

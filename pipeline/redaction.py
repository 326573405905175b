"""Texts without the secrets of URLs: user, password, query and fragment are none of a message's.

Libraries tell them in other forms than they were given in, and without the URL that they are of. So
the secrets of every address that is named are remembered, and left out wherever they turn up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus, unquote, unquote_plus

_QUERY = re.compile(r"(://[^\s'\"<>?#]*)[?#][^\s'\"<>]*")
"""The query or fragment of a URL."""
_VERSION = re.compile(r"\?(?:branch|tag|snapshot)=[\w./-]+$")
"""The query of a repository: it names a version, which is no secret."""
_BARE = re.compile(r"[?&][\w.~%+$-]+=[^\s'\"<>]*")
"""The query of what is no URL any more: of a path, of a key."""
_ENCODED = re.compile(r"%3[Ff][\w.~%+-]+%3[Dd][^\s'\"<>]*")
"""A query that was taken for a part of a path."""
_USER = re.compile(r"(?<=//)(?:[^/\s'\"]*|[^/\s'\":]*:(?!:|\d+(?:/|$))(?:(?!://)[^\s'\"])*)@")
"""User and password. A password may have any character in it, also where it must not; a port has
digits only."""
_HEADER = re.compile(r"(authorization['\"]?\s*[:=]\s*['\"]?)(?:\w+ )?[^\s'\"]+", re.IGNORECASE)
_LEAST = 5
"""Letters of a name and a value that are left out wherever they are: less may be anything."""
_WORD = 24
"""Letters of no word."""
_REMEMBERED = 1000
"""Secrets: a process may name addresses for years."""
_secrets: tuple[str, ...] = ()


def without_secrets(text: str) -> str:
    """Drop user, password, query and fragment of every URL in a text, and remembered secrets.

    >>> without_secrets("GET https://me:hush@host:8/a.zarr/?token=hush failed")
    'GET https://host:8/a.zarr/ failed'
    >>> without_secrets("http://me:hu/s@h@host/a and s3://bucket/a@b")
    'http://host/a and s3://bucket/a@b'
    >>> without_secrets("zip://a.zarr::https://me:hush@host/b.zip?sig=hush is not there")
    'zip://a.zarr::https://host/b.zip is not there'
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
    """Return one of the URLs that are chained in an address."""
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
    told = [query, *re.split("[&;#]", query)]
    name, colon, password = user.partition(":")
    if colon:  # without it, it may be a container of Azure
        told += [user, f"password={unquote(password)!r}", f"{unquote(name)}:{unquote(password)}"]
    forms = [form for one in told if _is_secret(one) for form in _forms(one)]
    _secrets = tuple(dict.fromkeys([*forms, *_secrets]))[:_REMEMBERED]


def _is_secret(text: str) -> bool:
    """Return True if a text belongs to one address only, and is not a word of messages."""
    return len(text) >= _LEAST if re.search("[=:]", text) else len(text) >= _WORD


def _forms(secret: str) -> Iterator[str]:
    """Yield a secret as libraries may write it."""
    yield from (secret, unquote(secret), unquote_plus(secret))
    for plain in (unquote(secret), unquote_plus(secret)):
        yield from (quote(plain, safe="=&"), quote_plus(plain, safe="=&"), quote(plain, safe=""))

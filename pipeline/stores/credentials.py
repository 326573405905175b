"""User and password of a URL: those of a web server are sent to it, others are refused."""

from __future__ import annotations

import base64
import re
from urllib.parse import unquote

from chunkfold.errors import SourceError
from chunkfold.redaction import shown_address

_USER = re.compile(r"([^/?#]*)@")
_WEB = ("http", "https")


def with_credentials(url: str) -> tuple[str, dict[str, str]]:
    """Return a URL without user and password, and the headers that carry them (RFC 7617).

    >>> with_credentials("https://me:hu%40sh@host/a?b=1")
    ('https://host/a?b=1', {'Authorization': 'Basic bWU6aHVAc2g='})

    Raises
    ------
    SourceError
        If there is a password for a store that takes none by its URL.
    """
    scheme, _, rest = url.partition("://")
    user = _USER.match(rest)
    if user is None:
        return url, {}
    if scheme not in _WEB:
        if ":" not in user[1]:
            return url, {}  # a container, of Azure
        raise SourceError(
            f"{shown_address(url)}: a password in a URL of {scheme} is not used; name it by the "
            "variables of that store, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    shown_address(url)  # whose secrets are remembered
    name, _, password = user[1].partition(":")
    given = base64.b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode()
    return f"{scheme}://{rest[user.end() :]}", {"Authorization": f"Basic {given}"}

"""Open obstore's stores of URLs: S3, GCS, Azure, HTTP, with credentials, timeouts and retries."""

from __future__ import annotations

import base64
import os
import re
from datetime import timedelta
from typing import Any
from urllib.parse import unquote, urlsplit

from chunkfold.errors import SourceError
from chunkfold.redaction import shown_address
from chunkfold.settings import retry_seconds, stall_seconds

_AZURE = ("az", "adl", "azure", "abfs", "abfss")
SCHEMES = ("s3", "s3a", "gs", *_AZURE, "http", "https")
"""Kinds of URLs that obstore reads."""
LISTED = tuple(scheme for scheme in SCHEMES if not scheme.startswith("http"))
"""Schemes of stores that can be listed and written to."""
_CONNECT_S, _WHOLE_S = 10.0, 600.0
"""Longest time until there is a connection, and for all of an answer."""
_MOST_RETRIES = 100
"""More than there is time for."""
_ENDPOINTS = (
    "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
)  # fmt: skip
"""Variables that may name a server, also one without TLS."""
_USER = re.compile(r"([^/?#]*)@")
_WEB = ("http", "https")


def open_store(url: str, **options: Any) -> Any:
    """Return obstore's store of a URL, with credentials from the usual places.

    `options` are obstore's own of such a store, which go before those.

    S3's come from AWS_* variables, or wherever else boto3 looks if it is installed and those are
    not set; Google's and Azure's from the variables and files that their own tools read.

    Raises
    ------
    ImportError
        If obstore is not installed.
    SourceError
        If there is a password in a URL whose store takes none.
    """
    from obstore.store import from_url

    scheme = urlsplit(url).scheme
    url = scheme + url[len(scheme) :]  # in lower case, as obstore wants it
    plain = "http://" in " ".join([url, *(os.environ.get(name, "") for name in _ENDPOINTS)])
    url, headers = with_credentials(url)
    client = {**_timeouts(), "allow_http": plain} | (
        {"default_headers": headers} if headers else {}
    )
    given: Any = {"client_options": client, "retry_config": _retry()}
    if scheme in ("s3", "s3a"):
        given |= _boto_credentials()
    elif scheme in _AZURE and "@" not in url:
        given |= _azure_account()
    if "client_options" in options:
        options["client_options"] = {**given["client_options"], **options["client_options"]}
    return from_url(url, **(given | options))


def _timeouts() -> dict[str, timedelta]:
    seconds = {
        "connect_timeout": _CONNECT_S, "read_timeout": stall_seconds(), "timeout": _WHOLE_S
    }  # fmt: skip
    return {name: timedelta(seconds=value) for name, value in seconds.items()}


def _retry() -> dict[str, Any]:
    """Return how often, and how long, obstore tries a request again."""
    pauses = {"init_backoff": timedelta(seconds=0.2), "max_backoff": timedelta(seconds=5)}
    return {
        "max_retries": _MOST_RETRIES,
        "retry_timeout": timedelta(seconds=retry_seconds()),
        "backoff": {**pauses, "base": 2},
    }


def _boto_credentials() -> dict[str, Any]:
    """Return the credentials that boto3 finds, where variables do not name them."""
    if os.environ.get("AWS_ACCESS_KEY_ID") or os.environ.get("AWS_SKIP_SIGNATURE"):
        return {}
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider

        return {"credential_provider": Boto3CredentialProvider()}
    except (ImportError, ValueError):  # boto3 is not there, or has none
        return {}


def _azure_account() -> dict[str, str]:
    """Return the account that variables name: obstore finds it too, but then panics as text."""
    emulated = "devstoreaccount1" if os.environ.get("AZURE_STORAGE_USE_EMULATOR") else ""
    account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", emulated)
    return {"account_name": account} if account else {}


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

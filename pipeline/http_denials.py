"""Finds answers by which servers deny all of a store's objects: no single chunk is bad or skipped.

S3, and servers that speak its protocol, give such an answer a code, as `<Code>ExpiredToken</Code>`;
obstore has it in its text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_RENEW = "the credentials have expired: get new ones (for S3 AWS_ACCESS_KEY_ID, "
_RENEW += "AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN)"
_REGION = "the store is in another region: set AWS_REGION"
_LOOK = "check its spelling, and AWS_ENDPOINT_URL, which names the server"
_SHARED: Mapping[str, str] = {
    "ExpiredToken": _RENEW,
    "TokenRefreshRequired": _RENEW,
    "InvalidToken": (
        "the session's token is not valid: AWS_SESSION_TOKEN belongs to the two keys that came "
        "with it; unset it for other keys"
    ),
    "InvalidAccessKeyId": f"the server does not know AWS_ACCESS_KEY_ID: {_LOOK}",
    "SignatureDoesNotMatch": (
        "AWS_SECRET_ACCESS_KEY does not match AWS_ACCESS_KEY_ID: set both again, and AWS_REGION"
    ),
    "AuthorizationHeaderMalformed": _REGION,
    "PermanentRedirect": _REGION,
    "RequestTimeTooSkewed": "this host's clock is wrong: set it",
    "NoSuchBucket": f"the bucket does not exist: {_LOOK}",
    "InvalidBucketName": f"a bucket cannot have this name: {_LOOK}",
    "AllAccessDisabled": "the owner closed the store: ask the owner",
    "AuthenticationFailed": (
        "the server refuses the credentials: set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_KEY"
    ),
    "InvalidAuthenticationInfo": "the credentials have expired: sign in again",
    "ContainerNotFound": "the container does not exist: check its spelling",
}
"""Meanings of the codes, and remedies."""
_OTHERS: Mapping[str, str] = {
    "401 Unauthorized": "the server requires credentials, or refuses the given ones: set them",
    "redirect without LOCATION": _REGION,
}
"""The same of answers without a code."""
_OF_ONE: Mapping[str, str] = {
    "AccessDenied": (
        "the server denies access: these credentials may not read it, or it does not exist and "
        "they may not list what exists"
    ),
}
"""Meanings of codes that may be about one object."""


_ANSWER = re.compile(
    r"(?s)(?:status code: (?P<status>\d+).*?)?<Code>(?P<code>\w+)</Code>"
    r"(?:\s*<Message>(?P<words>[^<]{1,200}))?"
)


MISSING = (403, 410)
"""Statuses by which servers may answer for missing objects, other than 404."""
_STATUS = re.compile(r"status code: (\d{3})")


def status_of(error: BaseException) -> int | None:
    """Return the status of the answer that an error tells of; None if it tells of none.

    >>> status_of(OSError("Server returned non-2xx status code: 403 Forbidden"))
    403
    """
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


class RefusedError(PermissionError):
    """A server refuses all of a store's objects."""


def refusal(error: BaseException | None) -> str:
    """Say what a server refuses for all objects, and what helps; empty if that is not the error.

    >>> refusal(OSError("status code: 403 Forbidden: <Code>RequestTimeTooSkewed</Code>"))
    "this host's clock is wrong: set it (403 RequestTimeTooSkewed)"
    """
    while error is not None:
        if isinstance(error, RefusedError):
            return str(error)
        if said := _said(error, _SHARED):
            return said
        for found, meaning in _OTHERS.items():
            if type(error).__module__.startswith("obstore") and found in str(error):
                return f"{meaning} ({found})"
        error = error.__cause__
    return ""


def denial(error: BaseException) -> str:
    """Say what a server refuses, for one object or all; empty if that is not the error."""
    return refusal(error) or _said(error, _OF_ONE)


def _said(error: BaseException, known: Mapping[str, str]) -> str:
    found = _ANSWER.search(str(error))
    if found is None or found["code"] not in known:
        return ""
    words = " ".join((found["words"] or "").split())
    answer = f"{found['status'] or ''} {found['code']}{': ' if words else ''}{words}".strip()
    return f"{known[found['code']]} ({answer})"

"""Undo what a server did to an object on its way: HTTP's Content-Encoding (RFC 9110, 8.4)."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

_BY_ZLIB = ("gzip", "x-gzip", "deflate")
_EITHER = 32 + zlib.MAX_WBITS
"""zlib's word for either header, gzip's or its own."""
_TIMES = 1100
"""No gzip stream decodes to more than about so many times its bytes."""


def encoding_of(attributes: Mapping[Any, Any]) -> str:
    """Return how an object is encoded, by what obstore tells of it; empty if it is as it is."""
    found = str(attributes.get("Content-Encoding", "")).strip().lower()
    return "" if found == "identity" else found


def decoded(
    content: bytes | memoryview, encoding: str, most: int | None = None
) -> bytes | memoryview:
    """Return an object as it is.

    Raises
    ------
    ValueError
        If it is encoded in a way that is not known, is damaged, or has more than `most` bytes.
    """
    if not encoding:
        return content
    if encoding not in _BY_ZLIB:
        raise ValueError(
            f"the server sends it with Content-Encoding {encoding!r}, but chunkfold decodes only "
            f"{', '.join(_BY_ZLIB)}: store it without"
        )
    limit = _TIMES * len(content) + 1 if most is None else most + 1
    undo = zlib.decompressobj(_EITHER)
    try:
        found = undo.decompress(content, limit)
    except zlib.error as error:
        raise ValueError(f"its Content-Encoding {encoding!r} cannot be undone: {error}") from error
    if len(found) >= limit or not undo.eof:
        why = f"it has more than {limit - 1:,} bytes" if len(found) >= limit else "it was cut"
        raise ValueError(f"its Content-Encoding {encoding!r} cannot be undone: {why}")
    return found

"""Note where labels, weights and masks are read from, while a reduction is planned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from chunkfold.sources.source import Source

_noted = ContextVar[dict[str, None] | None]("noted", default=None)


@contextmanager
def noting_addresses() -> Iterator[dict[str, None]]:
    """Yield the paths and URLs of all that is noted meanwhile, as keys in order."""
    addresses: dict[str, None] = {}
    before = _noted.set(addresses)
    try:
        yield addresses
    finally:
        _noted.reset(before)


def note(found: Iterable[str]) -> None:
    """Note addresses, if anybody asks for them."""
    if (addresses := _noted.get()) is not None:
        addresses.update(dict.fromkeys(found))


def noted(source: Source) -> Source:
    """Note the addresses of a source, and return it."""
    if _noted.get() is not None:
        note(source.addresses)
    return source

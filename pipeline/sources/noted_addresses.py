"""Collect where labels, weights, masks and xarray's arrays are read from, in planning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from chunkfold.sources.source import Source

_noted = ContextVar[dict[str, None] | None]("noted", default=None)


@contextmanager
def noting_addresses() -> Iterator[dict[str, None]]:
    """Yield a dict whose keys are the paths and URLs noted in the `with` block, in order."""
    addresses: dict[str, None] = {}
    before = _noted.set(addresses)
    try:
        yield addresses
    finally:
        _noted.reset(before)


def note(found: Iterable[str]) -> None:
    """Note addresses, if a `noting_addresses` block is active."""
    if (addresses := _noted.get()) is not None:
        addresses.update(dict.fromkeys(found))


def noted(source: Source) -> Source:
    """Note the addresses of a source, and return it."""
    if _noted.get() is not None:
        note(source.addresses)
    return source

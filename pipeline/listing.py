"""List the objects of a store behind a network: several parts of it at once, where that can be."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

PAGE = 1000
"""Objects that a server tells of at a time: the next page is asked for by the last one's end."""
DEADLINE_S = 60.0
"""Longest that it may take to find out what is stored; then every chunk is asked for."""
_FROM_ANY_KEY = ("S3Store", "GCSStore")
"""Stores that list from a key on; others bring what lies before it, too."""
Entry = tuple[str, int]
"""Key of a stored object, below a path, and its bytes."""


def listed(store: Any, path: str, marks: Sequence[str] = ()) -> Iterator[Entry]:
    """Yield key and size of every object below a path of a store of obstore's.

    Where it lists from any key on what lies between some of them (`marks`, ascending) is listed at
    once. That takes a server that lists in the order of keys: one that does not is known by its
    first page.

    Raises
    ------
    TimeoutError
        If it takes too long.
    Exception
        Whatever obstore raises.
    """
    below = f"{path}/" if path else ""
    deadline = time.monotonic() + DEADLINE_S
    pages = _pages(store, below, None, deadline)
    first = next(pages, [])
    yield from first
    keys = [key for key, _ in first]
    marks = [mark for mark in marks if keys and mark > keys[-1]]
    if marks and len(keys) >= PAGE // 2 and keys == sorted(keys) and _from_any_key(store):
        lots = list(itertools.pairwise([keys[-1], *marks, None]))
        with ThreadPoolExecutor(len(lots), "chunkfold-list") as pool:
            for found in pool.map(partial(_between, store, below, deadline), lots):
                yield from found
    else:
        for page in pages:
            yield from page


def _from_any_key(store: Any) -> bool:
    return type(store).__name__ in _FROM_ANY_KEY


def _between(store: Any, below: str, deadline: float, lot: tuple[str, str | None]) -> list[Entry]:
    """Return what comes behind a key, up to another."""
    found, (behind, last) = [], lot
    for page in _pages(store, below, behind, deadline):
        found += [(key, size) for key, size in page if last is None or key <= last]
        if last is not None and page and page[-1][0] > last:
            break
    return found


def _pages(store: Any, below: str, behind: str | None, deadline: float) -> Iterator[list[Entry]]:
    import obstore

    offset = None if behind is None else below + behind
    for page in obstore.list(store, below[:-1] or None, offset=offset, chunk_size=PAGE):
        if time.monotonic() > deadline:
            raise TimeoutError(f"it took more than {DEADLINE_S:.0f} s to list")
        yield [
            (entry["path"][len(below) :], entry["size"])
            for entry in page
            if entry["path"].startswith(below)
        ]

"""List the objects of a store behind a network: several parts of it at once, where that can be."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from chunkfold.stores.transient_faults import may_pass

PAGE = 1000
"""Objects that a server tells of at a time: the next page is asked for by the last one's end."""
DEADLINE_S = 60.0
"""Longest that it may take to find out what is stored; then every chunk is asked for."""
_FROM_ANY_KEY = ("S3Store", "GCSStore")
"""Stores that list from a key on; others bring what lies before it, too."""
_PAUSES_S = (0.2, 1.0, 5.0)
"""Pauses before an answer that broke off is asked for again."""
_PAGES_AHEAD = 4
"""Pages that wait to be taken, for each part that is listed at once."""
Entry = tuple[str, int, int]
"""Key of a stored object, below a path, its bytes, and when it was last written: nanoseconds since
1970."""


def nanoseconds(when: datetime) -> int:
    """Return a time as nanoseconds since 1970, to the microsecond.

    >>> from datetime import UTC
    >>> nanoseconds(datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC))
    1500000000
    """
    return int(when.timestamp()) * 1_000_000_000 + when.microsecond * 1000


def listed(store: Any, path: str, marks: Sequence[str] = ()) -> Iterator[Entry]:
    """Yield every object below a path of a store of obstore's; some twice, where answers break off.

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
    keys = [entry[0] for entry in first]
    marks = [mark for mark in marks if keys and mark > keys[-1]]
    if marks and len(keys) >= PAGE // 2 and keys == sorted(keys) and _from_any_key(store):
        ranges = list(zip([keys[-1], *marks], [*marks, None], strict=True))
        yield from _at_once(store, below, deadline, ranges)
    else:
        for page in pages:
            yield from page


def _from_any_key(store: Any) -> bool:
    return type(store).__name__ in _FROM_ANY_KEY


KeyRange = tuple[str, str | None]
"""Keys behind the first, up to the second."""


def _at_once(
    store: Any, below: str, deadline: float, ranges: Sequence[KeyRange]
) -> Iterator[Entry]:
    """Yield what lies in several ranges, which threads list; few pages are held at a time."""
    pages: queue.Queue[list[Entry] | None] = queue.Queue(_PAGES_AHEAD * len(ranges))
    left_off = threading.Event()

    def list_range(key_range: KeyRange) -> None:
        try:
            for page in _between(store, below, deadline, key_range):
                if left_off.is_set():
                    break
                pages.put(page)
        finally:
            pages.put(None)

    with ThreadPoolExecutor(len(ranges), "chunkfold-list") as pool:
        listing = [pool.submit(list_range, key_range) for key_range in ranges]
        left = len(ranges)
        try:
            while left:
                page = pages.get()
                left -= page is None
                yield from page or ()
        finally:
            left_off.set()
            while left:  # threads that wait for room
                left -= pages.get() is None
    for one in listing:
        one.result()


def _between(store: Any, below: str, deadline: float, key_range: KeyRange) -> Iterator[list[Entry]]:
    """Yield pages of what comes behind a key, up to another."""
    behind, last = key_range
    for page in _pages(store, below, behind, deadline):
        yield [entry for entry in page if last is None or entry[0] <= last]
        if last is not None and page and page[-1][0] > last:
            return


def _pages(store: Any, below: str, behind: str | None, deadline: float) -> Iterator[list[Entry]]:
    import obstore

    offset = None if behind is None else below + behind
    for pause in (*_PAUSES_S, None):
        try:
            for page in obstore.list(store, below[:-1] or None, offset=offset, chunk_size=PAGE):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"it took more than {DEADLINE_S:.0f} s to list")
                yield [
                    (one["path"][len(below) :], one["size"], nanoseconds(one["last_modified"]))
                    for one in page
                    if one["path"].startswith(below)
                ]
                if page and _from_any_key(store):
                    offset = page[-1]["path"]
        except Exception as error:
            # obstore tries requests again, but no answer that breaks off.
            if pause is None or time.monotonic() + pause > deadline or not may_pass(error):
                raise
            time.sleep(pause)
        else:
            return

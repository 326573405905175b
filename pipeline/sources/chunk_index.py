"""Find out which objects of an array are stored, how large they are, and how new."""

from __future__ import annotations

import itertools
import math
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from chunkfold.sources.direct_route import objects_of
from chunkfold.stores.icechunk_store import Snapshot
from chunkfold.stores.listing import PAGE, Entry
from chunkfold.stores.objects import LocalObjects

Found = tuple[int, ...]
"""Place of a stored object in their grid, its bytes, and when it was written, in nanoseconds."""
_NUMBER = re.compile("0|[1-9][0-9]{0,17}")
"""As keys spell it; longer ones might be too large for int64."""
_FEW = 32
"""Objects that are asked for one by one, rather than listed."""
_RANGES = 16
"""That a server is asked to list at once."""
_OF_A_RANGE = 64
"""Keys that are looked at to part them."""
MOST_OBJECTS = 1 << 26
"""Objects, stored or not, beyond which a table of them would take gigabytes."""
MOST_ASKED = 1 << 20
"""Objects up to which Icechunk is asked which there are: it tells one in microseconds."""
_AT_ONCE = 1 << 16
"""Entries of a listing that are laid over the grid at a time."""


@dataclass(frozen=True, eq=False)
class Listing:
    """What is stored of an array when it is listed."""

    sizes: np.ndarray
    """Bytes of each object (chunk or shard), uint32 or uint64 over the grid of objects: 0 where
    nothing is stored, at least 1 where something is."""
    newest: int
    """When the newest of them was written: nanoseconds since 1970, by the store's clock."""


def list_objects(array: Any) -> Listing | None:
    """List what is stored of an array.

    None where the store cannot tell: then every object must be asked for. Keys that are no
    object's are passed over: an array that was cut leaves some behind.
    """
    objects = objects_of(array)
    key, unit = array.metadata.encode_chunk_key, array.shards or array.chunks
    grid = tuple(-(-size // max(1, cell)) for size, cell in zip(array.shape, unit, strict=True))
    # Chunk (1, 2, 3) is "c/1/2/3" or "1.2.3" and the like; without axes it is "c" or "0".
    prefix, separator = _spelling(key, len(grid)) if grid else (key(()), "/")
    if isinstance(array.store, Snapshot) and math.prod(grid) <= MOST_ASKED:
        return _on_grid(((*place, 1, 0) for place in array.store.chunks_of(array.path)), grid)
    if objects is None or prefix is None or math.prod(grid) > MOST_OBJECTS:
        return None
    found: Iterable[Found]
    if isinstance(objects, LocalObjects) and (separator == "/" or not grid):
        found = _in_folders(f"{objects.where}/{prefix}", grid, ())
    elif isinstance(objects, LocalObjects):
        found = _placed(_in_folder(objects.where), prefix, separator, len(grid))
    elif objects.listable:
        found = _placed(objects.entries(_marks(key, grid)), prefix, separator, len(grid))
    else:
        return None
    try:
        return _on_grid(found, grid)
    except OSError:  # who may read need not be allowed to list
        return None


def _in_folders(folder: str, left: tuple[int, ...], place: tuple[int, ...]) -> Iterator[Found]:
    """Find the files of as many levels of folders as `left` has numbers, which names begin with.

    Of each level that is how many names its folders may hold. Few, of all that are left, are asked
    for one by one: that takes less time than to list as many folders. What goes while others write,
    or is a link to nowhere, is not there.
    """
    if math.prod(left) <= _FEW:
        for name, within in _names(left):
            try:
                status = os.stat(folder + name)  # noqa: PTH116 # a Path would take as long
            except (FileNotFoundError, NotADirectoryError):
                continue
            if not stat.S_ISDIR(status.st_mode):
                yield (*place, *within, status.st_size, status.st_mtime_ns)
        return
    for entry in _entries(folder):
        if not _NUMBER.fullmatch(entry.name):
            continue
        here = (*place, int(entry.name))
        if len(left) > 1:
            yield from _in_folders(f"{folder}{entry.name}/", left[1:], here)
        elif (found := _status(entry)) is not None:
            yield (*here, found.st_size, found.st_mtime_ns)


def _in_folder(folder: str) -> Iterator[Entry]:
    """Find the files of a folder."""
    for entry in _entries(folder):
        if (status := _status(entry)) is not None:
            yield entry.name, status.st_size, status.st_mtime_ns


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        entries = os.scandir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    with entries:
        yield from entries


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Return the status of a file; None of a folder, or if it is gone."""
    try:
        return None if entry.is_dir() else entry.stat()
    except FileNotFoundError:
        return None


@cache
def _names(left: tuple[int, ...]) -> list[tuple[str, tuple[int, ...]]]:
    """Return what names may end with, and the places that they have then."""
    places = itertools.product(*map(range, left))
    return [("/".join(map(str, place)), place) for place in places]


def _placed(entries: Iterable[Entry], prefix: str, separator: str, ndim: int) -> Iterator[Found]:
    """Read places off keys."""
    numbers = re.escape(separator).join([f"({_NUMBER.pattern})"] * ndim)
    key = re.compile(re.escape(prefix) + numbers)
    for name, size, modified in entries:
        if spelled := key.fullmatch(name):
            yield (*map(int, spelled.groups()), size, modified)


def _on_grid(found: Iterable[Found], grid: tuple[int, ...]) -> Listing:
    """Lay what was found over the grid."""
    sizes, newest, found = np.zeros(grid, np.uint32), 0, iter(found)
    strides = np.array([math.prod(grid[n + 1 :]) for n in range(len(grid))], np.int64)
    # Never all as objects: ten million would take gigabytes.
    while some := list(itertools.islice(found, _AT_ONCE)):
        table = np.fromiter(itertools.chain.from_iterable(some), np.int64)
        table = table.reshape(-1, len(grid) + 2)
        table = table[(table[:, :-2] < grid).all(axis=1)]
        places, here, modified = table[:, :-2] @ strides, table[:, -2], table[:, -1]
        if here.max(initial=0) > np.iinfo(sizes.dtype).max:
            sizes = sizes.astype(np.uint64)
        sizes.reshape(-1)[places] = np.maximum(here, 1)
        newest = max(newest, int(modified.max(initial=0)))
    return Listing(sizes, newest)


def _marks(key: Any, grid: tuple[int, ...]) -> list[str]:
    """Return keys of a grid that part it, in the order of keys, into ranges that are alike."""
    count = math.prod(grid)
    ranges = min(_RANGES, count // PAGE)
    if ranges < 2:
        return []
    some = np.linspace(0, count - 1, _OF_A_RANGE * ranges, dtype=np.int64)
    places = np.stack(np.unravel_index(some, grid), axis=-1)
    return sorted(key(tuple(place)) for place in places.tolist())[_OF_A_RANGE::_OF_A_RANGE]


def _spelling(key: Any, ndim: int) -> tuple[str | None, str]:
    """Return what stands before the numbers of a key, and between them; None if it is else."""
    for prefix, separator in (("c/", "/"), ("c.", "."), ("", "/"), ("", ".")):
        numbers = tuple(range(1, ndim + 1))
        if key(numbers) == prefix + separator.join(map(str, numbers)):
            return prefix, separator
    return None, ""

"""Find out which objects of an array are stored, how large they are, and how new."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from chunkfold.decoding.chunk_keys import spelling
from chunkfold.kernels.feed.native import file_states
from chunkfold.sources.direct_route import objects_of
from chunkfold.stores.icechunk_store import Snapshot
from chunkfold.stores.listing import PAGE, Entry
from chunkfold.stores.objects import LocalObjects

Found = tuple[int, ...]
"""Place of a stored object in their grid, its bytes, and when it was written, in nanoseconds."""
_Files = tuple[list[str], np.ndarray]
"""Paths, and the places of these files, counted over the grid of objects."""
_NUMBER = re.compile("0|[1-9][0-9]{0,17}")
"""Numbers as keys spell them; longer ones might be too large for int64."""
_FEW = 256
"""Files below a folder that are looked at, rather than listed."""
_RANGES = 16
"""Ranges of keys that a server lists at once."""
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
    """The stored objects of an array, found by listing it."""

    sizes: np.ndarray
    """Bytes of each object (chunk or shard), uint32 or uint64 over the grid of objects: 0 where
    nothing is stored, at least 1 where something is."""
    newest: int
    """The time when the newest one was written: nanoseconds since 1970, by the store's clock."""
    modified: np.ndarray | None = None
    """The time when each was written, int64 over the grid, 0 where nothing is stored; None if the
    store does not tell it."""
    contents: np.ndarray | None = None
    """A hash of each, void over the grid, zeros of those that are not selected; None if they were
    not read for it."""


def joined_listings(listings: Sequence[Listing], axis: int) -> Listing:
    """Return the listing of arrays that follow each other along an axis."""
    times = [one.modified for one in listings if one.modified is not None]
    hashes = [one.contents for one in listings if one.contents is not None]
    return Listing(
        np.concatenate([one.sizes for one in listings], axis=axis),
        max(one.newest for one in listings),
        np.concatenate(times, axis=axis) if len(times) == len(listings) else None,
        np.concatenate(hashes, axis=axis) if len(hashes) == len(listings) else None,
    )


def list_objects(array: Any) -> Listing | None:
    """List what is stored of an array.

    None where the store cannot tell: then every object must be asked for. Keys that are no
    object's are passed over: an array that was cut leaves some behind.
    """
    objects = objects_of(array)
    key, unit = array.metadata.encode_chunk_key, array.shards or array.chunks
    grid = tuple(-(-size // max(1, cell)) for size, cell in zip(array.shape, unit, strict=True))
    # Chunk (1, 2, 3) is "c/1/2/3" or "1.2.3" and the like; without axes it is "c" or "0".
    prefix, separator = spelling(key, len(grid)) if grid else (key(()), "/")
    if isinstance(array.store, Snapshot) and math.prod(grid) <= MOST_ASKED:
        return _on_grid(((*place, 1, 0) for place in array.store.chunks_of(array.path)), grid)
    if objects is None or prefix is None or math.prod(grid) > MOST_OBJECTS:
        return None
    found: Iterable[Found]
    if isinstance(objects, LocalObjects) and (separator == "/" or not grid):
        return _looked_at(_in_folders(f"{objects.where}/{prefix}", grid, 0), grid)
    if isinstance(objects, LocalObjects):
        found = _placed(_in_folder(objects.where), prefix, separator, len(grid))
    elif objects.listable:
        found = _placed(objects.entries(_marks(key, grid)), prefix, separator, len(grid))
    else:
        return None
    try:
        return _on_grid(found, grid)
    except OSError:  # who may read need not be allowed to list
        return None


def _in_folders(folder: str, left: tuple[int, ...], first: int) -> Iterator[_Files]:
    """Yield files of as many levels of folders as `left` has numbers, with their places.

    `left` says for each level how many names its folders may hold. A place is counted over the
    grid, from `first` on. Few files, of all levels that are left, are named whether they are there
    or not: to look at them takes less time than to list as many folders.
    """
    count = math.prod(left)
    if count <= _FEW:
        yield [folder + name for name in _names(left)], np.arange(first, first + count)
        return
    below, names, numbers = count // left[0], [], []
    for entry in _entries(folder):
        number = int(entry.name) if _NUMBER.fullmatch(entry.name) else left[0]
        if number < left[0] and len(left) > 1:
            yield from _in_folders(f"{folder}{entry.name}/", left[1:], first + number * below)
        elif number < left[0]:
            names.append(folder + entry.name)
            numbers.append(number)
    yield names, first + np.array(numbers, np.int64)


def _looked_at(files: Iterator[_Files], grid: tuple[int, ...]) -> Listing | None:
    """List files by what is found when they are looked at; None if one may not be.

    A file that goes while others write, or is a link to nowhere, is not there.
    """
    made = _Made(grid)
    try:
        while some := list(_until(files, _AT_ONCE)):
            states = file_states([name for names, _ in some for name in names])
            places = np.concatenate([numbers for _, numbers in some])
            there = states[:, 0] >= 0
            made.add(places[there], *states[there].T)
    except OSError:  # who may read need not be allowed to list
        return None
    return made.listing


def _until(files: Iterator[_Files], most: int) -> Iterator[_Files]:
    """Yield the next ones, until there are so many files."""
    count = 0
    for some in files:
        yield some
        count += len(some[0])
        if count >= most:
            return


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
def _names(left: tuple[int, ...]) -> list[str]:
    """Return what names may end with, in C order of their places."""
    return ["/".join(map(str, place)) for place in itertools.product(*map(range, left))]


def _placed(entries: Iterable[Entry], prefix: str, separator: str, ndim: int) -> Iterator[Found]:
    """Read places off keys."""
    numbers = re.escape(separator).join([f"({_NUMBER.pattern})"] * ndim)
    key = re.compile(re.escape(prefix) + numbers)
    for name, size, modified in entries:
        if spelled := key.fullmatch(name):
            yield (*map(int, spelled.groups()), size, modified)


class _Made:
    """A listing in the making."""

    def __init__(self, grid: tuple[int, ...]) -> None:
        self._sizes, self._modified = np.zeros(grid, np.uint32), np.zeros(grid, np.int64)

    def add(self, places: np.ndarray, sizes: np.ndarray, modified: np.ndarray) -> None:
        """Add objects, by their places counted over the grid."""
        if sizes.max(initial=0) > np.iinfo(self._sizes.dtype).max:
            self._sizes = self._sizes.astype(np.uint64)
        self._sizes.reshape(-1)[places] = np.maximum(sizes, 1)
        self._modified.reshape(-1)[places] = modified

    @property
    def listing(self) -> Listing:
        """Return the listing of the objects that were added."""
        return Listing(self._sizes, int(self._modified.max(initial=0)), self._modified)


def _on_grid(found: Iterable[Found], grid: tuple[int, ...]) -> Listing:
    """Lay what was found over the grid."""
    made, found = _Made(grid), iter(found)
    strides = np.array([math.prod(grid[n + 1 :]) for n in range(len(grid))], np.int64)
    # Never all as objects: ten million would take gigabytes.
    while some := list(itertools.islice(found, _AT_ONCE)):
        table = np.fromiter(itertools.chain.from_iterable(some), np.int64)
        table = table.reshape(-1, len(grid) + 2)
        table = table[(table[:, :-2] < grid).all(axis=1)]
        made.add(table[:, :-2] @ strides, table[:, -2], table[:, -1])
    return made.listing


def _marks(key: Any, grid: tuple[int, ...]) -> list[str]:
    """Return keys of a grid that part it, in the order of keys, into ranges that are alike."""
    count = math.prod(grid)
    ranges = min(_RANGES, count // PAGE)
    if ranges < 2:
        return []
    some = np.linspace(0, count - 1, _OF_A_RANGE * ranges, dtype=np.int64)
    places = np.stack(np.unravel_index(some, grid), axis=-1)
    return sorted(key(tuple(place)) for place in places.tolist())[_OF_A_RANGE::_OF_A_RANGE]

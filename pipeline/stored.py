"""Find out which objects of an array are stored, and how large they are."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from chunkfold.objects import LocalObjects
from chunkfold.remote import RemoteObjects
from chunkfold.route import objects_of

Entry = tuple[str, int]
"""Key of a stored object, below the array's own, and its bytes."""
_DIGITS = 19
"""Of a number that is too large for int64, perhaps."""
MOST_OBJECTS = 1 << 26
"""Objects, stored or not, beyond which a table of them would take gigabytes."""


def stored_sizes(array: Any) -> np.ndarray | None:
    """Return the bytes of each stored object (chunk or shard), int64 over the grid of objects.

    What is not stored has 0, what is stored at least 1. None where the store cannot tell: then
    every object must be asked for. Keys that are no object's are passed over: an array that was
    cut leaves some behind.
    """
    objects = objects_of(array)
    entries: Iterable[Entry]
    if isinstance(objects, LocalObjects):
        # Chunk (1, 2) is c/1/2 at the deepest.
        entries = _walked(objects.where, array.ndim + 1)
    elif isinstance(objects, RemoteObjects) and objects.listable:
        entries = objects.entries()
    else:
        return None
    shape = array.shards or array.chunks
    grid = tuple(-(-size // max(1, cell)) for size, cell in zip(array.shape, shape, strict=True))
    try:
        return _on_grid(entries, array.metadata.encode_chunk_key, grid)
    except OSError:  # who may read need not be allowed to list
        return None


def _walked(folder: str, depth: int, below: str = "") -> Iterator[Entry]:
    """Yield the files of some levels of folders; what begins with a dot is nobody's chunk.

    What goes while others write, or is a link to nowhere, is not there.
    """
    if not depth:
        return
    try:
        entries = os.scandir(f"{folder}/{below}")
    except FileNotFoundError:
        return
    with entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                yield from _walked(folder, depth - 1, f"{below}{entry.name}/")
            else:
                with contextlib.suppress(FileNotFoundError):
                    yield below + entry.name, entry.stat().st_size


def _on_grid(entries: Iterable[Entry], key: Any, grid: tuple[int, ...]) -> np.ndarray | None:
    """Lay sizes out over the grid, whose objects are named by `key`."""
    if math.prod(grid) > MOST_OBJECTS:
        return None
    sizes = np.zeros(grid, np.int64)
    if not grid:
        sizes[()] = max((max(size, 1) for name, size in entries if name == key(())), default=0)
        return sizes
    # Chunk (1, 2, 3) is "c/1/2/3" or "1.2.3" and the like.
    prefix, separator = _spelling(key, len(grid))
    if prefix is None:
        return None
    found: list[int] = []
    for name, size in entries:
        if not name.startswith(prefix):
            continue
        places = name[len(prefix) :].split(separator)
        if len(places) == len(grid) and all(map(_is_number, places)):
            found.extend(map(int, places))
            found.append(size)
    table = np.array(found, np.int64).reshape(-1, len(grid) + 1)
    table = table[(table[:, :-1] < grid).all(axis=1)]
    sizes[tuple(table[:, :-1].T)] = np.maximum(table[:, -1], 1)
    return sizes


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) < _DIGITS


def _spelling(key: Any, ndim: int) -> tuple[str | None, str]:
    """Return what stands before the numbers of a key, and between them; None if it is else."""
    for prefix, separator in itertools.product(("c/", "c.", ""), "/."):
        numbers = tuple(range(1, ndim + 1))
        if key(numbers) == prefix + separator.join(map(str, numbers)):
            return prefix, separator
    return None, ""

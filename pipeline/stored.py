"""Find out which objects of an array are stored, and how large they are."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import stat
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from chunkfold.objects import LocalObjects
from chunkfold.route import objects_of

Entry = tuple[str, int]
"""Key of a stored object, below the array's own, and its bytes."""
_DIGITS = 19
"""Of a number that is too large for int64, perhaps."""
_FEW = 4
"""Objects that are asked for one by one, rather than listed."""
MOST_OBJECTS = 1 << 26
"""Objects, stored or not, beyond which a table of them would take gigabytes."""


def stored_sizes(array: Any) -> np.ndarray | None:
    """Return the bytes of each stored object (chunk or shard), int64 over the grid of objects.

    What is not stored has 0, what is stored at least 1. None where the store cannot tell: then
    every object must be asked for. Keys that are no object's are passed over: an array that was
    cut leaves some behind.
    """
    objects = objects_of(array)
    key, unit = array.metadata.encode_chunk_key, array.shards or array.chunks
    grid = tuple(-(-size // max(1, cell)) for size, cell in zip(array.shape, unit, strict=True))
    # Chunk (1, 2, 3) is "c/1/2/3" or "1.2.3" and the like; without axes it is "c" or "0".
    prefix, separator = _spelling(key, len(grid)) if grid else (key(()), "/")
    if objects is None or prefix is None or math.prod(grid) > MOST_OBJECTS:
        return None
    entries: Iterable[Entry]
    if isinstance(objects, LocalObjects):
        flat = prefix.rstrip("c."), (MOST_OBJECTS,)  # all in one folder
        entries = _walked(objects.where, *((prefix, grid) if separator == "/" else flat))
    elif objects.listable:
        entries = objects.entries()
    else:
        return None
    try:
        return _on_grid(entries, prefix, separator, grid)
    except OSError:  # who may read need not be allowed to list
        return None


def _walked(where: str, below: str, left: tuple[int, ...]) -> Iterator[Entry]:
    """Yield the files below a folder, as many levels of it as `left` has numbers.

    Of each level that is how many names its folders may hold. Few, of all that are left, are asked
    for one by one: that takes less time than to list as many folders. What begins with a dot is
    nobody's chunk; what goes while others write, or is a link to nowhere, is not there.
    """
    if math.prod(left) <= _FEW:
        for place in itertools.product(*map(range, left)):
            name = below + "/".join(map(str, place))
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                status = os.stat(f"{where}/{name}")  # noqa: PTH116 # a Path would take as long
                if not stat.S_ISDIR(status.st_mode):
                    yield name, status.st_size
        return
    try:
        entries = os.scandir(f"{where}/{below}")
    except (FileNotFoundError, NotADirectoryError):
        return
    with entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if len(left) > 1:
                yield from _walked(where, f"{below}{entry.name}/", left[1:])
            elif not entry.is_dir():
                with contextlib.suppress(FileNotFoundError):
                    yield below + entry.name, entry.stat().st_size


def _on_grid(
    entries: Iterable[Entry], prefix: str, separator: str, grid: tuple[int, ...]
) -> np.ndarray:
    """Lay sizes out over the grid."""
    sizes = np.zeros(grid, np.int64)
    if not grid:
        sizes[()] = max((max(size, 1) for name, size in entries if name == prefix), default=0)
        return sizes
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
    for prefix, separator in (("c/", "/"), ("c.", "."), ("", "/"), ("", ".")):
        numbers = tuple(range(1, ndim + 1))
        if key(numbers) == prefix + separator.join(map(str, numbers)):
            return prefix, separator
    return None, ""

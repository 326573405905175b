"""Hash the stored bytes of an array's objects, for ledgers that trust no time of a store."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from chunkfold.decoding.codecs import most_stored
from chunkfold.errors import ChangedError, LedgerError
from chunkfold.sources.chunk_index import MOST_OBJECTS, Listing, joined_listings
from chunkfold.sources.concatenation import ConcatenatedSource
from chunkfold.sources.direct_route import objects_of
from chunkfold.sources.source import Source
from chunkfold.sources.zarr_source import ZarrSource
from chunkfold.stores.expected import ObjectState

_BYTES = 16
_PIECE_BYTES = 4 << 20
"""Bytes of an object that a thread holds at a time."""
_AT_ONCE, _AHEAD = 16, 256
"""Objects that are read at once, and that are asked for before more are."""
_ANY_TIME = np.iinfo(np.int64).max
"""Time of the listing of a store that cannot be listed: no answer has a later one."""


def with_contents(source: Source, hits: Sequence[np.ndarray]) -> Listing | None:
    """List what is stored of a source, with a hash of each object that is wanted.

    Where a store cannot be listed, as over plain HTTP, each is asked for. Sources that have no
    stored objects are listed as they are.

    Parameters
    ----------
    hits
        For each axis whether each of the objects along it is wanted.

    Raises
    ------
    LedgerError
        If an object cannot be read.
    ChangedError
        If one is written to meanwhile.
    """
    if isinstance(source, ConcatenatedSource) and source.aligned:
        return _of_parts(source, hits)
    listing, grid = source.listing(), source.object_grid
    objects = objects_of(source.array) if isinstance(source, ZarrSource) else None
    if not isinstance(source, ZarrSource) or objects is None or math.prod(grid) > MOST_OBJECTS:
        return listing
    contents, sizes = np.zeros(grid, f"V{_BYTES}"), np.zeros(grid, np.uint64)
    most = most_stored(math.prod(source.object_shape) * source.dtype.itemsize)

    def read(place: tuple[int, ...]) -> tuple[int, bytes]:
        try:
            return _read(objects, source.array.metadata.encode_chunk_key(place), most)
        except ChangedError as error:
            raise ChangedError(f"{source.name}: {source.object_key(place)}: {error}") from None
        except Exception as error:
            raise LedgerError(
                f"{source.name}: {source.object_key(place)} cannot be read for its hash "
                f"({error}): omit ledger_verify, or the ledger"
            ) from error

    stored = itertools.product(*(np.flatnonzero(along).tolist() for along in hits))
    wanted = (place for place in stored if listing is None or listing.sizes[place])
    with ThreadPoolExecutor(_AT_ONCE, "chunkfold-hash") as pool:
        while some := list(itertools.islice(wanted, _AHEAD)):
            for place, (size, digest) in zip(some, pool.map(read, some), strict=True):
                sizes[place], contents[place] = size, np.void(digest)
    if listing is None:
        listing = Listing(sizes, _ANY_TIME, np.zeros(grid, np.int64))
    return replace(listing, contents=contents)


def _of_parts(source: ConcatenatedSource, hits: Sequence[np.ndarray]) -> Listing | None:
    axis, unit, found = source.axis, source.object_shape[source.axis], list[Listing]()
    for number, (start, stop) in enumerate(itertools.pairwise(source.starts)):
        along = hits[axis][start // unit : -(-stop // unit)]
        own = with_contents(source.parts[number], [*hits[:axis], along, *hits[axis + 1 :]])
        if own is None:
            return None
        found.append(own)
    return joined_listings(found, axis)


def _read(objects: Any, key: str, most: int) -> tuple[int, bytes]:
    """Return the size of an object, and a hash of what is in it; 0 if it is not stored."""
    made, first = hashlib.blake2b(digest_size=_BYTES), None
    for state, piece in _pieces(objects, key, most):
        first = first or state
        first.refuse_other(state)
        made.update(piece)
    return (0 if first is None else max(1, first.size)), made.digest()


def _pieces(objects: Any, key: str, most: int) -> Iterator[tuple[ObjectState, memoryview]]:
    begin, size = 0, 1
    while begin < size:
        # Opened anew for each: objects behind a network hold what was brought of them.
        with objects.open(key, most, (begin, _PIECE_BYTES), most) as found:
            if found is None:
                return
            size = found.size
            yield found.state(), found.read((begin, min(_PIECE_BYTES, size - begin)))
        begin += _PIECE_BYTES

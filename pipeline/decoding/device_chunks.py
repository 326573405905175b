"""Find the stored chunks of a region in local files, for a device to decode."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from chunkfold.decoding.chunk_keys import keys_in
from chunkfold.decoding.codecs import room_of
from chunkfold.decoding.file_runs import chunks_touched
from chunkfold.kernels.decode.stored_chunks import StoredChunks, boxes_of, in_places
from chunkfold.kernels.feed.commands import UNKNOWN, Runs
from chunkfold.stores.expected import Expected

if TYPE_CHECKING:
    from chunkfold.decoding.direct import Direct
    from chunkfold.stores.objects import LocalObjects

MOST_TOUCHED = 2
"""Chunks that are touched decode to so many times the region at most: the host takes parts."""


def stored_chunks(
    of: Direct,
    files: LocalObjects,
    codec: str,
    region: Sequence[slice],
    known: Expected | None,
    *,
    in_turn: bool,
) -> StoredChunks | None:
    """Return the chunks that a region touches, and where what is taken of them goes.

    None if that is better left to the host: elements are left out between others, most of the
    chunks is not taken, or one is not stored, or larger than it can be.
    """
    extents = [cut.stop - cut.start for cut in region]
    if not extents or min(extents) < 1 or any((cut.step or 1) != 1 for cut in region):
        return None
    box = chunks_touched(region, of.shape)
    decoded = math.prod(map(len, box)) * of.nbytes
    if decoded > MOST_TOUCHED * math.prod(extents) * of.dtype.itemsize:
        return None
    found = _in_shards(of, files, box, known) if of.shards else _in_files(of, files, box, known)
    if found is None:
        return None
    names, states, number, offsets, sizes = found
    if not (sizes.min() > 0 and sizes.max() <= room_of(of.nbytes)):
        return None
    newest, unit = (UNKNOWN, 1) if known is None else known.newest_written
    runs = np.column_stack([number, offsets, in_places(sizes), sizes])
    files_known = np.column_stack([states, np.full((len(names), 2), (newest, unit))])
    whole = in_turn and all(
        extent == len(along) * size
        for extent, along, size in zip(extents, box, of.shape, strict=True)
    )
    return StoredChunks(
        Runs(names, files_known, runs),
        codec,
        of.nbytes,
        of.dtype.itemsize,
        None if whole else boxes_of(region, of.shape),
    )


_Found = tuple[Sequence[str], np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Files and their sizes; for each chunk the number of its file, its offset and its size."""


def _in_files(
    of: Direct, files: LocalObjects, box: Sequence[range], known: Expected | None
) -> _Found | None:
    """Find chunks that are files of their own; None if one is not there."""
    names = [f"{files.where}/{key}" for key in keys_in(of.key, box)]
    if known is not None and known.listed:
        sizes = known.sizes_in(box)
    else:
        try:
            sizes = np.array([Path(name).stat().st_size for name in names], np.int64)
        except OSError:
            return None
    number = np.arange(len(names))
    return names, sizes, number, np.zeros_like(number), sizes


def _in_shards(
    of: Direct, files: LocalObjects, box: Sequence[range], known: Expected | None
) -> _Found | None:
    """Find chunks by the indices of their shards; None if one is not there."""
    assert of.shards is not None
    places = np.stack(np.meshgrid(*box, indexing="ij"), axis=-1).reshape(-1, len(box))
    shards, number = np.unique(places // of.shards.shape, axis=0, return_inverse=True)
    inner, number = places % of.shards.shape, number.reshape(-1)
    names, states = [of.key(tuple(shard)) for shard in shards.tolist()], list[int]()
    spans = np.empty((len(places), 2), np.int64)
    for n, (name, place) in enumerate(zip(names, shards.tolist(), strict=True)):
        if known is not None and known.lacks(place):
            return None
        with files.open(name, of.nbytes, of.shards.index_span, of.most_stored) as shard:
            if shard is None:
                return None
            mine = number == n
            own = of.shards.index(shard)[tuple(inner[mine].T)]
            if (own > shard.size).any() or (own.sum(axis=1) > shard.size).any():  # or not stored
                return None
            spans[mine] = own
            listed = 0 if known is None else known.size_of(place)
            states.append(listed or shard.size)
    names = [f"{files.where}/{name}" for name in names]
    return names, np.array(states, np.int64), number, spans[:, 0], spans[:, 1]

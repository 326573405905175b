"""Find the stored chunks of a region in local files, for a device to decode."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from chunkfold.decoding.chunk_keys import keys_in
from chunkfold.decoding.codecs import room_of
from chunkfold.decoding.file_runs import chunks_touched
from chunkfold.kernels.decode.codec_chain import BLOSC_COMPRESSORS, PLAIN, CodecChain
from chunkfold.kernels.decode.stored_chunks import StoredChunks, boxes_of, in_places
from chunkfold.kernels.feed.commands import UNKNOWN, Runs
from chunkfold.kernels.feed.native import file_states
from chunkfold.stores.expected import Expected
from chunkfold.stores.objects import LocalObjects

if TYPE_CHECKING:
    from chunkfold.decoding.direct import Direct

MOST_TOUCHED = 2
"""Chunks that are touched decode to so many times the region at most: the host takes parts."""


def device_codecs(of: Direct) -> CodecChain | None:
    """Return the codecs of an array's chunks, if they are in local files and devices know them."""
    others = [codec.name for codec in of.chain if codec.filter is None]
    filtered = [codec.filter is not None for codec in of.chain]
    if not isinstance(of.objects, LocalObjects) or len(others) > 1 or sorted(filtered) != filtered:
        return None
    codecs = CodecChain(others[0] if others else PLAIN, of.filters)
    known = of.within_blosc in ("", *BLOSC_COMPRESSORS)
    return codecs if known and codecs.on_devices(of.nbytes) else None


def stored_chunks(
    of: Direct, region: Sequence[slice], known: Expected | None, *, in_turn: bool
) -> tuple[Runs, StoredChunks] | None:
    """Return the chunks that a region touches, where they are stored, and where they go.

    None if that is better left to the host: elements are left out between others, most of the
    chunks is not taken, or one is not stored, or larger than it can be, or cannot be found.
    """
    try:
        return _stored_chunks(of, region, known, in_turn=in_turn)
    except Exception:  # noqa: BLE001 # whatever it is: it is read again, with more care
        return None


def _stored_chunks(
    of: Direct, region: Sequence[slice], known: Expected | None, *, in_turn: bool
) -> tuple[Runs, StoredChunks] | None:
    codecs, files = device_codecs(of), of.objects
    if codecs is None or not isinstance(files, LocalObjects):
        return None
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
    given = codecs.sizes(of.nbytes)[0]
    least, most = (1, room_of(given)) if codecs.compressors else (given, given)
    if not (least <= sizes.min() and sizes.max() <= most):
        return None
    newest, unit = (UNKNOWN, 1) if known is None else known.newest_written
    places = in_places(sizes)
    runs = Runs(
        names,
        np.column_stack([states, np.full((len(names), 2), (newest, unit))]),
        np.column_stack([number, offsets, places, sizes]),
    )
    whole = in_turn and all(
        extent == len(along) * size
        for extent, along, size in zip(extents, box, of.shape, strict=True)
    )
    boxes = None if whole else boxes_of(region, of.shape)
    return runs, StoredChunks(places, sizes, codecs, of.nbytes, of.dtype.itemsize, boxes)


_Found = tuple[Sequence[str], np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Files and their sizes; for each chunk the number of its file, its offset and its size."""


def _in_files(
    of: Direct, files: LocalObjects, box: Sequence[range], known: Expected | None
) -> _Found | None:
    """Find chunks that are files of their own; None if one is not there."""
    names = [f"{files.where}/{key}" for key in keys_in(of.key, box)]
    listed = known is not None and known.listed
    sizes = known.sizes_in(box) if known and listed else file_states(names)[:, 0]
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

"""Locate the stored chunks of a region that a device decodes, in files or behind a network."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chunkfold.decoding.chunk_keys import keys_in
from chunkfold.decoding.codecs import stored_bound
from chunkfold.decoding.decode_units import cells_of
from chunkfold.decoding.file_runs import chunks_touched
from chunkfold.decoding.shards import UNSTORED, Shards
from chunkfold.decoding.wanted_chunks import WantedObject, wanted_objects
from chunkfold.kernels.decode.codec_chain import BLOSC_COMPRESSORS, PLAIN, CodecChain
from chunkfold.kernels.decode.decode_batch import DecodeBatch, aligned_offsets, boxes_of
from chunkfold.kernels.feed.commands import UNKNOWN, Contents, NotFed, Runs
from chunkfold.kernels.feed.native import file_states
from chunkfold.stores.expected import Expected
from chunkfold.stores.objects import LocalObjects, StoredObject

if TYPE_CHECKING:
    from chunkfold.decoding.direct import Direct

MOST_TOUCHED = 2
"""If the touched chunks have more than so many times the region's bytes, the host decodes."""


def device_codecs(of: Direct | None) -> CodecChain | None:
    """Return the codecs of an array's chunks, if devices decode them; None if zarr reads them.

    Return None for uncompressed chunks behind a network, too: the host copies these.
    """
    if of is None:
        return None
    others = [codec.name for codec in of.chain if codec.filter is None]
    filtered = [codec.filter is not None for codec in of.chain]
    copied = not of.chain and not isinstance(of.objects, LocalObjects)
    if copied or len(others) > 1 or sorted(filtered) != filtered:
        return None
    codecs = CodecChain(others[0] if others else PLAIN, of.filters)
    known = of.within_blosc in ("", *BLOSC_COMPRESSORS)
    return codecs if known and codecs.on_devices(of.nbytes) else None


def decode_batch(
    of: Direct | None, name: str, region: Sequence[slice], known: Expected | None, *, in_turn: bool
) -> tuple[Runs | Contents, DecodeBatch] | None:
    """Return the chunks that a region touches, where they are stored, and where they go.

    Return None if the host is to read it: the region has steps, takes less than half of its chunks,
    a chunk is too large, missing although it is required, or anything fails.

    Parameters
    ----------
    name
        Name of the array in messages.
    known
        The listed states of its objects.
    in_turn
        True if elements may come chunk after chunk instead of in C order.
    """
    try:
        return _decode_batch(of, name, region, known, in_turn=in_turn)
    except Exception:  # noqa: BLE001 # whatever it is: it is read again, with more care
        return None


def _decode_batch(
    of: Direct | None, name: str, region: Sequence[slice], known: Expected | None, *, in_turn: bool
) -> tuple[Runs | Contents, DecodeBatch] | None:
    codecs = device_codecs(of)
    extents = [cut.stop - cut.start for cut in region]
    if of is None or codecs is None or not extents or min(extents) < 1:
        return None
    if any((cut.step or 1) != 1 for cut in region):
        return None
    box = chunks_touched(region, of.shape)
    decoded = math.prod(map(len, box)) * of.nbytes
    if decoded > MOST_TOUCHED * math.prod(extents) * of.dtype.itemsize:
        return None
    given = codecs.sizes(of.nbytes)[0]
    least, most = (1, stored_bound(given)) if codecs.compressors else (given, given)
    files = _local_files(of, box, known) if isinstance(of.objects, LocalObjects) else None
    sizes = _most_sizes(of, box, known, most) if files is None else files.sizes
    stored = sizes > 0
    lacking = not stored.all() and known is not None and known.needed
    if lacking or not stored.any() or not least <= sizes[stored].min() <= sizes.max() <= most:
        return None
    whole = in_turn and all(
        extent == len(along) * size
        for extent, along, size in zip(extents, box, of.shape, strict=True)
    )
    boxes = None if whole else boxes_of(region, of.shape)
    fill = np.full(1, of.fill, of.dtype).tobytes()
    places = aligned_offsets(sizes)
    chunks = DecodeBatch(places, sizes, codecs, of.nbytes, of.dtype.itemsize, boxes, fill)
    if files is None:
        return _contents(of, name, region, known, sizes), chunks
    newest, unit = (UNKNOWN, 1) if known is None else known.newest_written
    states = np.column_stack([files.states, np.full((len(files.names), 2), (newest, unit))])
    runs = np.column_stack([files.number, files.offsets, places, sizes])
    return Runs(files.names, states, runs[stored]), chunks


class _Files(NamedTuple):
    """Files, and where chunks are in them, in C order of the chunks."""

    names: Sequence[str]
    states: np.ndarray
    """Size of each file in bytes."""
    number: np.ndarray
    """For each chunk the index of its file."""
    offsets: np.ndarray
    sizes: np.ndarray
    """Stored bytes of each chunk; 0: it is not stored."""


def _local_files(of: Direct, box: Sequence[range], known: Expected | None) -> _Files:
    """Find chunks in files; raises if one cannot be found, or is not as it should be."""
    assert isinstance(of.objects, LocalObjects)
    if of.shards is not None:
        return _in_shards(of, of.shards, of.objects, box, known)
    names = [f"{of.objects.where}/{key}" for key in keys_in(of.key, box)]
    listed = known is not None and known.listed
    sizes = known.sizes_in(box) if known and listed else file_states(names)[:, 0]
    if not listed and sizes.min() < 1:  # it is empty, or a folder
        raise NotFed(names[int(sizes.argmin())])
    number = np.arange(len(names))
    return _Files(names, sizes, number, np.zeros_like(number), sizes)


def _in_shards(
    of: Direct, shards: Shards, files: LocalObjects, box: Sequence[range], known: Expected | None
) -> _Files:
    """Find chunks by the indices of their shards."""
    places = np.stack(np.meshgrid(*box, indexing="ij"), axis=-1).reshape(-1, len(box))
    each, number = np.unique(places // shards.shape, axis=0, return_inverse=True)
    inner, number = places % shards.shape, number.reshape(-1)
    names, states = [of.key(tuple(shard)) for shard in each.tolist()], np.zeros(len(each), np.int64)
    spans = np.zeros((len(places), 2), np.int64)
    for n, (name, place) in enumerate(zip(names, each.tolist(), strict=True)):
        if known is not None and known.lacks(place):
            continue
        with files.open(name, of.nbytes, shards.index_span, of.most_stored) as shard:
            if shard is None:
                raise NotFed(name)
            mine = number == n
            spans[mine] = _spans(shards, shard, inner[mine])
            states[n] = (0 if known is None else known.size_of(place)) or shard.size
    names = [f"{files.where}/{name}" for name in names]
    return _Files(names, states, number, spans[:, 0], spans[:, 1])


def _spans(shards: Shards, shard: StoredObject, inner: np.ndarray) -> np.ndarray:
    """Return offset and size of chunks of a shard; size 0 if the chunk is missing.

    Raises
    ------
    NotFed
        If a span is not in the shard, or is empty.
    """
    spans: np.ndarray = shards.index(shard)[tuple(inner.T)]
    stored = (spans != UNSTORED).any(axis=1)
    own = spans[stored]
    # Offset and size each, too: their sum may overflow 64 bits.
    if (own > shard.size).any() or (own.sum(axis=1) > shard.size).any() or not own[:, 1].all():
        raise NotFed("the index is damaged")
    spans[~stored] = 0
    return spans


def _most_sizes(of: Direct, box: Sequence[range], known: Expected | None, most: int) -> np.ndarray:
    """Return a bound of the stored bytes of each chunk behind a network; 0 if it is missing."""
    if of.shards is None and known is not None and known.listed:
        return known.sizes_in(box)
    return np.full(math.prod(map(len, box)), most, np.int64)


def _contents(
    of: Direct, name: str, region: Sequence[slice], known: Expected | None, most: np.ndarray
) -> Contents:
    """Request the objects of a region; yield the number and the bytes of each chunk as they come.

    Raises
    ------
    ChunkError
        If an object cannot be brought, or differs from its listed state.
    NotFed
        If a chunk is not as it should be.
    """
    box = chunks_touched(region, of.shape)
    first, counts = [along.start for along in box], [len(along) for along in box]
    with wanted_objects(of, name, [(region, known)]) as objects:
        for wanted, _ in objects:
            if wanted.lacks:
                continue
            try:
                with wanted.open() as stored:
                    wanted.check_open(stored)
                    for place, content in _chunks_in(of, wanted, stored):
                        number = int(np.ravel_multi_index(np.subtract(place, first), counts))
                        if not 0 < len(content) <= most[number]:
                            raise NotFed(f"{wanted.key}: it has {len(content):,} bytes")
                        yield number, content
            except NotFed:
                raise
            except Exception as error:
                raise of.named(name, wanted.place, error) from error


def _chunks_in(
    of: Direct, wanted: WantedObject, stored: StoredObject | None
) -> Iterator[tuple[Sequence[int], memoryview]]:
    """Yield the places and the bytes of the chunks that are wanted of an object."""
    if stored is None:
        return
    if of.shards is None:
        yield wanted.place, stored.read((0, stored.size))
        return
    inner = np.array([inner for inner, _, _ in cells_of(wanted.source, of.shape)])
    spans = _spans(of.shards, stored, inner)
    wanted.refuse_lacking(int((spans[:, 1] == 0).sum()))
    stored.fetch([(at, size) for at, size in spans.tolist() if size])
    places = inner + np.multiply(wanted.place, of.shards.shape)
    for place, (at, size) in zip(places.tolist(), spans.tolist(), strict=True):
        if size:
            yield place, stored.read((at, size))

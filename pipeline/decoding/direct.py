"""Read stored chunks straight into given memory, those within shards too.

Zarr decodes each chunk into memory of its own and copies it from there; here it is decoded where it
is wanted, if it stands there in one piece.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from chunkfold.bad_chunks import BadChunk
from chunkfold.decoding.batched import (
    JOINED_BYTES,
    WantedChunk,
    decode_alone,
    decode_joined,
    joinable,
)
from chunkfold.decoding.chunk_keys import keys_in
from chunkfold.decoding.codecs import Chain, most_stored, stored_bound
from chunkfold.decoding.decode_units import InTurn, Out, ahead, cells_of, part_of, target_in
from chunkfold.decoding.decoder import Decoder
from chunkfold.decoding.file_runs import runs_of_region
from chunkfold.decoding.filters import filters_bytes
from chunkfold.decoding.shards import UNSTORED, Shards
from chunkfold.decoding.wanted_chunks import (
    DirectRegion,
    Wanted,
    WantedInner,
    WantedObject,
    wanted_objects,
)
from chunkfold.errors import ChunkfoldError, unreadable
from chunkfold.kernels.decode.codec_chain import Filter
from chunkfold.kernels.feed.commands import UNKNOWN, Runs
from chunkfold.stores.expected import Expected
from chunkfold.stores.objects import LocalObjects, Objects, Span, StoredObject, scratch

_NO_SPAN = (UNSTORED, UNSTORED)
"""Where an index says that a chunk is not stored."""


@dataclass(frozen=True)
class Direct:
    """Chunks of an array that are found and decoded without zarr."""

    objects: Objects
    key: Callable[[tuple[int, ...]], str]
    """Returns the name of a stored object from its place in the grid."""
    shape: tuple[int, ...]
    """Shape of a chunk."""
    dtype: np.dtype
    fill: Any
    """The elements of chunks that are not stored."""
    chain: Chain
    codecs: tuple[str, ...]
    """Names of the chain's codecs, in the order they were applied in."""
    shards: Shards | None = None
    within_blosc: str = ""
    """The compressor that Blosc calls, if metadata say that."""

    @cached_property
    def decoder(self) -> Decoder:
        """The decoder of its chunks."""
        return Decoder(self.shape, self.dtype, self.chain)

    @property
    def nbytes(self) -> int:
        """Decoded bytes of a chunk."""
        return self.decoder.nbytes

    @cached_property
    def filters(self) -> tuple[Filter, ...]:
        """Filters among its codecs, in the order in which they are undone."""
        return tuple(codec.filter for codec in self.chain if codec.filter is not None)

    @cached_property
    def _files(self) -> LocalObjects | None:
        """Store of its chunks if each is a local file of its own, else None."""
        local = isinstance(self.objects, LocalObjects) and self.shards is None
        return self.objects if local else None  # type: ignore[return-value]

    def file_runs(
        self, region: Sequence[slice], known: Expected | None, *, in_turn: bool
    ) -> Runs | None:
        """Return where the bytes of a region are, if chunks are local files without codecs.

        None too if a chunk is known not to be stored.
        """
        files = None if self.chain else self._files
        found = files and runs_of_region(region, self.shape, self.dtype.itemsize, in_turn=in_turn)
        if files is None or not found:
            return None
        box, runs = found
        if known is not None and known.listed and not known.sizes_in(box).all():
            return None
        newest, unit = (UNKNOWN, 1) if known is None else known.newest_written
        keys = keys_in(self.key, box)
        states = np.tile(np.array([self.nbytes, newest, unit], np.int64), (len(keys), 1))
        return Runs([f"{files.where}/{key}" for key in keys], states, runs)

    @cached_property
    def object_shape(self) -> tuple[int, ...]:
        """Shape of what is stored as one file: a chunk or a shard."""
        within = (1,) * len(self.shape) if self.shards is None else self.shards.shape
        return tuple(a * b for a, b in zip(self.shape, within, strict=True))

    @cached_property
    def joins(self) -> bool:
        """True if several of its chunks are decoded in one call."""
        one = len(self.chain) == 1 and self.chain[0].whole is not None
        return one and isinstance(self.objects, LocalObjects) and joinable(self.nbytes)

    @property
    def most_stored(self) -> int:
        """Stored bytes beyond which an object is none of its chunks or shards."""
        chunks = 1 if self.shards is None else math.prod(self.shards.shape)
        return chunks * most_stored(self.nbytes)

    def in_flight(self, leaf_bytes: int) -> int:
        """Return the decoded bytes of the chunks that a thread has at a time of such a leaf.

        As many stored ones come to that; half of what filters take is in both.
        """
        filtered = filters_bytes(self.filters, self.nbytes)
        return max(self.nbytes, min(JOINED_BYTES, leaf_bytes) * self.joins) + filtered // 2

    def read(
        self, name: str, region: Sequence[slice], out: np.ndarray, known: Expected | None = None
    ) -> None:
        """Decode a region into `out`, whose dtype is the region's.

        If `out` has the region's shape, elements stand where they are in it; if it has one axis,
        they stand in turn. For the rest see `each`.
        """
        into = out if out.ndim == len(region) else InTurn(out)
        with closing(self.each(name, [(region, known)], into)) as decoding:
            for _ in decoding:
                pass

    def each(self, name: str, regions: Iterable[DirectRegion], out: Out) -> Generator[None]:
        """Decode a region, or several where they go in turn.

        There it stops whenever there is no room for another chunk: all is there then that has a
        place. Objects that are known not to be stored are not asked for. Chunks are decoded where
        they are wanted if they stand there in one piece.

        Raises
        ------
        ChunkError
            If a chunk cannot be read or decoded, or has another size than its shape; `name` is
            what it calls the array.
        ChangedError
            If an object is not the one that is known.
        """
        with wanted_objects(self, name, regions) as objects:
            yield from self._each_of(name, objects, out)

    def _each_of(self, name: str, objects: Iterator[Wanted], out: Out) -> Iterator[None]:
        if self.shards is None:
            files = (
                (
                    None if chunk.lacks else chunk,
                    chunk.source,
                    within,
                    chunk.source == self._everything,
                )
                for chunk, within in objects
            )
            yield from self._decode(files, out)
            return
        for shard, within in objects:
            try:
                yield from self._each_of_shard(shard, part_of(out, within))
            except Exception as error:
                raise self.named(name, shard.place, error) from error

    def named(self, name: str, place: tuple[int, ...], error: Exception) -> ChunkfoldError:
        """Say of an object what is wrong with it."""
        kind = "chunk" if self.shards is None else "shard"
        reason = f"{type(error).__name__}: {error}"
        bad = BadChunk(name, kind, self.key(place), self.codecs, self.objects.where, reason)
        return unreadable(bad, error)

    def _decode(self, chunks: Iterator[WantedChunk], out: Out) -> Iterator[None]:
        """Decode chunks, or fill where there is none; as `each`."""
        found = ahead(chunks) if isinstance(self.objects, LocalObjects) else chunks
        if self.joins:
            yield from decode_joined(self.chain[0], self.shape, self.fill, found, out)
            return
        elements = math.prod(self.shape)
        for chunk, _, within, _ in found:
            decode_alone(chunk, target_in(out, within), self.fill)
            if isinstance(out, InTurn) and out.left < elements:
                yield

    @cached_property
    def _everything(self) -> tuple[slice, ...]:
        """Slices that take a whole chunk."""
        return tuple(slice(0, size, 1) for size in self.shape)

    def read_object(self, chunk: WantedObject, target: np.ndarray) -> None:
        """Decode what is taken of a chunk that is an object of its own."""
        files = self._files
        if files is not None:
            read = self._read_short if self.chain else self._read_plain
            if read(files, chunk, target):
                return
        with chunk.open() as stored:
            try:
                if stored is None:
                    target[...] = self.fill
                else:
                    self.decoder.read(stored, (0, stored.size), chunk.source, target)
            finally:  # also of one that was written to meanwhile, and could not be decoded
                chunk.check_open(stored)

    def _read_short(self, files: LocalObjects, chunk: WantedObject, target: np.ndarray) -> bool:
        """Read a chunk that is a local file in few calls: each gives Python's lock away.

        False where it takes a closer look, which then says what is wrong.
        """
        room = stored_bound(self.nbytes)
        stored = scratch.buffer("stored", room).data
        try:
            count = files.read_short(chunk.key, [stored], chunk.compared)
            if count == room:
                return False
            self.decoder.undo(stored[:count], chunk.source, target)
        except Exception:  # noqa: BLE001 # whatever it is: it is read again, with more care
            return False
        return True

    def _read_plain(self, files: LocalObjects, chunk: WantedObject, target: np.ndarray) -> bool:
        """The same of a chunk without codecs, listed with its size, where nothing is copied."""
        compared = chunk.compared
        if compared is None or chunk.listed != self.nbytes:
            return False
        if (straight := self.decoder.straight(chunk.source, target)) is None:
            return False
        first, pieces = straight
        try:
            count = files.read_short(chunk.key, pieces, compared, first)
        except Exception:  # noqa: BLE001 # as above
            return False
        return count == sum(piece.nbytes for piece in pieces)

    def spans_to_fetch(self, stored: StoredObject, inner: Sequence[tuple[int, ...]]) -> list[Span]:
        """Return where chunks of a shard are, but such as cannot be: these are not asked for."""
        assert self.shards is not None
        return self._possible(stored, self.shards.spans(stored, inner))

    def _possible(self, stored: StoredObject, spans: Sequence[Span]) -> list[Span]:
        most = most_stored(self.nbytes)
        return [span for span in spans if sum(span) <= stored.size and span[1] <= most]

    def _each_of_shard(self, shard: WantedObject, out: Out) -> Iterator[None]:
        """Decode what is taken of a shard; as `each`."""
        assert self.shards is not None
        cells = list(cells_of(shard.source, self.shape))
        lacks = shard.lacks
        with nullcontext() if lacks else shard.open() as stored:
            spans = [_NO_SPAN] * len(cells)
            if not lacks:
                shard.check_open(stored)
            if stored is not None:
                spans = self.shards.spans(stored, [inner for inner, _, _ in cells])
                shard.refuse_lacking(spans.count(_NO_SPAN))
                stored.fetch(self._possible(stored, spans))
            chunks: Iterator[WantedChunk] = (
                (
                    None
                    if stored is None or span == _NO_SPAN
                    else WantedInner(self, stored, inner, span, part),
                    part,
                    within,
                    part == self._everything,
                )
                for (inner, part, within), span in zip(cells, spans, strict=True)
            )
            try:
                yield from self._decode(chunks, out)
            except Exception:
                if stored is not None:  # written to meanwhile, it could not be decoded
                    shard.check_open(stored)
                raise
            if stored is not None:
                shard.check_open(stored)

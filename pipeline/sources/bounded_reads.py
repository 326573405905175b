"""zarr-python's arrays that decode with a bound: each chunk to the size that its shape needs."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from zarr.abc.codec import ArrayBytesCodec, BytesBytesCodec
from zarr.abc.store import RangeByteRequest
from zarr.codecs import BytesCodec, ShardingCodec, VLenBytesCodec, VLenUTF8Codec
from zarr.codecs._v2 import V2Codec
from zarr.core.array import AsyncArray
from zarr.core.metadata import ArrayV2Metadata
from zarr.storage import FsspecStore, LocalStore, StorePath, WrapperStore, ZipStore

from chunkfold.decoding.bounded import (
    WholeChunk,
    most_between,
    refuse_count,
    refuse_larger,
    undone,
    undone_bytes,
)
from chunkfold.decoding.codecs import NUMCODECS, chain_of, most_stored, of_another_size
from chunkfold.sources.zarr_arrays import AnyArray, object_shape_of

_IN_PARTS = (FsspecStore, LocalStore, ZipStore)
"""Stores of which a part of an object can be read that ends before the part."""


def bounded(array: AnyArray) -> AnyArray:
    """Return an array whose chunks are read and decoded with a bound; it is only to be read."""
    metadata = array.metadata
    dtype = np.dtype(array.dtype)
    nbytes = math.prod(object_shape_of(array)) * max(dtype.itemsize, 1)
    most = None if dtype.kind in "OT" else most_between(most_stored(nbytes))
    store: Any = array.store if most is None else _BoundedStore(array.store, most)
    made: Any = AsyncArray(metadata, StorePath(store, array.path), array.async_array.config)
    codecs: Any
    if isinstance(metadata, ArrayV2Metadata):
        whole: Any = WholeChunk(metadata.compressor, metadata.filters or (), array.chunks, dtype)
        codecs = [V2Codec(filters=None, compressor=whole)]
    else:
        codecs = _with_bounds(metadata.codecs)
    pipeline = type(made.codec_pipeline).from_codecs(codecs)
    object.__setattr__(made, "codec_pipeline", pipeline)
    return zarr.Array(made)


def _with_bounds(codecs: Iterable[Any]) -> list[Any]:
    """Return codecs of format 3, those in shards too, which decode with a bound."""
    found: list[Any] = []
    for codec in codecs:
        if isinstance(codec, ShardingCodec):
            found.append(
                ShardingCodec(
                    chunk_shape=codec.chunk_shape,
                    codecs=_with_bounds(codec.codecs),
                    index_codecs=_with_bounds(codec.index_codecs),
                    index_location=codec.index_location,
                )
            )
        elif isinstance(codec, BytesBytesCodec):
            found.append(_Bounded(codec))
        else:
            found.append(codec)
            if isinstance(codec, ArrayBytesCodec):
                found.append(_OfItsShape(codec))
    return found


@dataclass(frozen=True)
class _Bounded(BytesBytesCodec):
    """A codec that decodes to no more bytes than its chunk may have on the way."""

    codec: Any
    is_fixed_size = False

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = self.codec.to_dict()
        return found

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        most = most_between(_nbytes_of(chunk_spec)) if _is_fixed(chunk_spec) else None
        name = str(self.codec.to_dict().get("name", "")).removeprefix(NUMCODECS)
        known = chain_of([name])
        if most is None:
            return await self.codec._decode_single(chunk_bytes, chunk_spec)
        stored = memoryview(chunk_bytes.as_numpy_array()).cast("B")
        if known is not None:
            found = await asyncio.to_thread(undone_bytes, name, known[0], stored, most)
        elif hasattr(self.codec, "_codec"):
            found = await asyncio.to_thread(undone, self.codec._codec, stored, most, -1)
        else:
            decoded = await self.codec._decode_single(chunk_bytes, chunk_spec)
            refuse_larger(decoded, most)
            return decoded
        return chunk_spec.prototype.buffer.from_bytes(bytes(found))

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        size: int = self.codec.compute_encoded_size(input_byte_length, chunk_spec)
        return size


@dataclass(frozen=True)
class _OfItsShape(BytesBytesCodec):
    """Refuses bytes of another size than the elements have that are made of them."""

    codec: Any
    """The codec that makes the elements."""
    is_fixed_size = True

    def to_dict(self) -> dict[str, Any]:
        return {"name": "of_its_shape"}

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        if isinstance(self.codec, BytesCodec) and len(chunk_bytes) != _nbytes_of(chunk_spec):
            raise of_another_size(len(chunk_bytes), _nbytes_of(chunk_spec))
        if isinstance(self.codec, (VLenUTF8Codec, VLenBytesCodec)):
            stored = memoryview(chunk_bytes.as_numpy_array()).cast("B")
            refuse_count(stored, math.prod(chunk_spec.shape))
        return chunk_bytes

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        del chunk_spec
        return input_byte_length


def _is_fixed(spec: Any) -> bool:
    """Return True if the elements of a chunk have a fixed size; texts may have any size."""
    return spec.dtype.to_native_dtype().kind not in "OT"


def _nbytes_of(spec: Any) -> int:
    itemsize: int = spec.dtype.to_native_dtype().itemsize
    elements: int = math.prod(spec.shape)
    return elements * itemsize


class _BoundedStore(WrapperStore[Any]):
    """A store of which no object is read that is larger than chunks can be."""

    def __init__(self, store: Any, most: int) -> None:
        super().__init__(store)
        self._most = most

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """Read an object, or a part of one; None if there is none.

        Raises
        ------
        ValueError
            If it is larger than chunks can be.
        """
        asked = byte_range
        if isinstance(asked, RangeByteRequest) and asked.end - asked.start > self._most:
            raise ValueError(
                f"{asked.end - asked.start:,} bytes of it are to be read, more than {self._most:,}"
            )
        if byte_range is None and isinstance(self._store, _IN_PARTS):
            asked = RangeByteRequest(0, self._most + 1)
        found = await self._store.get(key, prototype, asked)
        if found is not None and len(found) > self._most:
            raise ValueError(f"it has more than {self._most:,} bytes: it cannot be this chunk")
        return found

"""Regions that zarr-python decodes, where chunkfold does not."""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from zarr.buffer.cpu import NDBuffer

from chunkfold.bad_chunks import BadChunk
from chunkfold.decoding.codec_metadata import codec_names
from chunkfold.decoding.codecs import most_stored
from chunkfold.decoding.decode_units import cells_of, view
from chunkfold.errors import ChunkError, ChunkfoldError, unreadable
from chunkfold.redaction import without_secrets
from chunkfold.sources.direct_route import fill_value
from chunkfold.sources.zarr_arrays import AnyArray, object_shape_of
from chunkfold.stores.expected import UNTOLD, Expected
from chunkfold.stores.objects import Objects
from chunkfold.stores.remote import RemoteObjects, message_of
from chunkfold.stores.remote_store import MOST_OF_CHUNK, RemoteStore
from chunkfold.stores.transient_faults import TRIES


@dataclass(frozen=True)
class ByZarr:
    """An array whose regions zarr-python reads."""

    array: AnyArray
    bounded: AnyArray
    """The same, which decodes with a bound."""
    name: str
    """The name that messages use."""
    unit: tuple[int, ...]
    """Extents of what is decoded at once."""
    objects: Objects | None
    """The place of its objects, if they can be requested without zarr."""
    remote: bool = field(kw_only=True)
    """True if it is read over a network, whose faults may pass."""

    def read(self, region: Sequence[slice], out: np.ndarray, known: Expected | None) -> None:
        """Decode a region into `out`; what is raised as `ZarrSource.read`."""
        try:
            self._read(region, out)
        except ChunkfoldError:  # perhaps as it was written to meanwhile, and then that is why
            with contextlib.suppress(ChunkError):
                self._check_objects(region, out, known)
            raise
        self._check_objects(region, out, known)

    def _check_objects(
        self, region: Sequence[slice], out: np.ndarray, known: Expected | None
    ) -> None:
        """See that objects that zarr read are those that are known; fill others that it found."""
        objects = self.objects
        dated = isinstance(objects, RemoteObjects) and objects.planned != UNTOLD
        if objects is None or not (known or dated):
            return
        for place, _, within in cells_of(region, object_shape_of(self.array)):
            if known is not None and known.lacks(place):
                view(out, within)[...] = fill_value(self.array)
                continue
            key = self.array.metadata.encode_chunk_key(place)
            try:
                found = objects.state(key)
                if known is not None:
                    known.check(place, found)
            except Exception as error:
                bad = BadChunk(self.name, "object", key, (), objects.where, str(error))
                raise unreadable(bad, error) from error

    def _most_stored(self) -> int:
        """Return the stored bytes beyond which an object is none of its chunks or shards."""
        dtype, chunk = np.dtype(self.array.dtype), math.prod(self.array.chunks)
        if dtype.hasobject:  # of any size
            return sys.maxsize
        chunks = math.prod(object_shape_of(self.array)) // max(1, chunk)
        return max(1, chunks) * most_stored(chunk * dtype.itemsize)

    def _read(self, region: Sequence[slice], out: np.ndarray) -> None:
        MOST_OF_CHUNK.set(self._most_stored())
        try:
            read, into = self.bounded.get_basic_selection, NDBuffer.from_numpy_array(out)
            if self.remote and not isinstance(self.array.store, RemoteStore):
                TRIES(read, tuple(region), out=into)
            else:
                read(tuple(region), out=into)
        except Exception as error:
            store = without_secrets(str(self.array.store_path))
            reason = f"{type(error).__name__}: {message_of(error)}"
            codecs = codec_names(self.array.metadata.to_dict())
            bad = BadChunk(self.name, *self._named_cell(region), codecs, store, reason)
            raise unreadable(bad, error) from error

    def _named_cell(self, region: Sequence[slice]) -> tuple[str, str]:
        """Return kind and key of the first cell of a region that cannot be read.

        Or the region, if all of them can.
        """
        cuts = [
            range(cut.start // size, (cut.stop - 1) // size + 1)
            for cut, size in zip(region, self.unit, strict=True)
        ]
        for place in itertools.product(*cuts):
            box = tuple(
                slice(n * size, (n + 1) * size) for n, size in zip(place, self.unit, strict=True)
            )
            try:
                self.bounded.get_basic_selection(box)
            except Exception:  # noqa: BLE001 # whatever it is: this one it is of
                return "chunk", self.array.metadata.encode_chunk_key(place)
        return "region", "[" + ", ".join(f"{cut.start}:{cut.stop}" for cut in region) + "]"

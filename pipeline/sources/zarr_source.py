"""Zarr arrays, v2 and v3, as sources: regions are read into given memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from chunkfold.axis_cuts import Cells
from chunkfold.decoding.codec_metadata import refuse_code
from chunkfold.decoding.decode_units import InTurn
from chunkfold.decoding.device_batch import decode_batch, device_codecs
from chunkfold.decoding.direct import Direct
from chunkfold.decoding.wanted_chunks import DirectRegion
from chunkfold.kernels.decode.codec_chain import CodecChain
from chunkfold.kernels.decode.decode_batch import DecodeBatch
from chunkfold.kernels.feed.commands import Contents, Runs
from chunkfold.settings import StorageOptions
from chunkfold.sources import zarr_arrays
from chunkfold.sources.array_source import copied
from chunkfold.sources.bounded_reads import bounded
from chunkfold.sources.chunk_index import Listing, list_objects
from chunkfold.sources.direct_route import direct_of, fill_value, objects_of, server_time_of
from chunkfold.sources.ome_zarr import ImageLevel, level_at
from chunkfold.sources.source import Source
from chunkfold.sources.stored_metadata import refuse_odd
from chunkfold.sources.zarr_arrays import AnyArray
from chunkfold.sources.zarr_groups import groups_above
from chunkfold.sources.zarr_reads import ByZarr
from chunkfold.stores.chains import ChainStore
from chunkfold.stores.expected import UNTOLD, Expected
from chunkfold.stores.icechunk_store import Snapshot


@dataclass(frozen=True, repr=False)
class ZarrSource(Source):
    """A Zarr array, whatever its store."""

    array: AnyArray
    name: str
    """The name that messages use."""
    address: str | None = None
    """Path or URL that it was named by, secrets and all; None if it was given as an array."""
    options: StorageOptions = field(default_factory=dict)
    """The options that opened its store."""
    planned: int = UNTOLD
    """The time when the run was planned, by its server's clock."""

    def __post_init__(self) -> None:
        refuse_code(self.array, self.name)
        refuse_odd(self.array, self.name)
        if isinstance(self.array.store, ChainStore):
            self.array.store.check_references(self.array.path)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is worked out of it, such as how it is decoded."""
        return {one.name: self.__dict__[one.name] for one in fields(self)}

    def __repr__(self) -> str:
        return f"<ZarrSource {self.name}: {self.dtype}, shape {self.shape}>"

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return tuple(self.array.shape)

    @cached_property
    def dtype(self) -> np.dtype:
        """Element dtype, in the byte order of what its chunks decode to."""
        return np.dtype(self.array.dtype) if self.direct is None else self.direct.dtype

    @property
    def chunks(self) -> tuple[int, ...]:
        """Extents of a chunk."""
        return tuple(self.array.chunks)

    @property
    def shards(self) -> tuple[int, ...] | None:
        """Extents of a shard, if it has some."""
        return None if self.array.shards is None else tuple(self.array.shards)

    @property
    def unit(self) -> tuple[int, ...]:
        """Extents of what is decoded at once: a chunk, or else a shard where zarr reads it."""
        return tuple((self.direct is None and self.shards) or self.chunks)

    @property
    def dims(self) -> tuple[str | None, ...] | None:
        """Names of the axes: zarr's, or xarray's, or those of the image that it is a level of."""
        names: Any = getattr(self.array.metadata, "dimension_names", None)
        names = names if any(names or ()) else self.attributes.get("_ARRAY_DIMENSIONS")
        fits = isinstance(names, (list, tuple)) and len(names) == self.array.ndim
        if fits and all(name is None or isinstance(name, str) for name in names):
            return tuple(names)
        return None if self.level is None else self.level.names(self.array.ndim)

    @cached_property
    def level(self) -> ImageLevel | None:
        """Return the level of an OME-Zarr image that it is; None if it is none."""
        return level_at(self.groups_above())

    def groups_above(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the groups that it is in: see `groups_above` of `chunkfold.sources.zarr_groups`."""
        return groups_above(self.array, self.local_path or self.address or "", self.options)

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Return the attributes of the array."""
        return self.array.attrs.asdict()

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Return the metadata, as they are stored."""
        return self.array.metadata.to_dict()

    @property
    def missing_fill(self) -> Sequence[Any]:
        """The fill value of format 2, which is where xarray keeps `_FillValue`."""
        fill = self.array.fill_value
        return [fill] if self.array.metadata.zarr_format == 2 and fill is not None else []

    @property
    def as_it_is(self) -> bool:
        """Return True if its cells have no codecs, so that a part of one can be read alone."""
        return self.direct is not None and not self.direct.chain

    @property
    def remote(self) -> bool:
        """Return True if a read mostly waits for a network."""
        return zarr_arrays.is_remote(self.array)

    @property
    def local_path(self) -> str | None:
        """Return its path on a local disk; None if it is not on one."""
        return zarr_arrays.local_path_of(self.array)

    @property
    def own_addresses(self) -> Sequence[str]:
        """The path or URL that it is read from, and those of files that references lead to."""
        store, own = self.array.store, zarr_arrays.disk_path_of(self.array) or self.name
        return [own, *(store.led_to if isinstance(store, ChainStore) else ())]

    @property
    def travels(self) -> bool:
        """All do but what is in a session of Icechunk's that is written to."""
        return not isinstance(self.array.store, Snapshot) or self.array.store.travels

    def parted(self, regions: Sequence[Sequence[slice]]) -> Source:
        """Return it, or of one that does not travel copies of regions."""
        return self if self.travels else copied(self, regions)

    @property
    def object_shape(self) -> tuple[int, ...]:
        """Shape of what is stored as one object: a shard, or else a chunk."""
        return zarr_arrays.object_shape_of(self.array)

    @property
    def object_kind(self) -> str:
        """Return the name of stored objects in messages."""
        return "shards" if self.shards else "chunks"

    def object_key(self, place: tuple[int, ...]) -> str:
        """Return its key."""
        return f"'{self.array.metadata.encode_chunk_key(place)}'"

    @property
    def fill(self) -> Any:
        """The value of elements that are not stored."""
        return fill_value(self.array)

    @property
    def grid(self) -> tuple[Cells, ...]:
        """Return the boundaries of units along each axis."""
        cells = zip(self.shape, self.unit, strict=True)
        return tuple(Cells(size, max(1, unit)) for size, unit in cells)

    def reading_bytes(self, leaf_bytes: int, touched_bytes: int) -> int:
        """Whole units, compressed and decoded: one by one, or by zarr all at once."""
        if self.direct is not None:
            return self.direct.in_flight(leaf_bytes)
        return super().reading_bytes(leaf_bytes, touched_bytes)

    def listing(self) -> Listing | None:
        """List what is stored of it; None where the store cannot tell."""
        return list_objects(self.array)

    def tells_missing(self, *, listed: bool) -> bool:
        """Return True if objects are listed or looked at; zarr fills what is missing in a shard."""
        if self.direct is not None:
            return True
        return not self.array.shards and (listed or objects_of(self.array) is not None)

    @property
    def kind(self) -> str:
        """Return the way it is read: in place, or by zarr."""
        return "decoded in place" if self.direct is not None else "decoded by zarr, copied"

    def described(self) -> list[str]:
        """Say what it is, for the plan."""
        shards = f" in shards of {self.shards}" if self.shards else ""
        cells = f"chunks of {self.chunks}{shards}"
        return [
            f"source    {self.name}",
            f"          {self.dtype}, shape {self.shape}, {cells}; {self.kind}",
        ]

    def reopened(self) -> ZarrSource:
        """Return it as it is now; it raises as `opened_again`."""
        return replace(self, array=zarr_arrays.opened_again(self.array, self.name))

    def dated(self) -> ZarrSource:
        """Return it as of now, by its server's clock."""
        planned = server_time_of(self.array)
        return self if planned == self.planned else replace(self, planned=planned)

    def check_unchanged(self) -> None:
        """Notice an array that was replaced or removed while it was read.

        Raises
        ------
        ChangedError
            If its metadata are gone or others.
        ClusterError
            If the machine has no files or memory left to look.
        """
        zarr_arrays.check_unchanged(self.array, self.name)

    @cached_property
    def direct(self) -> Direct | None:
        """Return the way to read its chunks without zarr; None if there is none."""
        return direct_of(self.array, self.planned)

    @cached_property
    def bounded(self) -> AnyArray:
        """The array, which decodes with a bound what a stranger stored."""
        return bounded(self.array)

    @cached_property
    def in_turn(self) -> tuple[tuple[int, ...], ...] | None:
        """Shapes of objects, and of the chunks in them, that `read` can bring one after another.

        None if it cannot: zarr decodes them.
        """
        return None if self.direct is None else (self.direct.object_shape, self.direct.shape)

    def read(self, region: Sequence[slice], out: np.ndarray, known: Expected | None = None) -> None:
        """Decode a region into `out`, whose dtype is the region's.

        Its shape is the region's too; or it has one axis, where `in_turn` allows it: what is taken
        of each chunk then stands behind what is of the one before.

        `known` is what is known of its objects.

        Raises
        ------
        ChunkError
            If any chunk of it cannot be read or decoded.
        ChangedError
            If an object of it is not the one that is known.
        """
        if self.direct is not None:
            self.direct.read(self.name, region, out, known)
            return
        objects = objects_of(self.array, self.planned)
        reads = ByZarr(self.array, self.bounded, self.name, self.unit, objects, remote=self.remote)
        reads.read(region, out, known)

    def file_runs(
        self, region: Sequence[slice], known: Expected | None, *, in_turn: bool
    ) -> Runs | None:
        """Return where the bytes of a region are in files, if its chunks have no codecs."""
        own = self.direct
        return None if own is None else own.file_runs(region, known, in_turn=in_turn)

    @property
    def device_codecs(self) -> CodecChain | None:
        """The codecs of its chunks, if devices can decode them."""
        return device_codecs(self.direct)

    def decode_batch(
        self, region: Sequence[slice], known: Expected | None, *, in_turn: bool
    ) -> tuple[Runs | Contents, DecodeBatch] | None:
        """Return which stored chunks a device is to decode for a region, if it can."""
        return decode_batch(self.direct, self.name, region, known, in_turn=in_turn)

    def each(self, regions: Iterable[DirectRegion], out: InTurn) -> Iterator[None]:
        """Decode regions in turn, where `in_turn` allows it, and stop as `Direct.each` does.

        Raises
        ------
        ChunkError
            If a chunk cannot be read or decoded.
        """
        assert self.direct is not None
        return self.direct.each(self.name, regions, out)

"""A source is an array that can be reduced, as planners, readers and workers use it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkfold.axis_cuts import Cells
from chunkfold.boxes import region_shape
from chunkfold.kernels.decode.codec_chain import CodecChain
from chunkfold.kernels.decode.decode_batch import DecodeBatch
from chunkfold.kernels.feed.commands import Contents, Runs
from chunkfold.stores.addresses import last_of
from chunkfold.stores.expected import Expected

if TYPE_CHECKING:
    from chunkfold.decoding.decode_units import InTurn
    from chunkfold.decoding.wanted_chunks import DirectRegion
    from chunkfold.sources.chunk_index import Listing


class Source(ABC):
    """An array that is read chunk by chunk.

    A new kind of source says its shape, dtype and grid, and reads a region; what else it can do is
    said by what it overrides. Whatever pickles of it must be small: it travels with each task.
    """

    name: str
    """The name that messages use, without secrets."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype:
        """Return the dtype of an element, with its byte order."""

    @property
    @abstractmethod
    def grid(self) -> tuple[Cells, ...]:
        """Return the boundaries of chunks along each axis: reads are cut there."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return tuple(along.size for along in self.grid)

    @abstractmethod
    def read(self, region: Sequence[slice], out: np.ndarray, known: Expected | None = None) -> None:
        """Read a region into `out`, which has its shape and the source's dtype.

        Slices have a start, a stop and a positive step. `known` is what is known of the stored
        objects of a source that has a `listing`.

        Raises
        ------
        ChunkError
            If any of it cannot be read.
        ChangedError
            If it is not what it was when the reduction was planned.
        """

    def whole(self) -> np.ndarray:
        """Read all of it; raises as `read`."""
        return self.part([slice(0, size, 1) for size in self.shape])

    def part(self, region: Sequence[slice], known: Expected | None = None) -> np.ndarray:
        """Read a region of it; raises as `read`."""
        shape = region_shape(region)
        values = np.empty(shape, self.dtype)
        if values.size:
            self.read(region, values, known)
        return values

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def chunks(self) -> tuple[int, ...]:
        """Extents of a chunk; of the largest ones where they differ."""
        return self.unit

    @property
    def unit(self) -> tuple[int, ...]:
        """Extents of what is read at once, at least: of the largest where they differ."""
        return tuple(along.cell for along in self.grid)

    # What it says of itself.

    @property
    def dims(self) -> tuple[str | None, ...] | None:
        """Names of the axes, where they have any."""
        return None

    @property
    def of_axis(self) -> bool:
        """Return True if it is the coordinate of its only axis, by its name."""
        return len(self.shape) == 1 and self.dims == (last_of(self.name),)

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Return the attributes that are stored with it, as a unit or a scale."""
        return {}

    @property
    def metadata(self) -> Mapping[str, Any]:
        """All that tells it from another that was there before or comes after it."""
        return {"dtype": str(self.dtype), "shape": self.shape, "attributes": self.attributes}

    @property
    def fill(self) -> Any:
        """The value of elements that are not stored."""
        return np.zeros((), self.dtype)

    @property
    def missing_fill(self) -> Sequence[Any]:
        """The fill value, if it stands for nothing rather than for a number."""
        return ()

    @property
    def kind(self) -> str:
        """Return the name of its kind, for the plan."""
        return "in memory"

    def described(self) -> list[str]:
        """Say what it is, for the plan."""
        cut = "one chunk" if self.shape == self.chunks else f"chunks of {self.chunks}"
        return [
            f"source    {self.name}",
            f"          {self.dtype}, shape {self.shape}, {cut}; {self.kind}",
        ]

    # Where it is.

    @property
    def remote(self) -> bool:
        """Return True if a read mostly waits for a network."""
        return False

    @property
    def travels(self) -> bool:
        """Return True if workers can open it; if not, blocks bring the elements that they read."""
        return True

    @property
    def here(self) -> bool:
        """Return True if its elements are in this process: by default it is reduced here."""
        return False

    @property
    def in_memory(self) -> bool:
        """Return True if its elements are in this process, so that a read is a copy."""
        return False

    @property
    def local_path(self) -> str | None:
        """Return its path on a local disk; None if it is not on one."""
        return None

    @property
    def origins(self) -> tuple[Source, ...]:
        """The sources that it is made of: itself, but where several are one."""
        return (self,)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Return the paths or URLs of what it is read from, and of what that leads to."""
        every = (place.rstrip("/") for one in self.origins for place in one.own_addresses)
        return tuple(dict.fromkeys(every))

    @property
    def own_addresses(self) -> Sequence[str]:
        """The paths or URLs of one of its origins."""
        return [self.local_path or self.name]

    def parted(self, regions: Sequence[Sequence[slice]]) -> Source:
        """Return it as a block brings it, that reads these regions.

        Where it does not travel, with their elements; of several that are one, with those alone
        that they are in.
        """
        del regions
        return self

    def check_unchanged(self) -> None:  # noqa: B027 # most cannot tell
        """Notice that it was replaced or removed while it was read.

        Raises
        ------
        ChangedError
            If it was.
        """

    def reopened(self) -> Source:
        """Return it as it is now: others may have written since it was opened.

        Raises
        ------
        SourceError
            If it is gone.
        """
        return self

    def dated(self) -> Source:
        """Return it as of now, by its server's clock: what is written later ends a run.

        Of stores that can be listed the listing does that.
        """
        return self

    # Stored objects, of sources that have some.

    def listing(self) -> Listing | None:
        """List what is stored of it; None where that cannot be told: all of it is read."""
        return None

    def tells_missing(self, *, listed: bool) -> bool:
        """Return True if a listing or a read notices chunks that are not stored."""
        del listed
        return True

    @property
    def object_shape(self) -> tuple[int, ...]:
        """Extents of what is stored as one object."""
        return self.unit

    @property
    def object_grid(self) -> tuple[int, ...]:
        """Number of such objects along each axis, whether they are stored or not."""
        return tuple(-(-n // size) for n, size in zip(self.shape, self.object_shape, strict=True))

    @property
    def object_kind(self) -> str:
        """Return the name of such objects in messages."""
        return "chunks"

    def object_key(self, place: tuple[int, ...]) -> str:
        """Return what messages call an object, by its place in their grid."""
        return str(place)

    # Ways to read it faster, of sources that know how.

    @property
    def as_it_is(self) -> bool:
        """Return True if reading a part of a chunk takes time proportional to its bytes."""
        return False

    @property
    def in_turn(self) -> Hashable | None:
        """Alike for sources whose chunks `each` brings side by side; None: it brings none."""
        return None

    def each(self, regions: Iterator[DirectRegion], out: InTurn) -> Iterator[None]:
        """Read regions chunk by chunk, one behind another in memory, where `in_turn` allows it.

        Stops whenever there is no room in `out` for another chunk.
        """
        del regions, out
        raise TypeError(f"{self.name}: its chunks come each by itself, not side by side")

    def file_runs(
        self, region: Sequence[slice], known: Expected | None, *, in_turn: bool
    ) -> Runs | None:
        """Return where the bytes of a region are in files; None if it is not stored as it is.

        In C order, or in any order if they may be `in_turn`. Where files are not as `known`, `read`
        says what is wrong.
        """
        del region, known, in_turn
        return None

    @property
    def device_codecs(self) -> CodecChain | None:
        """The codecs of its chunks, if devices can decode them."""
        return None

    def decode_batch(
        self, region: Sequence[slice], known: Expected | None, *, in_turn: bool
    ) -> tuple[Runs | Contents, DecodeBatch] | None:
        """Return which stored chunks a device is to decode for a region; as `file_runs`."""
        del region, known, in_turn
        return None

    def reading_bytes(self, leaf_bytes: int, touched_bytes: int) -> int:
        """Return what a thread holds, beside the target, that reads a leaf, in bytes.

        `touched_bytes` are those of all chunks that the leaf takes something of.
        """
        return max(leaf_bytes, touched_bytes)

"""What has chunks and can be reduced: what planners, readers and workers know of it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkfold.axis_cuts import Cells
from chunkfold.boxes import region_shape
from chunkfold.kernels.decode.codec_chain import CodecChain
from chunkfold.kernels.decode.stored_chunks import StoredChunks
from chunkfold.kernels.feed.commands import Runs
from chunkfold.stores.expected import Expected

if TYPE_CHECKING:
    from chunkfold.decoding.decode_units import InTurn
    from chunkfold.decoding.direct import DirectRegion
    from chunkfold.sources.chunk_index import Listing


class Source(ABC):
    """An array that is read chunk by chunk.

    A new kind of source says its shape, dtype and grid, and reads a region; what else it can do is
    said by what it overrides. Whatever pickles of it must be small: it travels with each task.
    """

    name: str
    """How messages call it. Without secrets."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype:
        """Of an element, with its byte order."""

    @property
    @abstractmethod
    def grid(self) -> tuple[Cells, ...]:
        """Where chunks meet along each axis: what is read at once is cut there."""

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
    def attributes(self) -> Mapping[str, Any]:
        """What is noted beside it, as a unit or a scale."""
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
        """What it is, for the plan."""
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
        """Whether reading it is waiting for a network more than anything."""
        return False

    @property
    def travels(self) -> bool:
        """Whether workers can open it by themselves; if not, blocks bring what they read of it."""
        return True

    @property
    def here(self) -> bool:
        """Whether its elements are in this process: it is reduced here unless told otherwise."""
        return False

    @property
    def in_memory(self) -> bool:
        """Whether its elements are in this process, so that to read is to copy."""
        return False

    @property
    def local_path(self) -> str | None:
        """Where it is on a local disk; None if it is elsewhere."""
        return None

    @property
    def origins(self) -> tuple[Source, ...]:
        """The sources that it is made of: itself, but where several are one."""
        return (self,)

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
        """Whether chunks that are not stored are noticed: by a listing, or when they are read."""
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
        """What people call such objects."""
        return "chunks"

    def object_key(self, place: tuple[int, ...]) -> str:
        """Return what messages call an object, by its place in their grid."""
        return str(place)

    # Ways to read it faster, of sources that know how.

    @property
    def as_it_is(self) -> bool:
        """Whether parts of a chunk can be read in as much time as their bytes take."""
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
        """The codecs of its chunks, if they are in local files and devices can decode them."""
        return None

    def stored_chunks(
        self, region: Sequence[slice], known: Expected | None, *, in_turn: bool
    ) -> tuple[Runs, StoredChunks] | None:
        """Return which stored chunks a device is to decode for a region; as `file_runs`."""
        del region, known, in_turn
        return None

    def reading_bytes(self, leaf_bytes: int, touched_bytes: int) -> int:
        """Return what a thread holds, beside the target, that reads a leaf, in bytes.

        `touched_bytes` are those of all chunks that the leaf takes something of.
        """
        return max(leaf_bytes, touched_bytes)

"""Several sources as one, along an axis: what `numpy.concatenate` makes of arrays, unread."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from chunkfold.axis_cuts import Cells
from chunkfold.boxes import cut_at, elements_of
from chunkfold.decoding.decode_units import InTurn
from chunkfold.decoding.wanted_chunks import DirectRegion
from chunkfold.errors import SourceError
from chunkfold.kernels.decode.codec_chain import CodecChain
from chunkfold.kernels.decode.decode_batch import DecodeBatch
from chunkfold.kernels.feed.commands import Contents, Runs, joined_runs
from chunkfold.sources.array_source import copied
from chunkfold.sources.chunk_index import Listing, joined_listings
from chunkfold.sources.joined_values import common_attributes
from chunkfold.sources.source import Source
from chunkfold.stores.expected import Expected, Shifted, Unlisted

_AT_ONCE = 32
"""Parts that are listed or looked at again at the same time: most of it is waiting for stores."""
T = TypeVar("T")


@dataclass(frozen=True, repr=False, eq=False)
class ConcatenatedSource(Source):
    """Sources that follow each other along an axis. Each is read by itself."""

    name: str
    parts: Mapping[int, Source]
    """Parts by number; a block brings only the first and those that it reads."""
    starts: tuple[int, ...]
    """The start of each part along the axis, and the end of the last one."""
    axis: int
    element: np.dtype
    """The dtype of all parts; in this host's byte order if theirs differ."""
    most: int
    """Elements of the largest cell along the axis."""
    noted: Mapping[str, Any]
    """Attributes that all have alike."""
    aligned: bool
    """True if the stored objects of all parts make one grid and have one fill value."""
    travels_whole: bool
    waits: bool
    """True if any part is read over a network."""
    turned: bool
    """True if chunks of all parts can be brought side by side."""

    def __repr__(self) -> str:
        return f"<ConcatenatedSource {self.name}: {self.dtype}, shape {self.shape}>"

    @property
    def _first(self) -> Source:
        return self.parts[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of all together."""
        return self._along(self._first.shape, self.starts[-1])

    def _along(self, extents: Sequence[int], length: int) -> tuple[int, ...]:
        return (*extents[: self.axis], length, *extents[self.axis + 1 :])

    @property
    def dtype(self) -> np.dtype:
        """Return the dtype of an element."""
        return self.element

    @cached_property
    def grid(self) -> tuple[Cells, ...]:
        """Return the boundaries of chunks; across the axis those of the first part."""
        cells = list(self._first.grid)
        cells[self.axis] = self._cells()
        return tuple(cells)

    def _cells(self) -> Cells:
        size, cell = self.starts[-1], self._first.grid[self.axis]
        even = all(start % cell.cell == 0 for start in self.starts[1:-1])
        if self.aligned and cell.bounds is None and even and cell.cell == self.most:
            return Cells(size, self.most)
        bounds = {0, *self.starts}
        for number, part in self.parts.items():
            bounds.update((part.grid[self.axis].offsets + self.starts[number]).tolist())
        return Cells(size, self.most, tuple(sorted(bounds)))

    @property
    def dims(self) -> tuple[str | None, ...] | None:
        """Names of the axes."""
        return self._first.dims

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Return the attributes that are equal in all parts."""
        return self.noted

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Return the metadata of all parts."""
        return {**super().metadata, "parts": [part.metadata for part in self.parts.values()]}

    @property
    def fill(self) -> Any:
        """The value of elements that are not stored, where it is one."""
        return self._first.fill

    @property
    def missing_fill(self) -> Sequence[Any]:
        """The fill value, if it stands for nothing."""
        return self._first.missing_fill

    @property
    def kind(self) -> str:
        """Return the number of arrays, the axis, and the kind of the first one."""
        return f"{len(self.starts) - 1:,} arrays along axis {self.axis}; {self._first.kind}"

    @property
    def remote(self) -> bool:
        """Return True if any part is read over a network."""
        return self.waits

    @property
    def travels(self) -> bool:
        """Return True if workers can open every part."""
        return self.travels_whole

    @property
    def as_it_is(self) -> bool:
        """Return True if each part reads a piece of a chunk in time proportional to its bytes."""
        return all(part.as_it_is for part in self.parts.values())

    @property
    def origins(self) -> tuple[Source, ...]:
        """All that it is made of."""
        return tuple(itertools.chain.from_iterable(one.origins for one in self.parts.values()))

    def parted(self, regions: Sequence[Sequence[slice]]) -> Source:
        """Return it with the parts that regions are in, or copies of them where not all travel."""
        if not self.travels:
            return copied(self, regions)
        wanted = {0, *(number for region in regions for number, _, _ in self._cut(region))}
        return replace(self, parts={number: self.parts[number] for number in sorted(wanted)})

    def check_unchanged(self) -> None:
        """Notice that any was replaced."""
        each_part(self.parts.values(), lambda part: part.check_unchanged())

    def reopened(self) -> Source:
        """Return it as it is now."""
        return concatenated(each_part(self.parts.values(), lambda part: part.reopened()), self.axis)

    def dated(self) -> Source:
        """Return it as of now."""
        return concatenated(each_part(self.parts.values(), lambda part: part.dated()), self.axis)

    def listing(self) -> Listing | None:
        """List what is stored, where objects of all make up one grid."""
        if not self.aligned:
            return None
        listed = each_part(self.parts.values(), lambda part: part.listing())
        found = [one for one in listed if one is not None]
        if len(found) < len(listed):
            return None
        return joined_listings(found, self.axis)

    def tells_missing(self, *, listed: bool) -> bool:
        """Return True if all parts notice chunks that are not stored."""
        return all(part.tells_missing(listed=listed) for part in self.parts.values())

    @property
    def object_shape(self) -> tuple[int, ...]:
        """Extents of what is stored as one object, if that is one grid."""
        return self._first.object_shape if self.aligned else self.unit

    @property
    def object_kind(self) -> str:
        """Return the name of such objects in messages."""
        return self._first.object_kind

    def reading_bytes(self, leaf_bytes: int, touched_bytes: int) -> int:
        """Return the bytes of the part that needs most."""
        kinds = {(type(part), part.unit): part for part in self.parts.values()}
        return max(part.reading_bytes(leaf_bytes, touched_bytes) for part in kinds.values())

    def read(self, region: Sequence[slice], out: np.ndarray, known: Expected | None = None) -> None:
        """Read what each part has of a region."""
        if out.ndim != len(region):  # in turn
            for _ in self.each(iter([(region, known)]), InTurn(out)):
                pass
            return
        for number, within, cut in self._cut(region):
            part, into = self._part(number), out[(*[slice(None)] * self.axis, within)]
            part.read(cut, into.view(part.dtype), self._known(number, known))
            if part.dtype != self.dtype:
                into.byteswap(inplace=True)

    def file_runs(
        self, region: Sequence[slice], known: Expected | None, *, in_turn: bool
    ) -> Runs | None:
        """Return where the bytes of a region are in files, if they are so in each part of it."""
        each = list(self._cut(region))
        row = elements_of(region[self.axis + 1 :]) * self.dtype.itemsize
        if len(each) > 1 and elements_of(region[: self.axis]) > 1:
            return None  # parts of it do not follow each other in memory
        found = []
        for number, within, cut in each:
            runs = self._part(number).file_runs(cut, self._known(number, known), in_turn=in_turn)
            if runs is None or self._part(number).dtype != self.dtype:
                return None
            found.append((runs, within.start * row))
        return joined_runs(found)

    @property
    def device_codecs(self) -> CodecChain | None:
        """Return the codecs of all parts if they are the same, else None."""
        codecs = {part.device_codecs for part in self.parts.values()}
        return codecs.pop() if len(codecs) == 1 else None

    def decode_batch(
        self, region: Sequence[slice], known: Expected | None, *, in_turn: bool
    ) -> tuple[Runs | Contents, DecodeBatch] | None:
        """Return which stored chunks a device is to decode, of a region in one part."""
        (number, _, cut), *others = self._cut(region)
        part, own = self._part(number), self._known(number, known)
        whole = not others and part.dtype == self.dtype
        return part.decode_batch(cut, own, in_turn=in_turn) if whole else None

    @property
    def in_turn(self) -> Any:
        """Alike for those whose parts are, and are as long."""
        return (self.axis, self.starts, self._first.in_turn) if self.turned else None

    def each(self, regions: Iterator[DirectRegion], out: InTurn) -> Iterator[None]:
        """Bring the chunks of regions, of one part after the other."""
        pieces = (
            (number, (cut, self._known(number, known)))
            for region, known in regions
            for number, _, cut in self._cut(region)
        )
        for number, own in itertools.groupby(pieces, key=lambda piece: piece[0]):
            yield from self._part(number).each((piece for _, piece in own), out)

    def _part(self, number: int) -> Source:
        if number not in self.parts:
            raise SourceError(f"{self.name}: part {number} did not come with the block")
        return self.parts[number]

    def _known(self, number: int, known: Expected | None) -> Expected | None:
        """Return what is known of the objects of a part."""
        if known is None or not self.aligned:
            return Unlisted(set(), needed=True) if known is not None and known.needed else None
        unit = self.object_shape[self.axis]
        return Shifted(known, self.axis, self.starts[number] // unit)

    def _cut(self, region: Sequence[slice]) -> Iterator[tuple[int, slice, tuple[slice, ...]]]:
        """Yield the parts that a region is in: number, where it is in the region, and in them."""
        for number, within, own in cut_at(region[self.axis], self.starts):
            yield number, within, (*region[: self.axis], own, *region[self.axis + 1 :])


def concatenated(parts: Sequence[Source], axis: int) -> ConcatenatedSource:
    """Return sources as one along an axis, which have been seen to go together."""
    first = parts[0]
    starts = tuple(itertools.accumulate((part.shape[axis] for part in parts), initial=0))
    unit = first.object_shape
    alike = all(part.dtype == first.dtype for part in parts)
    element = first.dtype if alike else first.dtype.newbyteorder("=")
    fills = {np.asarray(part.fill, element).tobytes() for part in parts}
    inner = [part.shape[axis] % max(1, unit[axis]) == 0 for part in parts[:-1]]
    aligned = len(fills) == 1 and all(inner) and all(part.object_shape == unit for part in parts)
    turns = {part.in_turn for part in parts}
    named = [part.name for part in parts]
    shown = named if len(named) < 4 else [named[0], "...", named[-1]]
    return ConcatenatedSource(
        name=f"{', '.join(shown)} ({len(named):,} along axis {axis})",
        parts=dict(enumerate(parts)),
        starts=starts,
        axis=axis,
        element=element,
        most=max(part.unit[axis] for part in parts),
        noted=common_attributes([part.attributes for part in parts]),
        aligned=aligned,
        travels_whole=all(part.travels for part in parts),
        waits=any(part.remote for part in parts),
        turned=aligned and alike and len(turns) == 1 and None not in turns,
    )


def each_part(parts: Iterable[Source], call: Callable[[Source], T]) -> list[T]:
    """Do something with each part, with several at once; raises what the first one raised."""
    with ThreadPoolExecutor(_AT_ONCE, "chunkfold-parts") as pool:
        return list(pool.map(call, parts))

"""Selected chunks that are not stored: how many there are, and the error that names them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from chunkfold.errors import FILLED, MissingError, PlanError
from chunkfold.grid import Axis
from chunkfold.positions import as_range
from chunkfold.sources.chunk_index import Listing
from chunkfold.sources.concatenation import ConcatenatedSource
from chunkfold.sources.source import Source

_NAMED = 3
"""Objects that messages name."""
_AT_ONCE = 1 << 20
"""Objects that are counted at a time."""


@dataclass(frozen=True)
class Missing:
    """Objects that have selected elements and are not stored."""

    count: int
    objects: int
    """Number of objects that have selected elements."""
    first: list[tuple[int, ...]]
    """Places of the first few in the grid of objects."""

    @classmethod
    def of(cls, axes: Sequence[Axis], shape: Sequence[int], sizes: np.ndarray) -> Missing:
        """Count them, in a grid of objects of a shape that have so many bytes, 0 if not stored."""
        if not axes:
            return cls(int(sizes == 0), 1, [()] * int(sizes == 0))
        chosen = [
            np.flatnonzero(axis.hits(*along))
            for axis, *along in zip(axes, shape, sizes.shape, strict=True)
        ]
        objects, lacking, first = math.prod(map(len, chosen)), 0, list[tuple[int, ...]]()
        # Some at a time along the longest axis: a copy of all would take as much memory again.
        along = int(np.argmax(sizes.shape))
        for some in np.array_split(chosen[along], -(-objects // _AT_ONCE) or 1):
            each = [*chosen[:along], some, *chosen[along + 1 :]]
            lacks = sizes[np.ix_(*each)] == 0
            lacking += int(np.count_nonzero(lacks))
            if lacking and len(first) < _NAMED:
                for place in np.argwhere(lacks)[: _NAMED - len(first)].tolist():
                    first.append(tuple(int(n[m]) for n, m in zip(each, place, strict=True)))
        return cls(lacking, objects, first)

    def text(self, kind: str) -> str:
        """Say how many they are, and where a few of them are."""
        places = [*map(str, self.first), *["..."] * (self.count > len(self.first))]
        return (
            f"{self.count:,} of {self.objects:,} {kind} that are selected are not stored, by their "
            f"indices {', '.join(places)}"
        )


def refuse_missing(
    sources: Sequence[Source], listings: Sequence[Listing | None], chosen: Sequence[Axis]
) -> None:
    """See that all that is selected is stored, as far as listings tell.

    Raises
    ------
    MissingError
        If a chunk is not.
    PlanError
        If nobody would notice one that is not.
    """
    for whole, listed in zip(sources, listings, strict=True):
        if not whole.tells_missing(listed=listed is not None):
            raise PlanError(
                f"{whole.name}: on_missing_chunk='stop' is impossible, because this source cannot "
                "say which chunks are stored: omit it"
            )
        for source, listing, axes in _apart(whole, listed, chosen):
            if listing is None:
                continue
            found = Missing.of(axes, source.object_shape, listing.sizes)
            if found.count:
                raise MissingError(f"{source.name}: {found.text(source.object_kind)}: {FILLED}")


def _apart(
    source: Source, listing: Listing | None, chosen: Sequence[Axis]
) -> Iterator[tuple[Source, Listing | None, Sequence[Axis]]]:
    """Yield a source with what is listed and selected of it, or its parts if it is no one grid."""
    if listing is not None or not isinstance(source, ConcatenatedSource):
        yield source, listing, chosen
        return
    n, places = source.axis, np.asarray(chosen[source.axis].places)
    for number, part in source.parts.items():
        own = places[(places >= source.starts[number]) & (places < source.starts[number + 1])]
        if own.size:
            along = Axis.at(part.grid[n], as_range(own - source.starts[number]))
            yield from _apart(part, part.listing(), [*chosen[:n], along, *chosen[n + 1 :]])

"""A source whose elements are taken in another order along some axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from chunkfold.axis_cuts import Cells
from chunkfold.sources.array_source import copied
from chunkfold.sources.declared_source import DeclaredSource
from chunkfold.sources.source import Source
from chunkfold.stores.expected import Expected, Unlisted


@dataclass(frozen=True, repr=False, eq=False)
class ReorderedSource(DeclaredSource):
    """Another source, in another order along some axes; each of them is read whole at once."""

    of: Source
    orders: Mapping[int, np.ndarray]
    """Per axis that is reordered: the position of each of its elements in the other source."""

    def __repr__(self) -> str:
        return f"<ReorderedSource {self.name}: {self.dtype}, shape {self.shape}>"

    @property
    def dims(self) -> tuple[str | None, ...] | None:
        """Names of the axes."""
        return self.of.dims

    @property
    def attributes(self) -> Mapping[str, object]:
        """Return the attributes of the other source."""
        return self.of.attributes

    @property
    def metadata(self) -> Mapping[str, object]:
        """Return the metadata of the other source, and the orders."""
        return {**self.of.metadata, "orders": {n: o.tolist() for n, o in self.orders.items()}}

    @property
    def fill(self) -> object:
        """The value of elements that are not stored."""
        return self.of.fill

    @property
    def missing_fill(self) -> Sequence[object]:
        """The fill value, if it marks missing elements."""
        return self.of.missing_fill

    @property
    def kind(self) -> str:
        """Return the kind of the other source, and the axes that are reordered."""
        return f"{self.of.kind}, reordered along {', '.join(f'axis {n}' for n in self.orders)}"

    @property
    def remote(self) -> bool:
        """Return True if the other source is read over a network."""
        return self.of.remote

    @property
    def travels(self) -> bool:
        """Return True if workers can open the other source."""
        return self.of.travels

    @property
    def here(self) -> bool:
        """Return True if the elements are in this process."""
        return self.of.here

    @property
    def local_path(self) -> str | None:
        """Return the path of the other source on a local disk."""
        return self.of.local_path

    @property
    def origins(self) -> tuple[Source, ...]:
        """The sources that the other one is made of."""
        return self.of.origins

    def parted(self, regions: Sequence[Sequence[slice]]) -> Source:
        """Return it, or copies of regions of a source that does not travel."""
        return self if self.travels else copied(self, regions)

    def check_unchanged(self) -> None:
        """Notice that the other source was replaced."""
        self.of.check_unchanged()

    def reopened(self) -> Source:
        """Return it as it is now."""
        return replace(self, of=self.of.reopened())

    def dated(self) -> Source:
        """Return it as of now."""
        return replace(self, of=self.of.dated())

    def tells_missing(self, *, listed: bool) -> bool:
        """Tell whether chunks that are not stored are noticed."""
        return self.of.tells_missing(listed=listed)

    def reading_bytes(self, leaf_bytes: int, touched_bytes: int) -> int:
        """Return what the other source takes, and the elements in its order."""
        return self.of.reading_bytes(leaf_bytes, touched_bytes) + max(leaf_bytes, touched_bytes)

    def read(self, region: Sequence[slice], out: np.ndarray, known: Expected | None = None) -> None:
        """Read the part of the other source that holds a region, and put it in order."""
        cuts, places, shifted = list(region), [np.arange(size) for size in out.shape], True
        for axis, order in self.orders.items():
            wanted = order[region[axis]]
            first = int(wanted.min(initial=len(order)))
            cuts[axis] = slice(first, int(wanted.max(initial=first - 1)) + 1, 1)
            places[axis] = wanted - first
            shifted &= bool((np.diff(wanted) == 1).all())
        needed = known is not None and known.needed
        expected = Unlisted(set(), needed=True) if needed else None
        if shifted:
            self.of.read(cuts, out, expected)
        else:
            out[...] = self.of.part(cuts, expected)[np.ix_(*places)]


def reordered(source: Source, orders: Mapping[int, np.ndarray]) -> Source:
    """Return a source with its elements in other orders along axes: positions for each axis."""
    if not orders:
        return source
    cells = list(source.grid)
    for axis in orders:
        cells[axis] = Cells(source.shape[axis], max(1, source.shape[axis]))
    return ReorderedSource(source.name, source.dtype, tuple(cells), source, dict(orders))

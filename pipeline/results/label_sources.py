"""Labels of results come from a store, or from objects of xarray."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from chunkfold.results.companions import Companions
from chunkfold.results.coordinate import Coordinate
from chunkfold.results.coordinates import Kept
from chunkfold.sources.axis_names import axis_names
from chunkfold.sources.cf_packing import HasAttributes
from chunkfold.sources.source import Source


class Labels(Protocol):
    """The labels of the elements that are reduced: names of axes, attributes, coordinates."""

    def names(self, axes: Sequence[int]) -> list[str | None] | None:
        """Return the names of some axes of the source, if they have names."""

    @property
    def measured(self) -> Sequence[HasAttributes]:
        """Return the reduced arrays, with attributes."""

    def coordinates(self) -> Mapping[str, Coordinate]:
        """Read everything that comes along."""


@dataclass(frozen=True)
class StoredLabels:
    """Labels as a Zarr has them: attributes, and arrays that stand beside the source."""

    sources: Sequence[Source]
    kept: Kept
    """The remaining axes of the first source."""

    def names(self, axes: Sequence[int]) -> list[str | None] | None:
        """Return the names of some axes of the source, if they have names."""
        return axis_names(self.sources[0], axes)

    @property
    def measured(self) -> Sequence[HasAttributes]:
        """Return the reduced arrays, with attributes."""
        return self.sources

    @cached_property
    def along(self) -> Companions:
        """Return the stored arrays that are coordinates of results."""
        return Companions(self.kept)

    def coordinates(self) -> Mapping[str, Coordinate]:
        """Read everything that comes along."""
        return {one.name: Coordinate.of(one) for one in self.along.all}

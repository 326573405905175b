"""Labels of results come from a store, or from objects of xarray."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from chunkfold.planning.plan import Plan
from chunkfold.results.as_xarray import interval_index, needed, with_edges
from chunkfold.results.averages import averaged, has_means
from chunkfold.results.companions import Companions
from chunkfold.results.coordinate import Coordinate
from chunkfold.results.coordinates import Kept
from chunkfold.results.result import Result, as_array
from chunkfold.sources.any_labels import GroupsOfLabel
from chunkfold.sources.axis_names import axis_names
from chunkfold.sources.cf_packing import HasAttributes
from chunkfold.sources.data_arrays import DataArrays
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
    """Labels as a Zarr has them: attributes, and arrays next to the source."""

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


@dataclass(frozen=True)
class _Measured:
    name: str
    attributes: Mapping[str, Any]
    dtype: np.dtype
    missing_fill: Sequence[Any] = ()


@dataclass(frozen=True)
class OfXarray:
    """Labels of a DataArray: results have them as xarray's own reductions do."""

    held: DataArrays
    gone: frozenset[str]
    """Axes that were reduced."""
    groups: tuple[GroupsOfLabel, ...]
    """The labels of groups, if there are some."""
    windows: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Elements of a window of each axis that has some, and how xarray calls what the last one is:
    "trim" where all are whole, "pad" where it is shorter."""

    def names(self, axes: Sequence[int]) -> list[str | None] | None:
        """Return the names of some axes of the source."""
        return [self.held.dims[self.held.axes.index(n)] for n in axes]

    @property
    def measured(self) -> Sequence[HasAttributes]:
        """Return the reduced arrays, with attributes."""
        return [_Measured(str(one.name), dict(one.attrs), one.dtype) for one in self.held.arrays]

    def coordinates(self) -> Mapping[str, Coordinate]:
        """Read everything that comes along."""
        left = {*self.held.dims} - self.gone
        return {
            str(name): Coordinate(str(name), tuple(map(str, one.dims)), one.values, dict(one.attrs))
            for name, one in self._along(left).items()
        }

    def _along(self, dims: Collection[str | None]) -> Any:
        """Return the coordinates that have no axes but some, with their indexes."""
        array, left = self.held.arrays[0], {*dims} - self.gone
        lost = [name for name, one in array.coords.items() if not {*map(str, one.dims)} <= left]
        left_over = array.drop_vars(lost).coords
        windows = {dim: one for dim, one in self.windows.items() if dim in left_over.dims}
        if not windows:
            return left_over
        texts = [name for name, one in left_over.items()
                 if {*map(str, one.dims)} & {*windows} and not has_means(one.values)]  # fmt: skip
        along = left_over.to_dataset().drop_vars(texts)
        # xarray has no means of a shorter window of these.
        dates = {name: one for name, one in along.variables.items()
                 if one.values.dtype == object and {*map(str, one.dims)} & {*windows}}  # fmt: skip
        along = along.drop_vars(dates)
        sizes = {dim: window for dim, (window, _) in windows.items() if dim in along.dims}
        boundary: Any = {dim: windows[dim][1] for dim in sizes}
        made = along.coarsen(sizes, boundary=boundary).mean() if sizes else along
        for name, one in dates.items():
            each = [windows[dim][0] if dim in windows else 0 for dim in one.dims]
            made = made.assign_coords({name: (one.dims, averaged(one.values, each), one.attrs)})
        return {name: made.coords[name] for name in left_over if name in made.coords}

    def as_given(self, result: Result) -> Any:
        """Return a result as a DataArray, which has the source's name; records as a Dataset."""
        xr = needed()
        if result.parts:
            fields = {name.rpartition("/")[2]: one for name, one in result.parts.items()}
            made = xr.Dataset({name: self.as_given(one) for name, one in fields.items()})
            return with_edges(made, [""])
        values, attrs, name = (
            as_array(result.values),
            dict(result.attrs),
            self.held.arrays[0].name,
        )
        along = self._along(result.dims)
        own = {dim: one for dim, one in result.coordinates.items() if dim in result.dims}
        along |= {dim: one.values for dim, one in own.items() if dim not in self.held.dims}
        made = xr.DataArray(values, along, result.dims, name, attrs)
        if result.labels is None:
            return made
        return made.assign_coords({one.axis: _coordinate(xr, one) for one in self.groups})


def of_xarray(plan: Plan) -> OfXarray | None:
    """Return the labels of results of what xarray holds; None if it holds nothing of a plan."""
    held = plan.request.data_arrays
    if held is None:
        return None
    layout = plan.layout
    gone = (held.dims[held.axes.index(n)] for n in layout.reduced if n in held.axes)
    windows = {}
    for n in layout.coarsened:
        axis = layout.axes[n]
        ends = "pad" if axis.length % axis.window else "trim"
        windows[held.dims[held.axes.index(n)]] = axis.window, ends
    return OfXarray(held, frozenset(gone), plan.labels, windows)


def _coordinate(xr: Any, label: GroupsOfLabel) -> Any:
    """Return the labels of groups as xarray's own groups have them."""
    intervals = label.intervals
    values = label.groups if intervals is None else interval_index(intervals)
    return xr.IndexVariable(label.axis, values, dict(label.attrs))

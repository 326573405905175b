"""Arrays that xarray holds: the Zarr array that one was opened from, and what is selected of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr

from chunkfold.axis_cuts import Cells
from chunkfold.errors import PlanError, SourceError
from chunkfold.grid import Axis
from chunkfold.selections import Selection, select
from chunkfold.sources.array_origins import array_origins
from chunkfold.sources.array_source import ArraySource, cells_of_chunks
from chunkfold.sources.cf_packing import packing_of
from chunkfold.sources.dask_selections import read_by
from chunkfold.sources.dask_source import is_dask
from chunkfold.sources.noted_addresses import note
from chunkfold.sources.opening import check_dtype, open_source
from chunkfold.sources.source import Source
from chunkfold.sources.xarray_layers import decodes_alike, once, selection_of, unwrapped

if TYPE_CHECKING:
    import xarray

_NEVER_SKIP = ("any", "all", "first_mismatch")
"""Reductions that take NaN for a value: xarray leaves none out of the first two."""
_SKIP_NAT = ("mean", "count")
"""Reductions of which it leaves NaT out by itself; `min` and `max` of times are NaT."""


@dataclass(frozen=True, eq=False)
class DataArrays:
    """One or two DataArrays, aligned, as the arrays of a store and a selection of them."""

    arrays: tuple[xarray.DataArray, ...]
    sources: tuple[Source, ...]
    """The source that each is read from."""
    selection: Selection
    """The selection of the stored arrays that the given DataArrays are."""
    axes: tuple[int, ...]
    """The axes of the stored array that they have."""
    decoded: tuple[bool, ...]
    """True for each array whose values are decoded from stored numbers."""

    @property
    def name(self) -> str:
        """Return the name that messages use."""
        return f"DataArray {self.arrays[0].name!r}"

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return tuple(self.arrays[0].shape)

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the axes."""
        return tuple(map(str, self.arrays[0].dims))

    @property
    def grid(self) -> tuple[Cells, ...]:
        """Return boundaries along each axis: it may be cut anywhere."""
        return tuple(Cells(size, 1) for size in self.shape)

    def selected(self, chosen: Sequence[Axis]) -> DataArrays:
        """Return it with the labels of what is selected along each of its axes."""
        left = [n for n, axis in zip(self.axes, chosen, strict=True) if not axis.dropped]
        index = {
            dim: axis.start if axis.dropped else axis.index
            for dim, axis in zip(self.arrays[0].dims, chosen, strict=True)
        }
        return replace(self, arrays=tuple(one.isel(index) for one in self.arrays), axes=tuple(left))

    def stored(self, chosen: Sequence[Axis]) -> list[Axis]:
        """Return the axes of the stored array, by what is selected along each of its own."""
        axes = list(select(self.sources[0].grid, self.selection))
        for n, along in zip(self.axes, chosen, strict=True):
            axes[n] = axes[n].within(along)
        return axes

    def unpacked(self, *, ask: bool) -> tuple[bool, ...]:
        """Return of which the values are reduced that stored numbers stand for: as xarray has them.

        Raises
        ------
        PlanError
            If that is asked for, but xarray was told not to.
        """
        if ask and not all(self.decoded) and any(map(packing_of, self.sources)):
            raise PlanError(
                f"mask_and_scale is True, but {self.name} has the numbers that are stored: open it "
                "with mask_and_scale=True, which is xarray's default"
            )
        return self.decoded

    def skips(self, op: str) -> bool:
        """Return True if NaN or NaT is missing by default, as in xarray.

        xarray skips NaN of floats in most reductions, NaT of times in few; of two arrays,
        an element is missing if it is missing in one of them.
        """
        kinds = {one.dtype.kind for one in self.arrays}
        floats, times = kinds & {*"fc"}, kinds & {*"mM"}
        return bool((floats and op not in _NEVER_SKIP) or (times and op in _SKIP_NAT))


def is_of_xarray(given: Any, kind: str = "DataArray") -> bool:
    """Return True if an object is xarray's DataArray (or Dataset); xarray need not be installed."""
    xarray = sys.modules.get("xarray")
    return xarray is not None and isinstance(given, getattr(xarray, kind))


def data_arrays(given: Any) -> DataArrays | None:
    """Return what stands behind one DataArray, or two; None if that is not what was given.

    Nothing is read.

    Raises
    ------
    PlanError
        If they are not of equal shape, axes and coordinates, or only one of the two is a DataArray.
    SourceError
        If the dtype of one cannot be reduced.
    """
    each = given if isinstance(given, (tuple, list)) else (given,)
    held = [is_of_xarray(one) for one in each]
    if not any(held):
        return None
    if not all(held):
        raise PlanError(
            "one of two sources is a DataArray, the other is not: give both as DataArrays"
        )
    arrays = tuple(each)
    _refuse_unaligned(arrays)
    found = [_behind(one) for one in arrays]
    first = found[0][1]
    if not all(selected_alike(cut, first) for _, cut, _ in found):
        why = "the two are at different positions of their stores"
        found, first = [(_otherwise(one, why), None, False) for one in arrays], None
    return DataArrays(
        arrays,
        tuple(one for one, _, _ in found),
        first,
        _left(first, arrays[0].ndim),
        tuple(one for _, _, one in found),
    )


def _left(selection: Selection, ndim: int) -> tuple[int, ...]:
    """Return which axes of a stored array are left by a selection."""
    cuts = selection if isinstance(selection, tuple) else (slice(None),) * ndim
    return tuple(n for n, cut in enumerate(cuts) if not isinstance(cut, int))


def selected_alike(one: Selection, other: Selection) -> bool:
    """Return True if two selections of stored arrays select the same positions."""
    if not isinstance(one, tuple) or not isinstance(other, tuple):
        return one is other
    return len(one) == len(other) and all(
        type(a) is type(b) and np.array_equal(a, b) for a, b in zip(one, other, strict=True)
    )


def _refuse_unaligned(arrays: Sequence[xarray.DataArray]) -> None:
    import xarray

    first = arrays[0]
    for other in arrays[1:]:
        if other.dims != first.dims:
            raise PlanError(
                f"{_called(first)} has axes {', '.join(map(str, first.dims))}, but "
                f"{_called(other)} has {', '.join(map(str, other.dims))}: give arrays of the same"
            )
        try:
            xarray.align(first, other, join="exact", copy=False)
        except ValueError as error:
            why = str(error).partition("\n")[0]
            raise PlanError(
                f"{_called(other)} is not aligned with {_called(first)}: {why}"
            ) from None


def _called(array: xarray.DataArray) -> str:
    return f"DataArray {array.name!r}"


def _behind(array: xarray.DataArray) -> tuple[Source, Selection, bool]:
    """Return what a DataArray is read from, what is selected of it, and whether it is decoded."""
    data: Any = array.variable._data
    if array.variable._in_memory:
        note(array_origins(array))  # the source has its numbers alone
        return open_source(array.data), None, False
    read = read_by(data) if is_dask(data) else (data, None)
    if read is None:
        return open_source(data), None, False
    lazy, cuts = read
    try:
        return stored_behind(lazy, cuts, array.dtype)
    except SourceError as error:
        return _otherwise(array, str(error)), None, False


def stored_behind(
    lazy: Any, cuts: tuple[Any, ...] | None, dtype: np.dtype
) -> tuple[Source, Selection, bool]:
    """Return what an array that is not read yet is read from, and whether it is decoded.

    `cuts` is what Dask selects of it; the selection is both.

    Raises
    ------
    SourceError
        If it is no array of a store, or has other elements than are read here.
    """
    stored, key, decodes = unwrapped(lazy)
    if cuts is not None:
        key = once(key, cuts)
    selection = selection_of(key, stored.shape)
    source = open_source(stored)
    if decodes and not decodes_alike(source, decodes, dtype):
        raise SourceError(f"xarray decodes values to {dtype} in its own way")
    return source, selection, bool(decodes)


def stored_below(
    lazy: Any, cuts: tuple[Any, ...] | None, dtype: np.dtype
) -> tuple[Source, Selection, bool]:
    """Return as `stored_behind`, also of an array of zarr's that was given to Dask as it is."""
    if not isinstance(lazy, zarr.Array):
        return stored_behind(lazy, cuts, dtype)
    return open_source(lazy), None if cuts is None else selection_of(cuts, lazy.shape), False


def _otherwise(array: xarray.DataArray, why: str) -> Source:
    """Return what a DataArray is read from if not from its store: Dask, or xarray itself."""
    return open_source(array.data) if array.chunks is not None else _by_xarray(array, why)


@dataclass(frozen=True, repr=False, eq=False)
class XarraySource(ArraySource):
    """An array of which xarray reads a region when it is asked for it."""

    why: str = ""
    """The reason why its store is not read directly."""

    @property
    def own_addresses(self) -> Sequence[str]:
        """The path or URL that xarray reads."""
        return [self.name, *array_origins(self.array)]

    @property
    def kind(self) -> str:
        """Return the way it is read, for the plan."""
        return f"read by xarray, since {self.why}"


def _by_xarray(array: xarray.DataArray, why: str) -> Source:
    preferred = array.encoding.get("preferred_chunks", {})
    cells = [min(size, preferred.get(dim, size)) for dim, size in array.sizes.items()]
    grid = tuple(map(cells_of_chunks, array.shape, (max(1, cell) for cell in cells)))
    source = XarraySource(array.variable, _called(array), grid, why=why)
    check_dtype(source)
    return source

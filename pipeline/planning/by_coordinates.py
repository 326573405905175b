"""Select by coordinates: turn `sel` into positions, before anything else is looked at."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.grid import Axis
from chunkfold.planning.options import Options
from chunkfold.positions import as_range, index_of
from chunkfold.selections import Selection, expanded, selection_text
from chunkfold.sources.axis_names import Named, axis_names, instead
from chunkfold.sources.coordinate_positions import nothing_selected, positions_of
from chunkfold.sources.coordinate_texts import label_text, sel_text
from chunkfold.sources.data_arrays import DataArrays
from chunkfold.sources.date_parts import DecodedArray, date_part, places_of_part
from chunkfold.sources.labels import read_npy
from chunkfold.sources.named_labels import coordinate_of
from chunkfold.sources.neighbours import stored_coordinate
from chunkfold.sources.source import Source

if TYPE_CHECKING:
    import xarray

CoordinateOf = Callable[[str], "xarray.DataArray | None"]
"""Returns the coordinate of an axis, by its name; None if it has none."""
BesideOf = Callable[[str], DecodedArray | None]
"""Returns a coordinate of whatever axes, by its name; None if there is none."""


def by_positions(options: Options, data: Source | DataArrays) -> Options:
    """Return options whose `selection` has what `sel` says, too.

    Raises
    ------
    PlanError
        If an axis is unknown, has no coordinate, or is selected by positions as well; or what
        `positions_of` raises.
    """
    if not options.sel:
        return options

    def coordinate(dim: str) -> xarray.DataArray | None:
        if isinstance(data, DataArrays):
            return index_coordinate(data.arrays[0], dim)
        return stored_coordinate(data, dim)

    names = axis_names(data, range(len(data.shape))) or []
    entries = expanded(options.selection, len(data.shape))

    def beside(name: str) -> DecodedArray | None:
        return coordinate_of(name, data)

    for dim, places in positions(options, data, coordinate, beside).items():
        n = names.index(dim)
        if not (isinstance(entries[n], slice) and entries[n] == slice(None)):
            raise PlanError(
                f"{data.name}: axis {dim!r} is selected twice, by sel and by "
                f"{selection_text(entries[n])!r} "
                "of selection; give one of them"
            )
        entries[n] = places
    return replace(options, selection=tuple(entries))


def with_lists(selection: Selection) -> Selection:
    """Return a selection with what stands in .npy files; raises SourceError if they are none."""

    def read(entry: Any) -> Any:
        return np.array(read_npy(Path(entry))) if isinstance(entry, os.PathLike) else entry

    return tuple(map(read, selection)) if isinstance(selection, tuple) else read(selection)


def refuse_nothing(data: Named, chosen: Sequence[Axis], selection: Selection) -> None:
    """Refuse a selection that takes nothing of an axis that has elements.

    Raises
    ------
    PlanError
        If there is one.
    """
    entries, names = expanded(selection, len(chosen)), data.dims or [None] * len(chosen)
    for n, (axis, entry, name) in enumerate(zip(chosen, entries, names, strict=True)):
        size = axis.cells.size
        if size and not axis.length:
            raise PlanError(
                f"{data.name}: selection {selection_text(entry)!r} selects nothing of axis "
                f"{n if name is None else repr(name)}, whose positions run from 0 to {size - 1}; "
                "allow_empty=True allows an empty selection"
            )


def positions(
    options: Options, data: Named, coordinate: CoordinateOf, beside: BesideOf
) -> Mapping[str, Any]:
    """Return what `sel` selects of each axis that it names; raises as `by_positions`.

    By values of the coordinate, by parts of dates along it (`time.month`), or by both.
    """
    names = [name for name in axis_names(data, range(len(data.shape))) or [] if name]
    sel, found = options.sel or {}, dict[str, Any]()
    parts = [key for key in sel if key not in names and "." in key]
    if options.sel_method is not None and len(parts) == len(sel):
        raise PlanError(
            f"sel_method is {options.sel_method!r}, but {sel_text(sel)} are parts of dates, which "
            "have no nearest one: omit it"
        )
    for dim in (key for key in sel if key not in parts):
        found[dim] = _by_values(options, data, names, coordinate, dim)
    along: dict[str, list[str]] = {}
    for key in parts:
        dim, there = _by_part(options, data, names, beside, key)
        along.setdefault(dim, [dim] if dim in found else []).append(key)
        before = np.arange(there.size)[found.get(dim, slice(None))]
        kept = before[there[before]]
        if there.size and not kept.size and (not before.ndim or not options.allow_empty):
            told = sel_text({one: sel[one] for one in along[dim]})
            raise PlanError(
                f"{data.name}: {told} selects nothing of {dim!r}: no position meets all conditions"
            )
        found[dim] = int(before) if not before.ndim else index_of(as_range(kept))
    return found


def _by_values(
    options: Options, data: Named, names: Sequence[str], coordinate: CoordinateOf, dim: str
) -> Any:
    """Return what values of its coordinate select of an axis."""
    label = (options.sel or {})[dim]
    if not any(names):
        raise PlanError(
            f"{data.name} has no coordinates, as its axes have no names: select places of "
            f"{dim!r} by selection='1:3'"
        )
    if names.count(dim) != 1:
        count = f"{names.count(dim)} axes" if dim in names else "no axis"
        raise PlanError(f"{data.name} has {count} {dim!r}; {instead(dim, names)}")
    found = coordinate(dim)
    if found is None:
        others = [repr(name) for name in names if name != dim and coordinate(name) is not None]
        have = f", but {', '.join(others)} have" if others else ", and no other axis has one"
        raise PlanError(
            f"{data.name}: axis {dim!r} has no coordinate{have}: select by positions, with "
            "selection"
        )
    places = positions_of(found, label, data.name, options.sel_method, options.sel_tolerance)
    if found.size and not options.allow_empty and not np.size(np.arange(found.size)[places]):
        raise nothing_selected(found, label, data.name)
    return places


def _by_part(
    options: Options, data: Named, names: Sequence[str], beside: BesideOf, key: str
) -> tuple[str, np.ndarray]:
    """Return an axis, and which of its places have such a part of their dates."""
    name, _, part = key.rpartition(".")
    label, times = (options.sel or {})[key], beside(name)
    said = f"{data.name}: sel {key}={label_text(label)}"
    if times is None:
        hint = (
            f"axis {name!r} has no coordinate of dates"
            if name in names
            else f"it has no coordinate {name!r}; {instead(name, names)}"
        )
        raise PlanError(f"{said}: {hint}")
    dim = times.dims[0] if len(times.dims) == 1 else None
    if dim is None or names.count(dim) != 1:
        raise PlanError(
            f"{said}: a selection needs a coordinate along one axis, but {name!r} has "
            f"{', '.join(map(str, times.dims)) or 'none'}: give a mask made of it with where="
        )
    found = date_part(times, part, f"{said}: {name!r}")
    there = places_of_part(found, part, label, said, may_lack=options.allow_empty)
    size = data.shape[names.index(dim)]
    if there.size != size:
        raise PlanError(
            f"{said}: {name!r} has {there.size:,} values, but axis {dim!r} has {size:,} elements"
        )
    return dim, there


def index_coordinate(array: Any, dim: str) -> xarray.DataArray | None:
    """Return the coordinate of an axis of what xarray holds; None if it has none."""
    if dim not in array.indexes:
        return None
    found: xarray.DataArray = array.coords[dim]
    return found

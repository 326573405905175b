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
from chunkfold.selections import Selection, expanded, selection_text
from chunkfold.sources.axis_names import Named, axis_names, instead
from chunkfold.sources.coordinate_positions import nothing_selected, positions_of
from chunkfold.sources.data_arrays import DataArrays
from chunkfold.sources.labels import read_npy
from chunkfold.sources.neighbours import stored_coordinate
from chunkfold.sources.source import Source

if TYPE_CHECKING:
    import xarray

CoordinateOf = Callable[[str], "xarray.DataArray | None"]
"""Returns the coordinate of an axis, by its name; None if it has none."""


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
    for dim, places in positions(options, data, coordinate).items():
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
                f"{data.name}: selection {selection_text(entry)!r} takes nothing of axis "
                f"{n if name is None else repr(name)}, whose positions run from 0 to {size - 1}; "
                "where nothing is wanted: allow_empty=True"
            )


def positions(options: Options, data: Named, coordinate: CoordinateOf) -> Mapping[str, Any]:
    """Return what `sel` selects of each axis that it names; raises as `by_positions`."""
    names = [name for name in axis_names(data, range(len(data.shape))) or [] if name]
    found = {}
    for dim, label in (options.sel or {}).items():
        if names.count(dim) != 1:
            raise PlanError(f"{data.name} has no axis {dim!r} of its own; {instead(dim, names)}")
        held = coordinate(dim)
        if held is None:
            others = [repr(name) for name in names if name != dim and coordinate(name) is not None]
            have = f", but {', '.join(others)} have" if others else ", nor has any other"
            raise PlanError(
                f"{data.name}: axis {dim!r} has no coordinate{have}: select of it by positions, "
                "with selection"
            )
        places = positions_of(held, label, data.name, options.sel_method, options.sel_tolerance)
        if held.size and not options.allow_empty and not np.size(np.arange(held.size)[places]):
            raise nothing_selected(held, label, data.name)
        found[dim] = places
    return found


def index_coordinate(array: Any, dim: str) -> xarray.DataArray | None:
    """Return the coordinate of an axis of what xarray holds; None if it has none."""
    if dim not in array.indexes:
        return None
    found: xarray.DataArray = array.coords[dim]
    return found

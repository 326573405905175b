"""Axes by the names that stores give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chunkfold.errors import PlanError
from chunkfold.source import Source


def axis_names(source: Source, axes: Sequence[int]) -> list[str | None] | None:
    """Return the names of some axes, if axes have names: zarr's, or xarray's."""
    names: Any = getattr(source.array.metadata, "dimension_names", None)
    names = names or source.array.attrs.asdict().get("_ARRAY_DIMENSIONS")
    fits = isinstance(names, (list, tuple)) and len(names) == len(source.shape)
    if not fits or not all(name is None or isinstance(name, str) for name in names):
        return None
    return [names[n] for n in axes]


def axis_numbers(source: Source, axes: Sequence[int | str] | None) -> list[int] | None:
    """Return axes by number, whether they are given by number or by name; None stays None.

    Raises
    ------
    PlanError
        If none or several axes of the source have such a name.
    """
    if axes is None:
        return None
    names = axis_names(source, range(len(source.shape))) or []
    for axis in axes:
        if isinstance(axis, str) and names.count(axis) != 1:
            known = ", ".join(repr(name) for name in names if name) or "no names"
            raise PlanError(f"{source.name} has no axis {axis!r}; its axes have: {known}")
    return [names.index(axis) if isinstance(axis, str) else axis for axis in axes]


def carried_attributes(source: Source, *, units: bool, packed: bool = False) -> dict[str, Any]:
    """Return the attributes that what is made of an array takes from it: all but names of axes.

    units
        Whether its values have those of the array.
    packed
        Whether they are packed as the array's are: `scale_factor` and `add_offset` hold for them.
    """
    left = {"_ARRAY_DIMENSIONS", "_FillValue", "missing_value"}
    left |= set() if units else {"units"}
    left |= set() if packed else {"scale_factor", "add_offset"}
    return {name: value for name, value in source.array.attrs.items() if name not in left}

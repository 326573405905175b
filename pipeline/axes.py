"""Axes by the names that stores give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chunkfold.errors import PlanError
from chunkfold.grid import Selection, select
from chunkfold.source import Source

Axis = int | str | Sequence[int | str] | None
"""Axes by number or name; None: all of them."""


def axis_names(source: Source, axes: Sequence[int]) -> list[str | None] | None:
    """Return the names of some axes, if axes have names: zarr's, or xarray's."""
    names: Any = getattr(source.array.metadata, "dimension_names", None)
    names = names or source.array.attrs.asdict().get("_ARRAY_DIMENSIONS")
    fits = isinstance(names, (list, tuple)) and len(names) == len(source.shape)
    if not fits or not all(name is None or isinstance(name, str) for name in names):
        return None
    return [names[n] for n in axes]


def axis_numbers(source: Source, axis: Axis, selection: Selection = None) -> int | list[int] | None:
    """Return axes by number, whether they are given by number or by name.

    Numbers count the axes of the selection: of its integers nothing is left of an axis.

    Raises
    ------
    PlanError
        If none or several axes of the source have such a name, or the selection leaves nothing of
        the one that has; or if the selection is none.
    """
    if axis is None or not isinstance(axis, (str, Sequence)):
        return axis
    axes = [axis] if isinstance(axis, str) else list(axis)
    names = axis_names(source, range(len(source.shape))) or []
    taken = select(source.cells, selection)
    left = [name for name, along in zip(names, taken, strict=False) if not along.dropped]
    numbers: list[int] = []
    for one in axes:
        if isinstance(one, str) and names.count(one) != 1:
            known = ", ".join(repr(name) for name in names if name) or "no names"
            raise PlanError(f"{source.name} has no axis {one!r}; its axes have: {known}")
        if isinstance(one, str) and one not in left:
            raise PlanError(
                f"{source.name}: axis {one!r} cannot be reduced, for the selection {selection!r} "
                "takes one place of it by an integer; take a slice, or leave the axis out"
            )
        numbers.append(left.index(one) if isinstance(one, str) else one)
    return numbers

"""Compare coordinates of the same axes: reorder one array like the other, or refuse it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from chunkfold.errors import PlanError, SourceError
from chunkfold.sources.axis_names import Named
from chunkfold.sources.data_arrays import DataArrays, is_of_xarray
from chunkfold.sources.joined_values import Stored, are_equal, near, order_onto, units_differ
from chunkfold.sources.neighbours import axis_coordinate, coordinate_of_xarray
from chunkfold.sources.source import Source

_NEAR = 1e-5
"""Coordinates of a Zarr may be stored as float32."""
Same = Callable[[Any, Any], Any]
"""Tells of places of the data, and those of what goes along, which are the same: bools."""


class Alignment(NamedTuple):
    """Orders that bring an array into the order of another array."""

    orders: Mapping[int, np.ndarray]
    """Per axis that is in another order: the position of each of the other array's coordinates."""
    differences: Mapping[str, str] = MappingProxyType({})
    """A sentence for each axis whose coordinates have other values."""

    def applied(self, values: np.ndarray) -> np.ndarray:
        """Return values in the other order."""
        for axis, order in self.orders.items():
            values = np.take(values, order, axis)
        return values


def coordinates_of(
    data: Named,
    left_out: Collection[str | None] = (),
    names: Sequence[str | None] | None = None,
) -> dict[str, Stored]:
    """Read the coordinates of all axes that have some, by their names.

    `names` are those of the axes, where the data have none. Coordinates that cannot be read are
    left out: whoever asks for one of them is told.
    """
    found = {}
    for dim in data.dims or names or ():
        if dim is None or dim in left_out:
            continue
        try:
            if isinstance(data, DataArrays):
                coordinate = coordinate_of_xarray(data.arrays[0], dim)
            else:
                assert isinstance(data, Source)
                coordinate = axis_coordinate(data, dim, names)
            if coordinate is not None:
                found[dim] = Stored.of(data.name, coordinate)
        except (SourceError, PlanError):
            continue
    return found


def find_alignment(
    first: Mapping[str, Stored], other: Mapping[str, Stored], names: Sequence[str | None]
) -> Alignment:
    """Return how an array with axes of some names is brought into the order of coordinates."""
    orders, differences = {}, {}
    for dim, own in other.items():
        if dim not in first or are_equal(first[dim], own):
            continue
        order = order_onto(first[dim], own)
        if order is None:
            differences[dim] = _difference(first[dim], own, dim)
        else:
            orders[names.index(dim)] = order
    return Alignment(orders, differences)


def align_to_data(values: np.ndarray, source: Source, data: Named | None) -> np.ndarray:
    """Return what was read of labels, weights or a mask in the order that the data have.

    Raises
    ------
    PlanError
        If a coordinate that both have has other values.
    """
    here, there = set(() if data is None else data.dims or ()), set(source.dims or ())
    if data is None or not here & there - {None}:
        return values
    known, own = coordinates_of(data, here - there), coordinates_of(source, there - here)
    found = find_alignment(known, own, source.dims or ())
    for told in found.differences.values():
        raise PlanError(
            f"{source.name} has other places than {data.name}: {told}; give the same places of "
            "both, or an array without coordinates"
        )
    return found.applied(values)


def _difference(one: Stored, other: Stored, dim: str) -> str:
    """Say how coordinates of two sources differ."""
    if one.meaning != other.meaning:
        return f"their {dim!r} has {one.meaning} in the first and {other.meaning} in the second"
    if units_differ(one, other):
        here, there = one.units[0], other.units[0]
        return f"their {dim!r} is in {here!r} in the first and in {there!r} in the second"
    if one.values.shape != other.values.shape:
        return f"their {dim!r} has {one.values.size} and {other.values.size} places"
    here, there = one.values.tolist(), other.values.tolist()
    unlike = (n for n, same in enumerate(near(one.comparable, other.comparable)) if not same)
    n = next(unlike, 0)
    places = f"at {n} it is {here[n]} in the first and {there[n]} in the second"
    return f"their {dim!r} differs: {places}"


def refuse_other_coordinates(what: str, given: Any, data: Source | DataArrays) -> None:
    """See that weights, a mask or labels that xarray holds are of the data's places, in order.

    Of what is no DataArray only a Zarr array's numeric coordinates can be compared.

    Raises
    ------
    PlanError
        If an axis that both have is called differently along it.
    """
    if not is_of_xarray(given):
        return
    for dim in (one for one in given.dims if one in given.indexes):
        there, (here, same) = given.indexes[dim], _along(data, dim, given.indexes[dim])
        if here is None or len(here) != len(there) or there.equals(here):
            continue  # extents are seen to elsewhere
        unlike = np.flatnonzero(~np.asarray(same(here, there), bool))
        if unlike.size:
            place = int(unlike[0])
            raise PlanError(
                f"{what}: {dim!r} is {there[place]} at {place}, but that of {data.name} is "
                f"{here[place]}: give the same places in the same order, as "
                f"{what}.sel({dim}=data.{dim}) has them"
            )


def _along(data: Source | DataArrays, dim: Hashable, there: Any) -> tuple[Any, Same]:
    """Return the data's places along an axis, None if it has none, and how they are compared."""
    if isinstance(data, DataArrays):
        return data.arrays[0].indexes.get(dim), operator.eq
    numbers = dim in (data.dims or ()) and there.dtype.kind in "iuf"
    return (_coordinate(data, str(dim)) if numbers else None), _near


def _near(here: np.ndarray, there: Any) -> Any:
    scale = _NEAR * np.abs(here).max(initial=0)
    return np.isclose(here, np.asarray(there), rtol=_NEAR, atol=scale)


def _coordinate(source: Source, dim: str) -> np.ndarray | None:
    """Return the numbers along an axis; None if there are none that can be read."""
    try:
        found = axis_coordinate(source, dim)
        if found is None or found.dtype.kind not in "iuf":
            return None
        return found.values(found.whole())
    except (SourceError, PlanError, ValueError, OSError):  # results are worth more
        return None

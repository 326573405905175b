"""Coordinates: what stands beside an array and says where its elements are.

Those of an axis have its name; those of several axes, or of none, are named by the array's
attribute `coordinates`, as the CF conventions have it.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from zarr.dtype import VariableLengthBytes, VariableLengthUTF8

from chunkfold.axes import axis_names, dimension_names
from chunkfold.errors import SourceError
from chunkfold.grid import Axis
from chunkfold.opening import open_beside
from chunkfold.planned import Plan
from chunkfold.remote import message_of
from chunkfold.source import AnyArray

NAMED = "coordinates"
"""The attribute that names others than those of the axes, with blanks between."""
_PLAIN = re.compile(r"(?!\.)(?:(?!::)[^/?#])+")
"""Names of what stands beside an array: others would lead elsewhere."""


@dataclass(frozen=True)
class Coordinate:
    """What stands along an axis, such as its latitudes, or along some."""

    name: str
    axes: tuple[str, ...]
    values: np.ndarray
    """As they are stored, of the elements that are selected along each axis."""
    attributes: dict[str, Any]

    def write(self, group: zarr.Group) -> None:
        """Write it into a group, by its name."""
        values = self.values
        # NumPy has no dtype for texts of any length, or knows it as one of objects.
        texts = all(isinstance(value, str) for value in values.flat)
        dtype = VariableLengthUTF8() if texts else VariableLengthBytes()
        made = group.create_array(
            self.name,
            shape=values.shape,
            dtype=dtype if values.dtype.kind == "O" else values.dtype,
            attributes=self.attributes,
            dimension_names=list(self.axes),
        )
        made[...] = values


def coordinates(plan: Plan, axes: Iterable[int]) -> Iterator[Coordinate]:
    """Yield those of a plan's source that have no axes but some of these, as far as selected.

    One that is there but cannot be read is left out, with a warning: results are worth more.
    """
    kept = list(axes)
    names = axis_names(plan.source, kept) or []
    along = {
        name: (plan.layout.axes[n], plan.source.shape[n])
        for n, name in zip(kept, names, strict=False)
        if name and names.count(name) == 1
    }
    named = plan.source.array.attrs.asdict().get(NAMED)
    others = named.split() if isinstance(named, str) else []
    for name in dict.fromkeys([*along, *others]):
        if not _PLAIN.fullmatch(name):
            continue
        try:
            found = open_beside(plan.source, name)
            own = None if found is None else _axes_of(found, name, along)
            if found is None or own is None:
                continue
            cuts = (along[one][0] for one in own)
            taken = tuple(slice(cut.start, cut.stop, cut.step) for cut in cuts)
            values = np.asarray(found[taken])
        except Exception as error:  # noqa: BLE001 # whatever keeps it from being read
            reason = str(error) if isinstance(error, SourceError) else message_of(error)
            left_out = f"its coordinate {name!r} is left out, it cannot be read: {reason}"
            warnings.warn(f"{plan.name}: {left_out}", RuntimeWarning, stacklevel=2)
            continue
        attributes = found.attrs.asdict()
        attributes.pop("_ARRAY_DIMENSIONS", None)
        yield Coordinate(name, own, values, attributes)


def _axes_of(
    found: AnyArray, name: str, along: Mapping[str, tuple[Axis, int]]
) -> tuple[str, ...] | None:
    """Return the axes of a coordinate; None if it is none of those that are left."""
    names = (name,) if name in along else tuple(dimension_names(found) or ())
    if len(names) != found.ndim or len(set(names)) != len(names) or not set(names) <= set(along):
        return None
    own = tuple(str(one) for one in names)
    return own if found.shape == tuple(along[one][1] for one in own) else None

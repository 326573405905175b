"""What an array made of another takes over from it."""

from __future__ import annotations

from typing import Any

from chunkfold.source import Source


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

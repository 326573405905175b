"""What an array made of another takes over from it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from chunkfold.packed import MISSING, SCALING
from chunkfold.source import Source

_OF_THE_ARRAY = {"_ARRAY_DIMENSIONS", "cell_methods", "coordinates", *MISSING}
_OF_THE_QUANTITY = {"units", "standard_name"}
OF_VALUES = (*SCALING, "_Unsigned", "valid_min", "valid_max", "valid_range")
"""Attributes that say what stored numbers stand for, and which of them there may be."""


def carried_attributes(
    source: Source, *, units: bool, packing: Collection[str] = ()
) -> dict[str, Any]:
    """Return the attributes that what is made of an array takes from it: not the names of axes.

    units
        Whether its values have those of the array, and so may be the same quantity.
    packing
        Those of `OF_VALUES` that hold for its values too.
    """
    left = _OF_THE_ARRAY | set(OF_VALUES) - set(packing) | (set() if units else _OF_THE_QUANTITY)
    return {name: value for name, value in source.array.attrs.items() if name not in left}

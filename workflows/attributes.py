"""What an array made of another takes over from it, and what of it nobody reads."""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Collection, Iterator
from typing import Any

from chunkfold.source import Source

PACKING = ("scale_factor", "add_offset")
"""Attributes by which values are packed in small integers."""
_MISSING = ("_FillValue", "missing_value")
_OF_THE_ARRAY = {"_ARRAY_DIMENSIONS", "cell_methods", *_MISSING}


def carried_attributes(
    source: Source, *, units: bool, packing: Collection[str] = ()
) -> dict[str, Any]:
    """Return the attributes that what is made of an array takes from it: not the names of axes.

    units
        Whether its values have those of the array.
    packing
        Those of `PACKING` that hold for its values too.
    """
    left = _OF_THE_ARRAY | set(PACKING) - set(packing) | (set() if units else {"units"})
    return {name: value for name, value in source.array.attrs.items() if name not in left}


def unread_attributes(source: Source) -> Iterator[str]:
    """Say which attributes call values missing that are folded like any other."""
    for name in _MISSING:
        value = _decoded(source.array.attrs.get(name))
        if value is not None and not (isinstance(value, float) and math.isnan(value)):
            yield f"{source.name}: {name} {value} is folded like any other value"


def _decoded(value: Any) -> Any:
    """Return a number that xarray has written as text, or the value itself."""
    try:
        return struct.unpack("<d", base64.b64decode(value, validate=True))[0]
    except (TypeError, ValueError, binascii.Error, struct.error):
        return value

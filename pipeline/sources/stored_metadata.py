"""Metadata that no array can have: refused when it is opened, with the figure.

zarr takes them, and whoever plans or reads would fail somewhere in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkfold.errors import SourceError

if TYPE_CHECKING:
    from chunkfold.sources.zarr_source import ZarrSource

MOST_AXES = 32
"""Leaves are cut in two along each axis, and NumPy's arrays have twice as many axes at most."""
_MOST = (1 << 63) - 1
"""Positions, and bytes, are of 64 bits with a sign."""
_DEEPEST = 100
"""Levels that attributes may have: copying and comparing takes a call for each."""


def refuse_odd(array: Any, name: str) -> None:
    """Refuse an array whose shape, chunks or attributes are none.

    Raises
    ------
    SourceError
        If they are.
    """
    shape, chunks = tuple(array.shape), tuple(array.shards or array.chunks)
    if len(shape) > MOST_AXES:
        raise SourceError(f"{name}: has {len(shape)} axes, more than {MOST_AXES}")
    for what, extents in (("shape", shape), ("chunks", chunks), ("chunks", tuple(array.chunks))):
        nbytes = math.prod(extents) * max(1, np.dtype(array.dtype).itemsize)
        if any(extent > _MOST for extent in extents) or nbytes > _MOST:
            raise SourceError(
                f"{name}: its metadata say {what} {extents}, which are more than {_MOST:,} bytes"
            )
    # Of an axis without elements zarr makes chunks of 0 itself.
    cells = zip(shape, chunks, array.chunks, strict=True)
    if any(size and min(outer, inner) < 1 for size, outer, inner in cells):
        raise SourceError(
            f"{name}: its metadata say chunks {tuple(array.chunks)} of shape {shape}: no chunk can "
            "have a length of 0"
        )
    attributes = array.metadata.attributes
    if not isinstance(attributes, Mapping):
        raise SourceError(
            f"{name}: its attributes are {type(attributes).__name__}, not an object of JSON"
        )
    if _depth(attributes) > _DEEPEST:
        raise SourceError(f"{name}: its attributes are nested more than {_DEEPEST} levels deep")


def _depth(value: Any) -> int:
    """Return the levels of a value of JSON, at most one more than there may be."""
    level, depth = [value], 0
    while level and depth <= _DEEPEST:
        depth += 1
        inner = [one for one in level if isinstance(one, (Mapping, list, tuple))]
        level = [
            part for one in inner for part in (one.values() if isinstance(one, Mapping) else one)
        ]
    return depth


def same_codecs(source: ZarrSource) -> dict[str, Any]:
    """Return arguments by which zarr makes an array with the codecs of another, if of format 3."""
    if source.array.metadata.zarr_format != 3:
        return {}
    return {"filters": source.array.filters, "compressors": source.array.compressors}

"""The labels of groups as a coordinate of results in a Zarr, and as JSON."""

from __future__ import annotations

from typing import Any

import numpy as np
import zarr
from zarr.dtype import VariableLengthUTF8

from chunkfold.grouping import Grouping

_COARSE = ("Y", "M", "W", "D", "h", "m", "s")
"""Units of times that are seconds without loss."""


def write_groups(group: zarr.Group, grouping: Grouping) -> None:
    """Write the labels of groups beside results: times as CF conventions have them."""
    labels = grouping.groups
    attributes: dict[str, Any] = {}
    if labels.dtype.kind in "mM":
        unit = "seconds" if np.datetime_data(labels.dtype)[0] in _COARSE else "nanoseconds"
        since = " since 1970-01-01" if labels.dtype.kind == "M" else ""
        attributes = {"units": f"{unit}{since}"}
        fine = f"{labels.dtype.kind}8[{'s' if unit == 'seconds' else 'ns'}]"
        labels = labels.astype(fine).astype(np.int64)
    text: Any = VariableLengthUTF8() if labels.dtype.kind == "U" else labels.dtype
    made = group.create_array(
        grouping.axis,
        shape=labels.shape,
        dtype=text,
        attributes=attributes,
        dimension_names=[grouping.axis],
    )
    made[...] = labels.astype(object) if labels.dtype.kind == "U" else labels

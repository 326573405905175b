"""The labels of groups as a coordinate of results in a Zarr, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import zarr
from zarr.dtype import VariableLengthUTF8

from chunkfold.errors import PlanError
from chunkfold.planning.grouping import Grouping

_UNITS = {
    "s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds",
}  # fmt: skip
"""What CF calls units of NumPy's."""
_COARSE = ("Y", "M", "W", "D", "h", "m")
"""Units of dates that are so many seconds; of spans only those from weeks on."""


def refuse_unwritable(grouping: Grouping, axes: Sequence[str]) -> None:
    """Find out whether the labels of groups can be a coordinate, before any work.

    `axes` are the names of the other axes of results.

    Raises
    ------
    PlanError
        If they are times that CF has no unit for, or are called as one of the axes.
    """
    if grouping.axis in axes:
        raise PlanError(
            f"{grouping.name}: the labels of groups are called {grouping.axis!r}, as an axis that "
            "results keep: give them under another name"
        )
    if grouping.groups.dtype.kind in "mM":
        _unit_of(grouping.name, grouping.groups.dtype)


def _unit_of(name: str, dtype: np.dtype) -> str:
    """Return the unit that holds times that label groups, without loss."""
    unit, dated = np.datetime_data(dtype)[0], dtype.kind == "M"
    if unit in _COARSE and (dated or unit not in "YM"):
        unit = "s"
    if unit not in _UNITS:
        raise PlanError(
            f"{name}: labels of {dtype} have no unit in a Zarr; cast them to "
            f"{'datetime64' if dated else 'timedelta64'}[ns] or a coarser one"
        )
    return unit


def write_groups(group: zarr.Group, grouping: Grouping) -> None:
    """Write the labels of groups beside results: times as CF conventions have them."""
    labels = grouping.groups
    attributes: dict[str, Any] = {}
    if labels.dtype.kind in "mM":
        unit = _unit_of(grouping.name, labels.dtype)
        since = " since 1970-01-01" if labels.dtype.kind == "M" else ""
        attributes = {"units": f"{_UNITS[unit]}{since}"}
        labels = labels.astype(f"{labels.dtype.kind}8[{unit}]").astype(np.int64)
    text: Any = VariableLengthUTF8() if labels.dtype.kind == "U" else labels.dtype
    made = group.create_array(
        grouping.axis,
        shape=labels.shape,
        dtype=text,
        attributes=attributes,
        dimension_names=[grouping.axis],
    )
    made[...] = labels.astype(object) if labels.dtype.kind == "U" else labels
